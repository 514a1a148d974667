// The two checksums of the relay: CRC-32 (zlib's, in binlog events) and CRC-32C (Castagnoli's, in journal frames).
#pragma once

#include "bytes.hpp"

namespace relay {

// Both continue from `crc`, the checksum of the bytes before; 0 to begin. The fastest way of this CPU is chosen at run
// time.
uint32_t crc32(Bytes bytes, uint32_t crc = 0);
uint32_t crc32c(Bytes bytes, uint32_t crc = 0);

// The portable way, for CPUs without carry-less multiplication and as the witness of the fast one.
uint32_t crc32_portable(Bytes bytes, uint32_t crc = 0);
uint32_t crc32c_portable(Bytes bytes, uint32_t crc = 0);

}  // namespace relay
