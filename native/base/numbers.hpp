// Formats numbers as the server prints them. Every function writes at p, needs the room that the constants name,
// touches no more than that, and returns the byte after the text.
#pragma once

#include "base/bytes.hpp"

namespace relay {

constexpr size_t kIntegerRoom = 32;
constexpr size_t kDoubleRoom = 40;
constexpr size_t kFixedDoubleRoom = 360;  // a double in plain notation with up to 30 decimals
constexpr size_t kDecimalRoom = 80;

constexpr char kDigitPairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

inline uint8_t* put_two(uint8_t* p, unsigned v) {  // v < 100
  std::memcpy(p, kDigitPairs + 2 * v, 2);
  return p + 2;
}

// The eight digits of v < 100,000,000 as numbers, the most significant in the lowest byte. All pairs and digits are
// split in parallel.
inline uint64_t eight_digits(uint32_t v) {
  uint64_t x = v / 10000 | uint64_t{v % 10000} << 32;
  uint64_t hundreds = (x * 10486 >> 20) & 0x7f0000007f;
  x = hundreds | (x - 100 * hundreds) << 16;
  uint64_t tens = (x * 103 >> 10) & 0x000f000f000f000f;
  return tens | (x - 10 * tens) << 8;
}

constexpr uint64_t kZeros = 0x3030303030303030;  // "00000000"

// Writes the last n of the eight digits of v, n from 1 to 8; touches eight bytes.
inline uint8_t* put_last_digits(uint8_t* p, uint32_t v, unsigned n) {
  store(p, (eight_digits(v) | kZeros) >> (64 - 8 * n));
  return p + n;
}

inline uint8_t* put_below_1e8(uint8_t* p, uint32_t v) {
  uint64_t digits = eight_digits(v);
  auto leading = static_cast<unsigned>(__builtin_ctzll(digits | uint64_t{1} << 56)) >> 3;
  store(p, (digits | kZeros) >> (8 * leading));
  return p + 8 - leading;
}

inline uint8_t* put_unsigned(uint8_t* p, uint64_t v) {
  constexpr uint64_t k1e8 = 100000000;
  if (v < k1e8) return put_below_1e8(p, static_cast<uint32_t>(v));
  uint64_t high = v / k1e8;
  if (high < k1e8) {
    p = put_below_1e8(p, static_cast<uint32_t>(high));
  } else {
    p = put_below_1e8(p, static_cast<uint32_t>(high / k1e8));
    p = put_last_digits(p, static_cast<uint32_t>(high % k1e8), 8);
  }
  return put_last_digits(p, static_cast<uint32_t>(v % k1e8), 8);
}

inline uint8_t* put_signed(uint8_t* p, int64_t v) {
  uint64_t size = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  *p = '-';
  return put_unsigned(p + (v < 0), size);
}

// The shortest text that reads back as the same number.
uint8_t* put_double(uint8_t* p, double v);
uint8_t* put_float(uint8_t* p, float v);                          // six significant digits
uint8_t* put_fixed_double(uint8_t* p, double v, unsigned scale);  // DOUBLE(M,D) and FLOAT(M,D)

// Formats the image of a DECIMAL, decimal_size(precision, scale) bytes.
uint8_t* put_decimal(uint8_t* p, const uint8_t* image, unsigned precision, unsigned scale);

// The same as an integer without the decimal point, for a precision of at most 38. False if the image holds more
// digits.
bool decimal_to_int128(const uint8_t* image, unsigned precision, unsigned scale, __int128* out);

}  // namespace relay
