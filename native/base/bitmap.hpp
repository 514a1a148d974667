// Column bitmaps as rows events have them: bit i of byte i / 8 is column i.
#pragma once

#include "base/bytes.hpp"

namespace relay {

inline bool bit(const uint8_t* bits, size_t i) { return bits[i >> 3] >> (i & 7) & 1; }

inline size_t bytes_for(size_t bits) { return (bits + 7) / 8; }

// Whether the first n bits are all `value`.
inline bool all_bits(const uint8_t* bits, size_t n, bool value) {
  uint8_t whole = value ? 0xff : 0;
  for (size_t i = 0; i < n / 8; ++i) {
    if (bits[i] != whole) return false;
  }
  unsigned mask = (1u << (n & 7)) - 1;
  return (n & 7) == 0 || (bits[n / 8] & mask) == (whole & mask);
}

inline size_t count_bits(const uint8_t* bits, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) count += bit(bits, i);
  return count;
}

}  // namespace relay
