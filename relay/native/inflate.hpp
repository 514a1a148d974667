// zlib's inflating, for rows and columns that MariaDB compressed.
#pragma once

#include "bytes.hpp"

namespace relay {

enum class Deflated : uint8_t {
  zlib,  // with zlib's head, and a checksum at the end
  raw,
};

// Writes the `size` bytes that `packed` holds at `to`, which has room for them; false if it is damaged or holds fewer or
// more. No more than `size` bytes are ever written.
bool inflate_exactly(Bytes packed, Deflated form, uint8_t* to, size_t size);

}  // namespace relay
