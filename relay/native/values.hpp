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

// Where values are written: at out.p there is room for a whole row (Layout::row_room and its images). What may need more
// makes room for itself and, again, for the row.
struct Target {
  Output& out;
  size_t row_room;
};

// Both write at out.p and move it. False if the bytes are no such value.

// The value's text.
bool put_text(const Target& to, const Cell& cell, const RenderOptions& options);

// The value as msgpack: integers and YEAR as int, FLOAT as float 32, DOUBLE as float 64, binary strings, BIT, geometry and
// vectors as bin, everything else as str. ENUM and SET whose labels are not known are int.
bool put_typed(const Target& to, const Cell& cell, const RenderOptions& options);

}  // namespace relay
