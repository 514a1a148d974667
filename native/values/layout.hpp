// The constant parts of a table's rows: the parts of replies that hold names, and how each column's value is written.
#pragma once

#include "values/definition.hpp"

namespace relay {

// How a column's bytes become text or a typed value.
enum class Value : uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int24,
  uint24,
  int32,
  uint32,
  int64,
  uint64,  // in this order: width, then sign
  float32,
  float64,
  decimal,
  year,
  date,
  old_time,
  old_datetime,
  old_timestamp,
  time,
  datetime,
  timestamp,
  uuid,
  inet4,
  inet6,
  enumeration,
  set,        // from here on: variable length
  raw,        // bytes, not text: binary strings, BIT, geometry, vectors
  padded,     // BINARY(n), stored without trailing zeros
  text,       // already UTF-8
  converted,  // text in another character set
  json,
  compressed,  // one of raw, text and converted, in the form of MariaDB's COMPRESSED columns
};

// A range of Layout::text.
struct Span {
  uint32_t at = 0;
  uint32_t size = 0;
};

// One column, kept small because every row walks over these.
struct Step {
  Extent extent;
  Span head;  // u32 name id, and the name as a classic protocol string; an empty string follows, not counted
  Span key;   // the name as a msgpack string
  Value value = Value::raw;
  uint8_t precision = 0;      // of a DECIMAL
  uint8_t digits = 0;         // of the fraction
  bool fixed_digits = false;  // FLOAT(M,D), DOUBLE(M,D): always `digits` decimals
  uint8_t zeros = 0;          // ZEROFILL: the width
  uint32_t width = 0;         // of BINARY(n); for `compressed`, the most bytes of a value
  uint32_t room = 0;          // most output bytes beyond the value's own, except for kinds that reserve room themselves
};

struct Layout {
  std::string text;  // the text of the spans; padded for copy_padded
  std::vector<Step> steps;
  Span front1;        // Poll: schema, table, u32 number of columns
  Span front2;        // PollV2: u32 instance, u32 schema id, schema, u32 table id, table, u32 number of columns
  Span packed_front;  // PollMany format 1: schema, table, instance
  // The most bytes of a row in any form beyond those of its images. Excludes the text of NULLs, and `converted`, `json`
  // and `compressed` values, which reserve room themselves.
  size_t row_room = 0;

  const uint8_t* at(Span span) const { return reinterpret_cast<const uint8_t*>(text.data()) + span.at; }
};

// The definition must have been parsed.
std::shared_ptr<const Layout> make_layout(const Definition& definition);

}  // namespace relay
