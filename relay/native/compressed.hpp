// Values of MariaDB's COMPRESSED columns, as row images hold them.
#pragma once

#include "bytes.hpp"
#include "inflate.hpp"

namespace relay {

// Nothing for the empty value; else a byte that says how the rest is packed. 0: not at all. Otherwise its high four bits
// are the method (8: zlib, the only one there is), 8 says that zlib's head and checksum are left out, and its low three
// bits count the bytes of the value's length, which comes next, most significant byte first; the packed value follows.
struct CompressedValue {
  size_t size = 0;  // unpacked
  bool packed = false;
  Deflated form = Deflated::zlib;
  Bytes data;

  // False unless the bytes can be a value of at most `longest` bytes: what they ask for is what they can hold.
  static bool parse(Bytes bytes, size_t longest, CompressedValue* out);
  // Writes `size` bytes; false if the packed value is damaged, shorter or longer.
  bool unpack(uint8_t* to) const;
};

}  // namespace relay
