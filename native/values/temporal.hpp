// Formats dates and times as the server prints them. Every function writes at p, which has kTemporalRoom bytes, and
// returns the byte after the text, or nullptr if the bytes are not a date or time.
#pragma once

#include "base/bytes.hpp"

namespace relay {

constexpr size_t kTemporalRoom = 48;

constexpr uint32_t kDay = 86400;  // seconds

// The day of a second, both counted from the beginning of 1970.
constexpr int64_t day_of(int64_t second) { return second / kDay - (second % kDay < 0); }

// Sizes of the images that servers before MySQL 5.6 wrote. Without a fraction they hold decimal digits, or seconds,
// least significant byte first. With a fraction (MariaDB before 10.1) they are numbers in units of the last digit, most
// significant byte first: TIME since -839:00:00, DATETIME in months of 32 days and years of 13 months; TIMESTAMP has
// the fraction after its seconds.
inline uint32_t old_time_size(unsigned digits) { return digits ? 4 + (digits > 2) + (digits > 5) : 3; }
inline uint32_t old_datetime_size(unsigned digits) { return digits ? 6 + (digits > 2) + (digits > 5) : 8; }
inline uint32_t old_timestamp_size(unsigned digits) { return 4 + (digits + 1) / 2; }

uint8_t* put_year(uint8_t* p, uint8_t stored);
uint8_t* put_date(uint8_t* p, const uint8_t* image);
// digits: of the fraction, 0 to 6
uint8_t* put_old_time(uint8_t* p, const uint8_t* image, unsigned digits);
uint8_t* put_old_datetime(uint8_t* p, const uint8_t* image, unsigned digits);
uint8_t* put_old_timestamp(uint8_t* p, const uint8_t* image, unsigned digits, bool utc);
uint8_t* put_time(uint8_t* p, const uint8_t* image, unsigned digits);
uint8_t* put_datetime(uint8_t* p, const uint8_t* image, unsigned digits);
uint8_t* put_timestamp(uint8_t* p, const uint8_t* image, unsigned digits, bool utc);

// Conversions to numbers: days and microseconds since 1970-01-01, in UTC for timestamps. False for dates that no
// calendar has, including zero and partial dates.
bool date_to_days(const uint8_t* image, int32_t* days);
bool old_datetime_to_micros(const uint8_t* image, unsigned digits, int64_t* micros);
bool old_timestamp_to_micros(const uint8_t* image, unsigned digits, int64_t* micros);
bool datetime_to_micros(const uint8_t* image, unsigned digits, int64_t* micros);
bool timestamp_to_micros(const uint8_t* image, unsigned digits, int64_t* micros);
// A TIME in microseconds.
bool old_time_to_micros(const uint8_t* image, unsigned digits, int64_t* micros);
int64_t time_to_micros(const uint8_t* image, unsigned digits);

// The packed form inside the server's JSON: 40 bits of date and time above 24 bits of microseconds.
uint8_t* put_packed_date(uint8_t* p, int64_t packed);
uint8_t* put_packed_time(uint8_t* p, int64_t packed);
uint8_t* put_packed_datetime(uint8_t* p, int64_t packed);

}  // namespace relay
