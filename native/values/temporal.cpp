// Decoding and formatting of dates and times.
#include "values/temporal.hpp"

#include <ctime>

#include "base/numbers.hpp"

namespace relay {

namespace {

constexpr unsigned kMaxYear = 9999;
constexpr unsigned kTimeHours = 839;  // the hours of a TIME are below this
constexpr int64_t kMicros = 1000000;  // per second

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

// stored: the fraction in an image, in hundredths, ten-thousandths or millionths.
inline uint32_t fraction_micros(uint32_t stored, unsigned digits) {
  return digits <= 2 ? stored * 10000 : digits <= 4 ? stored * 100 : stored;
}

uint8_t* put_micros(uint8_t* p, uint32_t micro, unsigned digits) {
  if (!digits) return p;
  *p++ = '.';
  put_two(p, micro / 10000 % 100);
  put_two(p + 2, micro / 100 % 100);
  put_two(p + 4, micro % 100);
  return p + digits;
}

uint8_t* put_fraction(uint8_t* p, uint32_t stored, unsigned digits) {
  return put_micros(p, fraction_micros(stored, digits), digits);
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

// 17 bits of time; above them 22 bits of year * 13 + month, and day.
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

bool unpack_datetime(const uint8_t* image, Civil* c) {
  uint64_t v = uint64_t{load_be32(image)} << 8 | image[4];
  return v >> 39 && unpack(v & 0x7fffffffff, c);
}

// The proleptic Gregorian calendar, counted in eras of 400 years that begin on 1 March.
Civil utc_civil(uint32_t seconds) {
  uint32_t days = seconds / kDay, rest = seconds % kDay;
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

bool civil_to_days(unsigned year, unsigned month, unsigned day, int32_t* days) {
  static const uint8_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year == 0 || month == 0 || month > 12 || day == 0) return false;
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (day > unsigned{kDays[month - 1]} + (month == 2 && leap)) return false;
  unsigned from_march = month > 2 ? month - 3 : month + 9;
  unsigned y = year - (month <= 2);
  unsigned year_of_era = y % 400;
  unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * from_march + 2) / 5 + day - 1;
  *days = static_cast<int32_t>(y / 400 * 146097 + day_of_era) - 719468;
  return true;
}

bool civil_to_micros(const Civil& c, uint32_t fraction, int64_t* micros) {
  int32_t days;
  if (c.hour > 23 || c.minute > 59 || c.second > 59 || fraction >= kMicros) return false;
  if (!civil_to_days(c.year, c.month, c.day, &days)) return false;
  *micros = (int64_t{days} * kDay + c.hour * 3600 + c.minute * 60 + c.second) * kMicros + fraction;
  return true;
}

// Seconds 0 are the zero date.
bool seconds_to_micros(uint32_t seconds, uint32_t fraction, int64_t* micros) {
  *micros = int64_t{seconds} * kMicros + fraction;
  return seconds != 0 && fraction < kMicros;
}

// Units of the last of `digits` digits per second.
inline uint32_t units(unsigned digits) {
  static const uint32_t kUnits[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
  return kUnits[digits];
}

// Removes the fraction from a number of units and returns it in microseconds.
uint32_t take_fraction(uint64_t* v, unsigned digits) {
  uint32_t unit = units(digits);
  auto fraction = static_cast<uint32_t>(*v % unit);
  *v /= unit;
  return fraction * (1000000 / unit);
}

// Removes the remainder of a division by `base` from `*v` and returns it.
unsigned take(uint64_t* v, unsigned base) {
  auto part = static_cast<unsigned>(*v % base);
  *v /= base;
  return part;
}

bool old_datetime(const uint8_t* image, unsigned digits, Civil* c, uint32_t* micros) {
  static const unsigned kDigits[] = {100, 100, 100, 100, 100}, kUnits[] = {60, 60, 24, 32, 13};
  const unsigned* bases = digits ? kUnits : kDigits;
  uint64_t v = digits ? load_be(image, old_datetime_size(digits)) : load<uint64_t>(image);
  *micros = take_fraction(&v, digits);
  c->second = take(&v, bases[0]);
  c->minute = take(&v, bases[1]);
  c->hour = take(&v, bases[2]);
  c->day = take(&v, bases[3]);
  c->month = take(&v, bases[4]);
  c->year = static_cast<unsigned>(v);
  return v <= kMaxYear;
}

bool old_timestamp(const uint8_t* image, unsigned digits, uint32_t* seconds, uint32_t* micros) {
  *seconds = digits ? load_be32(image) : load<uint32_t>(image);
  uint64_t fraction = digits ? load_be(image + 4, fraction_bytes(digits)) : 0;
  *micros = take_fraction(&fraction, digits);
  return fraction == 0;
}

struct Duration {
  bool negative;
  unsigned hour, minute, second;
  uint32_t fraction;  // as stored; in the old format, in microseconds
};

bool old_duration(const uint8_t* image, unsigned digits, Duration* out) {
  if (!digits) {
    auto v = static_cast<int32_t>(load_le(image, 3) << 8) >> 8;
    unsigned t = static_cast<unsigned>(v < 0 ? -v : v);
    *out = Duration{v < 0, t / 10000, t / 100 % 100, t % 100, 0};
    return true;
  }
  const int64_t zero = int64_t{kTimeHours} * 3600 * units(digits);
  int64_t v = static_cast<int64_t>(load_be(image, old_time_size(digits))) - zero;
  bool negative = v < 0;
  auto size = static_cast<uint64_t>(negative ? -v : v);
  uint32_t micros = take_fraction(&size, digits);
  auto seconds = static_cast<unsigned>(size);
  *out = Duration{negative, seconds / 3600, seconds / 60 % 60, seconds % 60, micros};
  return out->hour < kTimeHours;
}

Duration duration(const uint8_t* image, unsigned digits) {
  unsigned shift = 8 * fraction_bytes(digits);
  auto v = static_cast<int64_t>(load_be(image, 3 + fraction_bytes(digits))) - (int64_t{0x800000} << shift);
  bool negative = v < 0;
  if (negative) v = -v;
  auto whole = static_cast<unsigned>(v >> shift);
  return Duration{negative, whole >> 12 & 0x3ff, whole >> 6 & 0x3f, whole & 0x3f,
                  static_cast<uint32_t>(v & ((int64_t{1} << shift) - 1))};
}

int64_t duration_to_micros(const Duration& d, uint32_t fraction) {
  int64_t micros = (d.hour * int64_t{3600} + d.minute * 60 + d.second) * kMicros + fraction;
  return d.negative ? -micros : micros;
}

uint8_t* put_duration(uint8_t* p, const Duration& d) {
  if (d.negative) *p++ = '-';
  return put_hms(p, d.hour, d.minute, d.second);
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
  if (!seconds) return put_civil(p, Civil{});  // the zero date, which is not a moment
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

uint8_t* put_old_time(uint8_t* p, const uint8_t* image, unsigned digits) {
  Duration d;
  return old_duration(image, digits, &d) ? put_micros(put_duration(p, d), d.fraction, digits) : nullptr;
}

uint8_t* put_old_datetime(uint8_t* p, const uint8_t* image, unsigned digits) {
  Civil c;
  uint32_t micros;
  return old_datetime(image, digits, &c, &micros) ? put_micros(put_civil(p, c), micros, digits) : nullptr;
}

uint8_t* put_old_timestamp(uint8_t* p, const uint8_t* image, unsigned digits, bool utc) {
  uint32_t seconds, micros;
  if (!old_timestamp(image, digits, &seconds, &micros)) return nullptr;
  return put_micros(put_seconds(p, seconds, utc), micros, digits);
}

uint8_t* put_time(uint8_t* p, const uint8_t* image, unsigned digits) {
  Duration d = duration(image, digits);
  return put_fraction(put_duration(p, d), d.fraction, digits);
}

uint8_t* put_datetime(uint8_t* p, const uint8_t* image, unsigned digits) {
  Civil c;
  if (!unpack_datetime(image, &c)) return nullptr;
  p = put_civil(p, c);
  return put_fraction(p, load_fraction(image + 5, digits), digits);
}

uint8_t* put_timestamp(uint8_t* p, const uint8_t* image, unsigned digits, bool utc) {
  p = put_seconds(p, load_be32(image), utc);
  return put_fraction(p, load_fraction(image + 4, digits), digits);
}

bool date_to_days(const uint8_t* image, int32_t* days) {
  auto v = static_cast<uint32_t>(load_le(image, 3));
  return v >> 9 <= kMaxYear && civil_to_days(v >> 9, v >> 5 & 0xf, v & 0x1f, days);
}

bool old_datetime_to_micros(const uint8_t* image, unsigned digits, int64_t* micros) {
  Civil c;
  uint32_t fraction;
  return old_datetime(image, digits, &c, &fraction) && civil_to_micros(c, fraction, micros);
}

bool old_timestamp_to_micros(const uint8_t* image, unsigned digits, int64_t* micros) {
  uint32_t seconds, fraction;
  return old_timestamp(image, digits, &seconds, &fraction) && seconds_to_micros(seconds, fraction, micros);
}

bool datetime_to_micros(const uint8_t* image, unsigned digits, int64_t* micros) {
  Civil c;
  return unpack_datetime(image, &c) &&
         civil_to_micros(c, fraction_micros(load_fraction(image + 5, digits), digits), micros);
}

bool timestamp_to_micros(const uint8_t* image, unsigned digits, int64_t* micros) {
  return seconds_to_micros(load_be32(image), fraction_micros(load_fraction(image + 4, digits), digits), micros);
}

bool old_time_to_micros(const uint8_t* image, unsigned digits, int64_t* micros) {
  Duration d;
  if (!old_duration(image, digits, &d)) return false;
  *micros = duration_to_micros(d, d.fraction);
  return true;
}

int64_t time_to_micros(const uint8_t* image, unsigned digits) {
  Duration d = duration(image, digits);
  return duration_to_micros(d, fraction_micros(d.fraction, digits));
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
