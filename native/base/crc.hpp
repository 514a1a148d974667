// CRC-32 (of zlib, for binlog events) and CRC-32C (Castagnoli, for journal frames).
#pragma once

#include "base/bytes.hpp"

namespace relay {

// Both continue from `crc`, the checksum of the bytes before; start with 0. They use the fastest method of the CPU.
uint32_t crc32(Bytes bytes, uint32_t crc = 0);
uint32_t crc32c(Bytes bytes, uint32_t crc = 0);

// The portable versions, for CPUs without carry-less multiplication and as the reference of the fast ones in tests.
uint32_t crc32_portable(Bytes bytes, uint32_t crc = 0);
uint32_t crc32c_portable(Bytes bytes, uint32_t crc = 0);

}  // namespace relay
