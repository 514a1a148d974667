// What is the same in every row of a table: the parts of replies that hold names, and how each column's value is
// written.
#pragma once

#include "definition.hpp"

namespace relay {

// What a column's bytes are, and so how they become text or a typed value.
enum class Value : uint8_t {
  int8, uint8, int16, uint16, int24, uint24, int32, uint32, int64, uint64,  // in this order: width, then signedness
  float32, float64, decimal, year, date, old_time, old_datetime, old_timestamp, time, datetime, timestamp,
  uuid, inet4, inet6,
  enumeration, set,  // from here on of any length
  raw,               // bytes that are no text: binary strings, BIT, geometry, vectors
  padded,            // BINARY(n), without the zeros at its end
  text,              // UTF-8 already
  converted,         // text in another character set
  json,
  compressed,        // one of raw, text and converted, in the form of MariaDB's COMPRESSED columns
};

// A span of Layout::text.
struct Span {
  uint32_t at = 0;
  uint32_t size = 0;
};

// One column, in as little memory as may be: rows walk over these.
struct Step {
  Extent extent;
  Span head;  // u32 name id, and the name as a string of the classic protocol; behind it, uncounted, an empty string
  Span key;   // the name as a msgpack string
  Value value = Value::raw;
  uint8_t precision = 0;     // of a decimal
  uint8_t digits = 0;        // of a fraction
  bool fixed_digits = false;  // FLOAT(M,D), DOUBLE(M,D): `digits` of them, always
  uint8_t zeros = 0;         // ZEROFILL: the width to fill
  uint32_t width = 0;        // of BINARY(n); the most bytes of a value that is `compressed`
  uint32_t room = 0;         // the most bytes that a value becomes beyond its own, but for those that make room themselves
};

struct Layout {
  std::string text;  // what the spans are of; padded for copy_padded
  std::vector<Step> steps;
  Span front1;        // Poll: schema, table, u32 number of columns
  Span front2;        // PollV2: u32 instance, u32 schema id, schema, u32 table id, table, u32 number of columns
  Span packed_front;  // PollMany format 1: schema, table, instance
  // The most bytes of a row in any form, beyond its images', the text of NULLs, and values `converted`, `json` and
  // `compressed`, which make room themselves.
  size_t row_room = 0;

  const uint8_t* at(Span span) const { return reinterpret_cast<const uint8_t*>(text.data()) + span.at; }
};

// The definition's columns have been understood.
std::shared_ptr<const Layout> make_layout(const Definition& definition);

}  // namespace relay
