// CRC-32 and CRC-32C: by tables everywhere, by instructions where the CPU has them.
#include "base/crc.hpp"

#include <array>

#include "base/crc_cpu.hpp"

namespace relay {
namespace {

struct Tables {
  std::array<std::array<uint32_t, 256>, 8> t{};
};

// Table k advances a byte over k more zero bytes, so that eight bytes are processed at once (slicing-by-8).
constexpr Tables make_tables(uint32_t polynomial) {
  Tables tables;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
    tables.t[0][i] = c;
  }
  for (unsigned k = 1; k < 8; ++k)
    for (unsigned i = 0; i < 256; ++i) {
      uint32_t c = tables.t[k - 1][i];
      tables.t[k][i] = c >> 8 ^ tables.t[0][c & 0xff];
    }
  return tables;
}

constexpr Tables kZlibTables = make_tables(crc_cpu::kZlib);
constexpr Tables kCastagnoliTables = make_tables(crc_cpu::kCastagnoli);

// `state` is the raw register: it is not inverted before or after.
uint32_t sliced(const Tables& tables, uint32_t state, const uint8_t* p, size_t n) {
  const auto& t = tables.t;
  for (; n >= 8; p += 8, n -= 8) {
    uint32_t a = load<uint32_t>(p) ^ state;
    uint32_t b = load<uint32_t>(p + 4);
    state = t[7][a & 0xff] ^ t[6][a >> 8 & 0xff] ^ t[5][a >> 16 & 0xff] ^ t[4][a >> 24] ^ t[3][b & 0xff] ^
            t[2][b >> 8 & 0xff] ^ t[1][b >> 16 & 0xff] ^ t[0][b >> 24];
  }
  for (; n; ++p, --n) state = state >> 8 ^ t[0][(state ^ *p) & 0xff];
  return state;
}

}  // namespace

uint32_t crc32_portable(Bytes b, uint32_t crc) { return ~sliced(kZlibTables, ~crc, b.data, b.size); }

uint32_t crc32c_portable(Bytes b, uint32_t crc) { return ~sliced(kCastagnoliTables, ~crc, b.data, b.size); }

uint32_t crc32(Bytes b, uint32_t crc) {
  return crc_cpu::kAvailable ? ~crc_cpu::crc32(~crc, b.data, b.size) : crc32_portable(b, crc);
}

uint32_t crc32c(Bytes b, uint32_t crc) {
  return crc_cpu::kAvailable ? ~crc_cpu::crc32c(~crc, b.data, b.size) : crc32c_portable(b, crc);
}

}  // namespace relay
