// Values of MariaDB's COMPRESSED columns in row images.
#pragma once

#include "base/bytes.hpp"
#include "base/inflate.hpp"

namespace relay {

// A compressed value. The empty value has no bytes. Otherwise the first byte says how the rest is packed. If it is 0,
// the rest is not packed. If not, its high four bits are the method (8: zlib, the only one), the next bit (8) is set if
// the zlib header and checksum are left out, and the low three bits are the size of the length. The value's length
// follows, most significant byte first, then the packed value.
struct CompressedValue {
  size_t size = 0;  // after unpacking
  bool packed = false;
  Deflated form = Deflated::zlib;
  Bytes data;

  // False unless the bytes can be a value of at most `longest` bytes. Data that cannot expand to its stated length is
  // refused.
  static bool parse(Bytes bytes, size_t longest, CompressedValue* out);
  // Writes `size` bytes. False if the packed value is damaged, shorter or longer.
  bool unpack(uint8_t* to) const;
};

// Unpacks a value into memory that the thread uses again for the next one. Conditions as for parse() and unpack().
bool unpack_value(Bytes bytes, size_t longest, Bytes* value);

}  // namespace relay
