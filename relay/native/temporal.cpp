#include "temporal.hpp"

#include <ctime>

#include "numbers.hpp"

namespace relay {

namespace {

constexpr unsigned kMaxYear = 9999;

struct Civil {
  unsigned year, month, day, hour, minute, second;
};

uint8_t* put_ymd(uint8_t* p, unsigned year, unsigned month, unsigned day) {
  p = put_two(p, year / 100);
  p = put_two(p, year % 100);
  *p++ = '-';
  p = put_two(p, month);
  *p++ = '-';
  return put_two(p, day);
}

uint8_t* put_hms(uint8_t* p, unsigned hour, unsigned minute, unsigned second) {
  if (hour < 100) {
    p = put_two(p, hour);
  } else {
    p = put_unsigned(p, hour);
  }
  *p++ = ':';
  p = put_two(p, minute);
  *p++ = ':';
  return put_two(p, second);
}

uint8_t* put_civil(uint8_t* p, const Civil& c) {
  p = put_ymd(p, c.year, c.month, c.day);
  *p++ = ' ';
  return put_hms(p, c.hour, c.minute, c.second);
}

// stored: the fraction as an image holds it, in hundredths, ten-thousandths or millionths.
uint8_t* put_fraction(uint8_t* p, uint32_t stored, unsigned digits) {
  if (!digits) return p;
  *p++ = '.';
  uint32_t micro = digits <= 2 ? stored * 10000 : digits <= 4 ? stored * 100 : stored;
  put_two(p, micro / 10000 % 100);
  put_two(p + 2, micro / 100 % 100);
  put_two(p + 4, micro % 100);
  return p + digits;
}

inline unsigned fraction_bytes(unsigned digits) { return (digits + 1) / 2; }

inline uint32_t load_fraction(const uint8_t* p, unsigned digits) {
  switch (fraction_bytes(digits)) {
    case 0: return 0;
    case 1: return p[0];
    case 2: return load_be16(p);
    default: return uint32_t{load_be16(p)} << 8 | p[2];
  }
}

// 17 bits of time, and above them 22 of year * 13 + month, and day.
bool unpack(uint64_t packed, Civil* c) {
  uint64_t ymd = packed >> 17;
  uint64_t months = ymd >> 5;
  c->year = static_cast<unsigned>(months / 13);
  c->month = static_cast<unsigned>(months % 13);
  c->day = ymd & 0x1f;
  c->hour = packed >> 12 & 0x1f;
  c->minute = packed >> 6 & 0x3f;
  c->second = packed & 0x3f;
  return c->year <= kMaxYear;
}

// The proleptic Gregorian calendar counted in eras of 400 years that begin on 1 March.
Civil utc_civil(uint32_t seconds) {
  uint32_t days = seconds / 86400, rest = seconds % 86400;
  uint32_t z = days + 719468;
  uint32_t era = z / 146097;
  uint32_t day_of_era = z - era * 146097;
  uint32_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  uint32_t shifted_month = (5 * day_of_year + 2) / 153;
  Civil c;
  c.day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
  c.month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
  c.year = year_of_era + era * 400 + (c.month <= 2);
  c.hour = rest / 3600;
  c.minute = rest / 60 % 60;
  c.second = rest % 60;
  return c;
}

Civil local_civil(uint32_t seconds) {
  time_t t = seconds;
  tm parts;
  localtime_r(&t, &parts);
  return Civil{static_cast<unsigned>(parts.tm_year + 1900), static_cast<unsigned>(parts.tm_mon + 1),
               static_cast<unsigned>(parts.tm_mday),        static_cast<unsigned>(parts.tm_hour),
               static_cast<unsigned>(parts.tm_min),         static_cast<unsigned>(parts.tm_sec)};
}

uint8_t* put_seconds(uint8_t* p, uint32_t seconds, bool utc) {
  if (!seconds) return put_civil(p, Civil{});  // the zero date, which is no moment
  return put_civil(p, utc ? utc_civil(seconds) : local_civil(seconds));
}

}  // namespace

uint8_t* put_year(uint8_t* p, uint8_t stored) {
  if (stored) return put_unsigned(p, 1900u + stored);
  std::memcpy(p, "0000", 4);
  return p + 4;
}

uint8_t* put_date(uint8_t* p, const uint8_t* image) {
  auto v = static_cast<uint32_t>(load_le(image, 3));
  if (v >> 9 > kMaxYear) return nullptr;
  return put_ymd(p, v >> 9, v >> 5 & 0xf, v & 0x1f);
}

uint8_t* put_old_time(uint8_t* p, const uint8_t* image) {
  auto v = static_cast<int32_t>(load_le(image, 3) << 8) >> 8;
  if (v < 0) *p++ = '-';
  unsigned t = static_cast<unsigned>(v < 0 ? -v : v);
  return put_hms(p, t / 10000, t / 100 % 100, t % 100);
}

uint8_t* put_old_datetime(uint8_t* p, const uint8_t* image) {
  uint64_t v = load<uint64_t>(image);
  uint64_t date = v / 1000000, time = v % 1000000;
  if (date > 99991231) return nullptr;
  return put_civil(p, Civil{static_cast<unsigned>(date / 10000), static_cast<unsigned>(date / 100 % 100),
                            static_cast<unsigned>(date % 100), static_cast<unsigned>(time / 10000),
                            static_cast<unsigned>(time / 100 % 100), static_cast<unsigned>(time % 100)});
}

uint8_t* put_old_timestamp(uint8_t* p, const uint8_t* image, bool utc) {
  return put_seconds(p, load<uint32_t>(image), utc);
}

uint8_t* put_time(uint8_t* p, const uint8_t* image, unsigned digits) {
  unsigned shift = 8 * fraction_bytes(digits);
  auto v = static_cast<int64_t>(load_be(image, 3 + fraction_bytes(digits))) - (int64_t{0x800000} << shift);
  if (v < 0) {
    *p++ = '-';
    v = -v;
  }
  auto whole = static_cast<unsigned>(v >> shift);
  p = put_hms(p, whole >> 12 & 0x3ff, whole >> 6 & 0x3f, whole & 0x3f);
  return put_fraction(p, static_cast<uint32_t>(v & ((int64_t{1} << shift) - 1)), digits);
}

uint8_t* put_datetime(uint8_t* p, const uint8_t* image, unsigned digits) {
  uint64_t v = uint64_t{load_be32(image)} << 8 | image[4];
  Civil c;
  if (!(v >> 39) || !unpack(v & 0x7fffffffff, &c)) return nullptr;
  p = put_civil(p, c);
  return put_fraction(p, load_fraction(image + 5, digits), digits);
}

uint8_t* put_timestamp(uint8_t* p, const uint8_t* image, unsigned digits, bool utc) {
  p = put_seconds(p, load_be32(image), utc);
  return put_fraction(p, load_fraction(image + 4, digits), digits);
}

uint8_t* put_packed_date(uint8_t* p, int64_t packed) {
  Civil c;
  if (packed < 0 || !unpack(static_cast<uint64_t>(packed) >> 24, &c)) return nullptr;
  return put_ymd(p, c.year, c.month, c.day);
}

uint8_t* put_packed_time(uint8_t* p, int64_t packed) {
  uint64_t v = packed < 0 ? 0 - static_cast<uint64_t>(packed) : static_cast<uint64_t>(packed);
  if (packed < 0) *p++ = '-';
  p = put_hms(p, v >> 36 & 0x3ff, v >> 30 & 0x3f, v >> 24 & 0x3f);
  return put_fraction(p, v & 0xffffff, 6);
}

uint8_t* put_packed_datetime(uint8_t* p, int64_t packed) {
  Civil c;
  if (packed < 0 || !unpack(static_cast<uint64_t>(packed) >> 24, &c)) return nullptr;
  p = put_civil(p, c);
  return put_fraction(p, packed & 0xffffff, 6);
}

}  // namespace relay
