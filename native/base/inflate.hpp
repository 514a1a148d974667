// Inflates data of zlib, for rows and columns that MariaDB compressed.
#pragma once

#include "base/bytes.hpp"

namespace relay {

enum class Deflated : uint8_t {
  zlib,  // with the zlib header, and a checksum at the end
  raw,
};

// Whether `packed` can hold `size` bytes at all, so that it is safe to allocate them: deflate expands a byte to at most
// 1032.
inline bool may_inflate_to(Bytes packed, size_t size) { return size / 1032 <= packed.size; }

// Writes the `size` bytes that `packed` holds to `to`, which has room for them. False if the data is damaged or holds
// fewer or more bytes. Never writes more than `size` bytes.
bool inflate_exactly(Bytes packed, Deflated form, uint8_t* to, size_t size);
// The same, into a string.
bool inflate_exactly(Bytes packed, Deflated form, size_t size, std::string* out);

}  // namespace relay
