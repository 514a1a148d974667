// CRC-32 and CRC-32C by their instructions, on aarch64.
#ifdef __aarch64__

#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "base/bytes.hpp"
#include "base/crc_cpu.hpp"

namespace relay::crc_cpu {

const bool kAvailable = getauxval(AT_HWCAP) & HWCAP_CRC32;

__attribute__((target("+crc"))) uint32_t crc32(uint32_t state, const uint8_t* p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) state = __crc32d(state, load<uint64_t>(p));
  for (; n; ++p, --n) state = __crc32b(state, *p);
  return state;
}

__attribute__((target("+crc"))) uint32_t crc32c(uint32_t state, const uint8_t* p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) state = __crc32cd(state, load<uint64_t>(p));
  for (; n; ++p, --n) state = __crc32cb(state, *p);
  return state;
}

}  // namespace relay::crc_cpu

#endif
