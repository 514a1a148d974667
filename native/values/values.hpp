// Writes column values as text that the server prints, and as typed msgpack.
#pragma once

#include "base/output.hpp"
#include "values/layout.hpp"
#include "values/payload.hpp"

namespace relay {

// A column that is present and not NULL, and the bytes of its value without their length prefix.
struct Cell {
  const Step& step;
  const Column& column;
  Bytes bytes;
};

// Where values are written. At p there is room for a whole row (Layout::row_room and its images). A value that may need
// more reserves room for itself and, again, for the row: `out` may move, and p with it.
struct Target {
  Output& out;
  size_t row_room;
};

// Whether a value may need more room than Layout::row_room has for it.
inline bool grows(Value value) { return value >= Value::converted; }

// All functions write at p and return the byte after the value, or nullptr if the bytes are invalid. p is passed in a
// register: through memory, every value would wait for the one before it.

// Writes the value's text.
uint8_t* put_text(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

// Reads an integer column. An unsigned value above 2^63 - 1 becomes the negative number of the same 64 bits. False if
// the column is not an integer.
bool integer_of(const Cell& cell, int64_t* value);

// Writes msgpack: integers and YEAR as int, FLOAT as float 32, DOUBLE as float 64, binary strings, BIT, geometry and
// vectors as bin, everything else as str. ENUM and SET with unknown labels are int.
uint8_t* put_typed(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

// Writes msgpack: what put_typed writes as bin is bin, everything else is its text as str.
uint8_t* put_spelled(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

// MessagePack's extension types of put_extended. Their contents are the text that the server prints, TIMESTAMP in UTC.
enum class Extension : uint8_t { none, decimal, date, time, datetime, timestamp, set, json };

// Writes msgpack as put_typed does, with extension types for what MessagePack has no type for. FLOAT is the number that
// the server prints, as float 64.
uint8_t* put_extended(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

}  // namespace relay
