// The checksum of the classic protocol: a sum of bytes.
#pragma once

#include <emmintrin.h>

#include "bytes.hpp"

namespace relay {

// Sum of all bytes, modulo 2^32.
inline uint32_t byte_sum(Bytes bytes) {
  const uint8_t* p = bytes.data;
  size_t left = bytes.size;
  __m128i sums = _mm_setzero_si128();  // two u64 lanes
  for (; left >= 16; left -= 16, p += 16)
    sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128()));
  uint64_t lanes[2];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lanes), sums);
  uint64_t sum = lanes[0] + lanes[1];
  for (; left > 0; --left) sum += *p++;
  return static_cast<uint32_t>(sum);
}

}  // namespace relay
