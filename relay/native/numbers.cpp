#include "numbers.hpp"

#include <charconv>
#include <cmath>

namespace relay {

const char kDigitPairs[201] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

namespace {

// Outside of these powers of ten the servers write an exponent.
constexpr int kLowestPlain = -15;
constexpr int kHighestPlain = 14;
constexpr int kFloatDigits = 6;
constexpr unsigned kDigitsPerWord = 9;

uint8_t* fill(uint8_t* p, uint8_t byte, size_t n) {
  std::memset(p, byte, n);
  return p + n;
}

uint8_t* copy(uint8_t* p, const char* from, size_t n) {
  std::memcpy(p, from, n);
  return p + n;
}

// digits are "d.ddd": n of them without the point, the first at 10^exponent.
uint8_t* put_digits(uint8_t* p, const char* digits, int n, int exponent) {
  if (exponent < kLowestPlain || exponent > kHighestPlain) {
    *p++ = static_cast<uint8_t>(digits[0]);
    if (n > 1) {
      *p++ = '.';
      p = copy(p, digits + 1, static_cast<size_t>(n - 1));
    }
    *p++ = 'e';
    return put_signed(p, exponent);
  }
  if (exponent < 0) {
    p = copy(p, "0.", 2);
    p = fill(p, '0', static_cast<size_t>(-exponent - 1));
    return copy(p, digits, static_cast<size_t>(n));
  }
  int whole = exponent + 1;
  if (n <= whole) {
    p = copy(p, digits, static_cast<size_t>(n));
    return fill(p, '0', static_cast<size_t>(whole - n));
  }
  p = copy(p, digits, static_cast<size_t>(whole));
  *p++ = '.';
  return copy(p, digits + whole, static_cast<size_t>(n - whole));
}

// From "[-]d.ddde[+-]xx" as to_chars writes it.
uint8_t* put_scientific(uint8_t* p, const char* from, const char* end) {
  if (*from == '-') *p++ = static_cast<uint8_t>(*from++);
  char digits[32];
  int n = 0;
  for (; from != end && *from != 'e'; ++from) {
    if (*from != '.') digits[n++] = *from;
  }
  int exponent = 0;
  bool negative = from[1] == '-';
  for (from += 2; from < end; ++from) exponent = exponent * 10 + (*from - '0');
  while (n > 1 && digits[n - 1] == '0') --n;
  return put_digits(p, digits, n, negative ? -exponent : exponent);
}

// Numbers of up to six decimals and fifteen digits, which is what people store, without the general algorithm: no two such
// texts stand for the same double, so the one found is the shortest.
uint8_t* put_short_double(uint8_t* p, double v) {
  constexpr double kLimit = 1e9;
  double size = std::fabs(v);
  if (!(size < kLimit)) return nullptr;
  auto scaled = static_cast<uint64_t>(size * 1e6 + 0.5);
  if (static_cast<double>(scaled) / 1e6 != size) return nullptr;
  if (std::signbit(v)) *p++ = '-';
  p = put_unsigned(p, scaled / 1000000);
  auto fraction = static_cast<unsigned>(scaled % 1000000);
  if (!fraction) return p;
  *p++ = '.';
  p = put_two(p, fraction / 10000);
  p = put_two(p, fraction / 100 % 100);
  p = put_two(p, fraction % 100);
  while (p[-1] == '0') --p;
  return p;
}

uint8_t* put_not_finite(uint8_t* p, double v) {  // no server stores these
  if (std::isnan(v)) return copy(p, "nan", 3);
  return std::signbit(v) ? copy(p, "-inf", 4) : copy(p, "inf", 3);
}

uint8_t* put_nine(uint8_t* p, uint32_t v) {
  for (unsigned i = 0; i < 4; ++i) {
    put_two(p + 7 - 2 * i, v % 100);
    v /= 100;
  }
  *p = static_cast<uint8_t>('0' + v % 10);
  return p + kDigitsPerWord;
}

// The last n of nine digits.
uint8_t* put_some_of_nine(uint8_t* p, uint32_t v, unsigned n) {
  uint8_t nine[kDigitsPerWord];
  put_nine(nine, v);
  std::memcpy(p, nine + kDigitsPerWord - n, n);
  return p + n;
}

}  // namespace

uint8_t* put_unsigned(uint8_t* p, uint64_t v) {
  char* at = reinterpret_cast<char*>(p);
  if (v <= UINT32_MAX) return reinterpret_cast<uint8_t*>(std::to_chars(at, at + kIntegerRoom, static_cast<uint32_t>(v)).ptr);
  return reinterpret_cast<uint8_t*>(std::to_chars(at, at + kIntegerRoom, v).ptr);
}

uint8_t* put_zero_filled(uint8_t* p, uint64_t v, unsigned width) {
  uint8_t digits[kIntegerRoom];
  auto n = static_cast<unsigned>(put_unsigned(digits, v) - digits);
  if (n < width) p = fill(p, '0', width - n);
  std::memcpy(p, digits, n);
  return p + n;
}

uint8_t* put_double(uint8_t* p, double v) {
  if (uint8_t* end = put_short_double(p, v)) return end;
  if (!std::isfinite(v)) return put_not_finite(p, v);
  char text[40];
  return put_scientific(p, text, std::to_chars(text, text + sizeof text, v, std::chars_format::scientific).ptr);
}

uint8_t* put_float(uint8_t* p, float v) {
  if (!std::isfinite(v)) return put_not_finite(p, static_cast<double>(v));
  if (v == 0) return std::signbit(v) ? copy(p, "-0", 2) : copy(p, "0", 1);
  // Up to six digits that read back as the same number are also the number rounded to six: a float holds six exactly.
  char text[40];
  char* end = std::to_chars(text, text + sizeof text, v, std::chars_format::scientific).ptr;
  const char* e = end;
  while (*--e != 'e') {
  }
  auto digits = static_cast<int>(e - text) - (text[0] == '-') - (e - text > 2 ? 1 : 0);
  if (digits > kFloatDigits || !std::isnormal(v)) {
    end = std::to_chars(text, text + sizeof text, static_cast<double>(v), std::chars_format::scientific, kFloatDigits - 1).ptr;
  }
  return put_scientific(p, text, end);
}

uint8_t* put_fixed_double(uint8_t* p, double v, unsigned scale) {
  if (!std::isfinite(v)) return put_not_finite(p, v);
  char* at = reinterpret_cast<char*>(p);
  return reinterpret_cast<uint8_t*>(
      std::to_chars(at, at + kFixedDoubleRoom, v, std::chars_format::fixed, static_cast<int>(scale)).ptr);
}

uint8_t* put_decimal(uint8_t* p, const uint8_t* image, unsigned precision, unsigned scale) {
  static const uint8_t kPartial[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
  unsigned whole = precision - scale;
  bool negative = !(image[0] & 0x80);
  uint32_t flip = negative ? 0xffffffff : 0;
  uint32_t sign_bit = 0x80;  // of the first byte, which is part of the first number
  auto word = [&](unsigned digits) {
    unsigned n = kPartial[digits];
    uint32_t v = static_cast<uint32_t>(load_be(image, n)) ^ sign_bit << 8 * (n - 1);
    sign_bit = 0;
    image += n;
    return (v ^ flip) & (n == 4 ? 0xffffffff : (1u << 8 * n) - 1);
  };
  if (negative) *p++ = '-';
  uint8_t* start = p;
  if (whole % kDigitsPerWord) p = put_some_of_nine(p, word(whole % kDigitsPerWord), whole % kDigitsPerWord);
  for (unsigned i = 0; i < whole / kDigitsPerWord; ++i) p = put_nine(p, word(kDigitsPerWord));
  uint8_t* first = start;
  while (first < p && *first == '0') ++first;
  if (first == p) {
    *start = '0';
    p = start + 1;
  } else if (first > start) {
    std::memmove(start, first, static_cast<size_t>(p - first));
    p -= first - start;
  }
  if (!scale) return p;
  *p++ = '.';
  for (unsigned i = 0; i < scale / kDigitsPerWord; ++i) p = put_nine(p, word(kDigitsPerWord));
  if (scale % kDigitsPerWord) p = put_some_of_nine(p, word(scale % kDigitsPerWord), scale % kDigitsPerWord);
  return p;
}

}  // namespace relay
