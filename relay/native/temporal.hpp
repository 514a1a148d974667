// Dates and times as the server prints them. Every function writes at p, where there is room for kTemporalRoom bytes,
// and returns the byte after the text, or nullptr where the bytes are no date or time.
#pragma once

#include "bytes.hpp"

namespace relay {

constexpr size_t kTemporalRoom = 48;

uint8_t* put_year(uint8_t* p, uint8_t stored);
uint8_t* put_date(uint8_t* p, const uint8_t* image);
uint8_t* put_old_time(uint8_t* p, const uint8_t* image);
uint8_t* put_old_datetime(uint8_t* p, const uint8_t* image);
uint8_t* put_old_timestamp(uint8_t* p, const uint8_t* image, bool utc);
// digits: of the fraction, 0 to 6
uint8_t* put_time(uint8_t* p, const uint8_t* image, unsigned digits);
uint8_t* put_datetime(uint8_t* p, const uint8_t* image, unsigned digits);
uint8_t* put_timestamp(uint8_t* p, const uint8_t* image, unsigned digits, bool utc);

// The server's packed form inside JSON: 40 bits of date and time above 24 bits of microseconds.
uint8_t* put_packed_date(uint8_t* p, int64_t packed);
uint8_t* put_packed_time(uint8_t* p, int64_t packed);
uint8_t* put_packed_datetime(uint8_t* p, int64_t packed);

}  // namespace relay
