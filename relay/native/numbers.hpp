// Numbers as the server prints them. Every function writes at p, where there is room, and returns the byte after the text.
#pragma once

#include "bytes.hpp"

namespace relay {

constexpr size_t kIntegerRoom = 24;
constexpr size_t kDoubleRoom = 40;
constexpr size_t kFixedDoubleRoom = 360;  // a double in plain notation, with up to 30 decimals
constexpr size_t kDecimalRoom = 72;

extern const char kDigitPairs[201];  // "00" to "99"

inline uint8_t* put_two(uint8_t* p, unsigned v) {  // v < 100
  std::memcpy(p, kDigitPairs + 2 * v, 2);
  return p + 2;
}

uint8_t* put_unsigned(uint8_t* p, uint64_t v);

inline uint8_t* put_signed(uint8_t* p, int64_t v) {
  if (v >= 0) return put_unsigned(p, static_cast<uint64_t>(v));
  *p = '-';
  return put_unsigned(p + 1, 0 - static_cast<uint64_t>(v));
}

uint8_t* put_zero_filled(uint8_t* p, uint64_t v, unsigned width);  // width <= 255

// The shortest text that reads back as the same number.
uint8_t* put_double(uint8_t* p, double v);
uint8_t* put_float(uint8_t* p, float v);                        // six significant digits
uint8_t* put_fixed_double(uint8_t* p, double v, unsigned scale);  // DOUBLE(M,D) and FLOAT(M,D)

// A DECIMAL's image, of decimal_size(precision, scale) bytes.
uint8_t* put_decimal(uint8_t* p, const uint8_t* image, unsigned precision, unsigned scale);

}  // namespace relay
