// Formatting of floating-point numbers and decimals.
#include "base/numbers.hpp"

#include <charconv>
#include <cmath>

namespace relay {

namespace {

// Below this power of ten the servers write an exponent. Above the upper one they do too, unless there are digits after
// the decimal point.
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

// `digits` is "d.ddd" with n digits in all; the first one has the power 10^exponent.
uint8_t* put_digits(uint8_t* p, const char* digits, int n, int exponent) {
  if (exponent < kLowestPlain || (exponent > kHighestPlain && n <= exponent + 1)) {
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

// Reformats "[-]d.ddde[+-]xx", the output of to_chars.
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

// A fast path for numbers with up to six decimals and fifteen digits, the usual ones. No two such texts stand for the
// same double, so the text found is the shortest.
uint8_t* put_short_double(uint8_t* p, double v) {
  constexpr double kLimit = 1e9;
  double size = std::fabs(v);
  if (!(size < kLimit)) return nullptr;
  auto scaled = static_cast<int64_t>(size * 1e6 + 0.5);
  if (static_cast<double>(scaled) / 1e6 != size) return nullptr;
  *p = '-';
  p = put_unsigned(p + std::signbit(v), static_cast<uint64_t>(scaled / 1000000));
  auto fraction = static_cast<uint32_t>(scaled % 1000000);
  if (!fraction) return p;
  *p++ = '.';
  p = put_last_digits(p, fraction, 6);
  while (p[-1] == '0') --p;
  return p;
}

// A fast path for floats of usual size, rounded to six digits. It scales the number so that these digits precede the
// decimal point; a double does that exactly for 24 bits times a power of ten below 10^9.
uint8_t* put_short_float(uint8_t* p, float v) {
  static const double kPowers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
  static const uint32_t kUnits[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  constexpr double kLeast = 1e-3f, kLimit = 1e6, kRound = 0x1p52;  // adding this rounds to an integer, ties to even
  double size = std::fabs(static_cast<double>(v));
  if (!(size >= kLeast && size < kLimit)) return nullptr;
  unsigned decimals = size < 1 ? (size < 0.01  ? 8
                                  : size < 0.1 ? 7
                                               : 6)
                               : (size < 10    ? 5
                                  : size < 100 ? 4
                                  : size < 1e3 ? 3
                                  : size < 1e4 ? 2
                                  : size < 1e5 ? 1
                                               : 0);
  auto scaled = static_cast<uint32_t>(size * kPowers[decimals] + kRound - kRound);
  *p = '-';
  p = put_unsigned(p + std::signbit(v), scaled / kUnits[decimals]);
  uint32_t fraction = scaled % kUnits[decimals];
  if (!fraction) return p;
  *p++ = '.';
  p = put_last_digits(p, fraction, decimals);
  while (p[-1] == '0') --p;
  return p;
}

uint8_t* put_not_finite(uint8_t* p, double v) {  // servers do not store these
  if (std::isnan(v)) return copy(p, "nan", 3);
  return std::signbit(v) ? copy(p, "-inf", 4) : copy(p, "inf", 3);
}

uint8_t* put_nine(uint8_t* p, uint32_t v) {
  *p = static_cast<uint8_t>('0' + v / 100000000 % 10);
  return put_last_digits(p + 1, v % 100000000, 8);
}

uint32_t load_be_word(const uint8_t* p, unsigned n) {
  switch (n) {
    case 1: return p[0];
    case 2: return load_be16(p);
    case 3: return uint32_t{load_be16(p)} << 8 | p[2];
    default: return load_be32(p);
  }
}

// Reads the image of a DECIMAL: groups of nine digits, with fewer in the first and the last group. The first bit is the
// inverted sign; all bits of a negative number are inverted.
class DecimalReader {
 public:
  explicit DecimalReader(const uint8_t* image) : p_(image), flip_(image[0] & 0x80 ? 0 : ~uint32_t{0}) {}
  unsigned negative() const { return flip_ & 1; }

  uint32_t next(unsigned digits) {
    static const uint8_t kBytes[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    unsigned n = kBytes[digits];
    uint32_t v = load_be_word(p_, n) ^ flip_ ^ sign_ << 8 * (n - 1);
    p_ += n;
    sign_ = 0;
    return v & 0xffffffff >> (32 - 8 * n);
  }

 private:
  const uint8_t* p_;
  uint32_t flip_;
  uint32_t sign_ = 0x80;  // until it is read
};

}  // namespace

uint8_t* put_double(uint8_t* p, double v) {
  if (uint8_t* end = put_short_double(p, v)) return end;
  if (!std::isfinite(v)) return put_not_finite(p, v);
  char text[40];
  return put_scientific(p, text, std::to_chars(text, text + sizeof text, v, std::chars_format::scientific).ptr);
}

uint8_t* put_float(uint8_t* p, float v) {
  if (uint8_t* end = put_short_float(p, v)) return end;
  if (!std::isfinite(v)) return put_not_finite(p, static_cast<double>(v));
  if (v == 0) return std::signbit(v) ? copy(p, "-0", 2) : copy(p, "0", 1);
  // A text of up to six digits that reads back as the same number is also the number rounded to six digits: a float
  // holds six digits exactly.
  char text[40];
  char* end = std::to_chars(text, text + sizeof text, v, std::chars_format::scientific).ptr;
  const char* e = end;
  while (*--e != 'e') {
  }
  auto digits = static_cast<int>(e - text) - (text[0] == '-') - (e - text > 2 ? 1 : 0);
  if (digits > kFloatDigits || !std::isnormal(v)) {
    constexpr auto kForm = std::chars_format::scientific;
    end = std::to_chars(text, text + sizeof text, static_cast<double>(v), kForm, kFloatDigits - 1).ptr;
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
  DecimalReader in(image);
  unsigned whole = precision - scale;
  *p = '-';
  p += in.negative();
  if (whole - 1 < kDigitsPerWord - 1 && scale - 1 < kDigitsPerWord - 1) {  // one short group on each side: as of money
    p = put_unsigned(p, in.next(whole));
    *p++ = '.';
    const uint32_t fraction = in.next(scale);
    return scale == 2 ? put_two(p, fraction % 100) : put_last_digits(p, fraction % 100000000, scale);
  }
  uint8_t* start = p;
  if (unsigned few = whole % kDigitsPerWord) {
    if (uint32_t v = in.next(few)) p = put_unsigned(p, v);
  }
  for (unsigned i = 0; i < whole / kDigitsPerWord; ++i) {
    uint32_t v = in.next(kDigitsPerWord);
    if (p != start) {
      p = put_nine(p, v);
    } else if (v) {
      p = put_unsigned(p, v);
    }
  }
  if (p == start) *p++ = '0';
  if (!scale) return p;
  *p++ = '.';
  for (unsigned i = 0; i < scale / kDigitsPerWord; ++i) p = put_nine(p, in.next(kDigitsPerWord));
  if (unsigned few = scale % kDigitsPerWord) p = put_last_digits(p, in.next(few) % 100000000, few);
  return p;
}

bool decimal_to_int128(const uint8_t* image, unsigned precision, unsigned scale, __int128* out) {
  static const uint32_t kPowers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  DecimalReader in(image);
  unsigned __int128 v = 0;
  bool fits = true;
  auto take = [&](unsigned digits) {
    if (digits == 0) return;
    uint32_t group = in.next(digits);
    fits &= group < kPowers[digits];
    v = v * kPowers[digits] + group;
  };
  unsigned whole = precision - scale;
  if (whole - 1 < kDigitsPerWord - 1 && scale - 1 < kDigitsPerWord - 1) {  // as in put_decimal
    const uint32_t high = in.next(whole), low = in.next(scale);
    const auto both = static_cast<int64_t>(uint64_t{high} * kPowers[scale] + low);
    *out = in.negative() ? -both : both;
    return high < kPowers[whole] && low < kPowers[scale];
  }
  take(whole % kDigitsPerWord);
  for (unsigned i = 0; i < whole / kDigitsPerWord; ++i) take(kDigitsPerWord);
  for (unsigned i = 0; i < scale / kDigitsPerWord; ++i) take(kDigitsPerWord);
  take(scale % kDigitsPerWord);
  *out = static_cast<__int128>(in.negative() ? 0 - v : v);
  return fits;
}

}  // namespace relay
