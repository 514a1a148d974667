// zlib's inflating, for rows and columns that MariaDB compressed.
#pragma once

#include "bytes.hpp"

namespace relay {

enum class Deflated : uint8_t {
  zlib,  // with zlib's head, and a checksum at the end
  raw,
};

// Whether that many bytes may be what `packed` holds, so that memory for them may be had: deflate makes no more than 1032
// of one.
inline bool may_inflate_to(Bytes packed, size_t size) { return size / 1032 <= packed.size; }

// Writes the `size` bytes that `packed` holds at `to`, which has room for them; false if it is damaged or holds fewer or
// more. No more than `size` bytes are ever written.
bool inflate_exactly(Bytes packed, Deflated form, uint8_t* to, size_t size);
// The same into a string.
bool inflate_exactly(Bytes packed, Deflated form, size_t size, std::string* out);

}  // namespace relay
