// CRC-32 by carry-less multiplication, CRC-32C by that and by its instruction, on x86-64.
#ifdef __x86_64__

#include <immintrin.h>

#include "base/crc.hpp"
#include "base/crc_cpu.hpp"

namespace relay::crc_cpu {
namespace {

// x^n modulo the polynomial, reflected and shifted left by one bit: in this form the carry-less product of two
// reflected numbers comes out aligned.
constexpr uint64_t fold_constant(uint32_t polynomial, unsigned n) {
  uint32_t r = 0x80000000;  // x^0
  for (unsigned i = 0; i < n; ++i) r = r & 1 ? r >> 1 ^ polynomial : r >> 1;
  return uint64_t{r} << 1;
}

struct Folds {
  uint64_t far_low, far_high;    // fold over 64 bytes
  uint64_t near_low, near_high;  // fold over 16 bytes
};

constexpr Folds make_folds(uint32_t polynomial) {
  return {fold_constant(polynomial, 4 * 128 + 32), fold_constant(polynomial, 4 * 128 - 32),
          fold_constant(polynomial, 128 + 32), fold_constant(polynomial, 128 - 32)};
}

constexpr Folds kZlibFolds = make_folds(kZlib);
constexpr Folds kCastagnoliFolds = make_folds(kCastagnoli);

#define RELAY_SSE __attribute__((target("crc32,pclmul,sse4.2")))

RELAY_SSE inline __m128i fold(__m128i x, __m128i by, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(x, by, 0x00);
  __m128i high = _mm_clmulepi64_si128(x, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

RELAY_SSE inline __m128i load128(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

// Folds n >= 64 bytes, a multiple of 16, into 16 bytes with the same remainder (Gopal et al., "Fast CRC Computation
// Using PCLMULQDQ").
RELAY_SSE void fold_all(const Folds& folds, uint32_t state, const uint8_t* p, size_t n, uint8_t out[16]) {
  __m128i x0 = _mm_xor_si128(load128(p), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i x1 = load128(p + 16), x2 = load128(p + 32), x3 = load128(p + 48);
  const __m128i far = _mm_set_epi64x(static_cast<int64_t>(folds.far_high), static_cast<int64_t>(folds.far_low));
  const __m128i near = _mm_set_epi64x(static_cast<int64_t>(folds.near_high), static_cast<int64_t>(folds.near_low));
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    x0 = fold(x0, far, load128(p));
    x1 = fold(x1, far, load128(p + 16));
    x2 = fold(x2, far, load128(p + 32));
    x3 = fold(x3, far, load128(p + 48));
  }
  x0 = fold(x0, near, x1);
  x0 = fold(x0, near, x2);
  x0 = fold(x0, near, x3);
  for (; n >= 16; p += 16, n -= 16) x0 = fold(x0, near, load128(p));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), x0);
}

RELAY_SSE uint32_t instructed(uint32_t state, const uint8_t* p, size_t n) {
  uint64_t c = state;
  for (; n >= 8; p += 8, n -= 8) c = _mm_crc32_u64(c, load<uint64_t>(p));
  auto crc = static_cast<uint32_t>(c);
  if (n & 4) {
    crc = _mm_crc32_u32(crc, load<uint32_t>(p));
    p += 4;
  }
  for (n &= 3; n; ++p, --n) crc = _mm_crc32_u8(crc, *p);
  return crc;
}

}  // namespace

const bool kAvailable = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");

uint32_t crc32(uint32_t state, const uint8_t* p, size_t n) {
  if (n < 64) return ~crc32_portable({p, n}, ~state);
  uint8_t folded[16];
  size_t whole = n & ~size_t{15};
  fold_all(kZlibFolds, state, p, whole, folded);
  uint32_t crc = crc32_portable({folded, sizeof folded}, ~uint32_t{0});
  return ~crc32_portable({p + whole, n - whole}, crc);
}

uint32_t crc32c(uint32_t state, const uint8_t* p, size_t n) {
  if (n < 256) return instructed(state, p, n);
  uint8_t folded[16];
  size_t whole = n & ~size_t{15};
  fold_all(kCastagnoliFolds, state, p, whole, folded);
  return instructed(instructed(0, folded, sizeof folded), p + whole, n - whole);
}

}  // namespace relay::crc_cpu

#endif
