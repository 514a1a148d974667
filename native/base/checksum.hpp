// The checksum that the classic protocol uses: a sum of bytes.
#pragma once

#if defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "base/bytes.hpp"

namespace relay {

// The sum of all bytes, modulo 2^32. The compilers do not find the instructions that add up bytes by themselves.
inline uint32_t byte_sum(Bytes bytes) {
  const uint8_t* p = bytes.data;
  size_t left = bytes.size;
  uint64_t sum = 0;
#if defined(__x86_64__)
  const auto sum_of_16 = [](const uint8_t* at) {  // in two u64 lanes
    return _mm_sad_epu8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), _mm_setzero_si128());
  };
  __m128i sums = _mm_setzero_si128();
  for (; left >= 64; left -= 64, p += 64) {
    const __m128i low = _mm_add_epi64(sum_of_16(p), sum_of_16(p + 16));
    sums = _mm_add_epi64(sums, _mm_add_epi64(low, _mm_add_epi64(sum_of_16(p + 32), sum_of_16(p + 48))));
  }
  for (; left >= 16; left -= 16, p += 16) sums = _mm_add_epi64(sums, sum_of_16(p));
  uint64_t lanes[2];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lanes), sums);
  sum = lanes[0] + lanes[1];
#elif defined(__aarch64__)
  uint32x4_t sums = vdupq_n_u32(0);  // four u32 lanes: each may wrap, the sum is modulo 2^32
  for (; left >= 16; left -= 16, p += 16) sums = vpadalq_u16(sums, vpaddlq_u8(vld1q_u8(p)));
  sum = vaddvq_u32(sums);
#endif
  for (; left > 0; --left) sum += *p++;
  return static_cast<uint32_t>(sum);
}

}  // namespace relay
