// CRC-32 and CRC-32C with the instructions of x86-64 (crc_x86.cpp) and aarch64 (crc_arm.cpp). Internal to crc.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace relay::crc_cpu {

// Polynomials in reflected bit order: the highest power is the lowest bit.
constexpr uint32_t kZlib = 0xedb88320;
constexpr uint32_t kCastagnoli = 0x82f63b78;

#if defined(__x86_64__) || defined(__aarch64__)

extern const bool kAvailable;  // whether this CPU has the instructions

// `state` is the raw register: it is not inverted before or after.
uint32_t crc32(uint32_t state, const uint8_t* p, size_t n);
uint32_t crc32c(uint32_t state, const uint8_t* p, size_t n);

#else

constexpr bool kAvailable = false;
constexpr uint32_t crc32(uint32_t state, const uint8_t*, size_t) { return state; }
constexpr uint32_t crc32c(uint32_t state, const uint8_t*, size_t) { return state; }

#endif

}  // namespace relay::crc_cpu
