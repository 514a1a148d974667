// Values of columns as the server prints them, and as typed msgpack.
#pragma once

#include "layout.hpp"
#include "output.hpp"
#include "payload.hpp"

namespace relay {

// A column that is present and not NULL, and the bytes of its value without their length prefix.
struct Cell {
  const Step& step;
  const Column& column;
  Bytes bytes;
};

// Where values are written: at p there is room for a whole row (Layout::row_room and its images). What may need more
// makes room for itself and, again, for the row: `out` may move, and p with it.
struct Target {
  Output& out;
  size_t row_room;
};

// All write at p and return the byte after the value, or nullptr if the bytes are no such value. p is handed from one
// to the next in a register: through memory, every value would wait for the one before it.

// The value's text.
uint8_t* put_text(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

// The value of an integer column; an unsigned one's beyond 2^63 - 1 as the negative number of the same 64 bits. False if
// it is none.
bool integer_of(const Cell& cell, int64_t* value);

// The value as msgpack: integers and YEAR as int, FLOAT as float 32, DOUBLE as float 64, binary strings, BIT, geometry
// and vectors as bin, everything else as str. ENUM and SET whose labels are not known are int.
uint8_t* put_typed(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

// The value as msgpack: what put_typed has as bin is bin, everything else its text as str.
uint8_t* put_spelled(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options);

}  // namespace relay
