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

// Appends the value's text. False if the bytes are no such value.
bool put_text(Output& out, const Cell& cell, const RenderOptions& options);

// Appends the value as msgpack: integers and YEAR as int, FLOAT as float 32, DOUBLE as float 64, binary strings, BIT, geometry
// and vectors as bin, everything else as str. ENUM and SET whose labels are not known are int.
bool put_typed(Output& out, const Cell& cell, const RenderOptions& options);

}  // namespace relay
