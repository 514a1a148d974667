#include "crc.hpp"

#include <immintrin.h>

#include <array>

namespace relay {
namespace {

// Polynomials in reflected bit order: the highest power in the lowest bit.
constexpr uint32_t kZlib = 0xedb88320;
constexpr uint32_t kCastagnoli = 0x82f63b78;

struct Tables {
  std::array<std::array<uint32_t, 256>, 8> t{};
};

// Table k advances a byte over k further zero bytes, so that eight bytes are taken at once (slicing-by-8).
constexpr Tables make_tables(uint32_t polynomial) {
  Tables tables;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
    tables.t[0][i] = c;
  }
  for (unsigned k = 1; k < 8; ++k)
    for (unsigned i = 0; i < 256; ++i) {
      uint32_t c = tables.t[k - 1][i];
      tables.t[k][i] = c >> 8 ^ tables.t[0][c & 0xff];
    }
  return tables;
}

constexpr Tables kZlibTables = make_tables(kZlib);
constexpr Tables kCastagnoliTables = make_tables(kCastagnoli);

// `state` is the register itself: neither inverted before nor after.
uint32_t sliced(const Tables& tables, uint32_t state, const uint8_t* p, size_t n) {
  const auto& t = tables.t;
  for (; n >= 8; p += 8, n -= 8) {
    uint32_t a = load<uint32_t>(p) ^ state;
    uint32_t b = load<uint32_t>(p + 4);
    state = t[7][a & 0xff] ^ t[6][a >> 8 & 0xff] ^ t[5][a >> 16 & 0xff] ^ t[4][a >> 24] ^ t[3][b & 0xff] ^
            t[2][b >> 8 & 0xff] ^ t[1][b >> 16 & 0xff] ^ t[0][b >> 24];
  }
  for (; n; ++p, --n) state = state >> 8 ^ t[0][(state ^ *p) & 0xff];
  return state;
}

// x^n modulo the polynomial, reflected and one bit to the left: the form in which a carry-less product of two reflected
// numbers comes out aligned.
constexpr uint64_t fold_constant(uint32_t polynomial, unsigned n) {
  uint32_t r = 0x80000000;  // x^0
  for (unsigned i = 0; i < n; ++i) r = r & 1 ? r >> 1 ^ polynomial : r >> 1;
  return uint64_t{r} << 1;
}

struct Folds {
  uint64_t far_low, far_high;    // over 64 bytes
  uint64_t near_low, near_high;  // over 16 bytes
};

constexpr Folds make_folds(uint32_t polynomial) {
  return {fold_constant(polynomial, 4 * 128 + 32), fold_constant(polynomial, 4 * 128 - 32),
          fold_constant(polynomial, 128 + 32), fold_constant(polynomial, 128 - 32)};
}

constexpr Folds kZlibFolds = make_folds(kZlib);
constexpr Folds kCastagnoliFolds = make_folds(kCastagnoli);

#define RELAY_CLMUL __attribute__((target("pclmul,sse4.2")))

RELAY_CLMUL inline __m128i fold(__m128i x, __m128i by, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(x, by, 0x00);
  __m128i high = _mm_clmulepi64_si128(x, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

RELAY_CLMUL inline __m128i load128(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

// Folds n >= 64 bytes, a multiple of 16, into 16 bytes of the same remainder (Gopal et al., "Fast CRC computation using
// PCLMULQDQ").
RELAY_CLMUL void fold_all(const Folds& folds, uint32_t state, const uint8_t* p, size_t n, uint8_t out[16]) {
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

RELAY_CLMUL uint32_t instructed(uint32_t state, const uint8_t* p, size_t n) {
  uint64_t c = state;
  for (; n >= 8; p += 8, n -= 8) c = _mm_crc32_u64(c, load<uint64_t>(p));
  for (; n; ++p, --n) c = _mm_crc32_u8(static_cast<uint32_t>(c), *p);
  return static_cast<uint32_t>(c);
}

const bool kFast = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");

}  // namespace

uint32_t crc32_portable(Bytes b, uint32_t crc) { return ~sliced(kZlibTables, ~crc, b.data, b.size); }

uint32_t crc32c_portable(Bytes b, uint32_t crc) { return ~sliced(kCastagnoliTables, ~crc, b.data, b.size); }

uint32_t crc32(Bytes b, uint32_t crc) {
  if (!kFast || b.size < 64) return crc32_portable(b, crc);
  uint8_t folded[16];
  size_t whole = b.size & ~size_t{15};
  fold_all(kZlibFolds, ~crc, b.data, whole, folded);
  uint32_t state = sliced(kZlibTables, 0, folded, sizeof folded);
  return ~sliced(kZlibTables, state, b.data + whole, b.size - whole);
}

uint32_t crc32c(Bytes b, uint32_t crc) {
  if (!kFast) return crc32c_portable(b, crc);
  if (b.size < 256) return ~instructed(~crc, b.data, b.size);
  uint8_t folded[16];
  size_t whole = b.size & ~size_t{15};
  fold_all(kCastagnoliFolds, ~crc, b.data, whole, folded);
  uint32_t state = instructed(0, folded, sizeof folded);
  return ~instructed(state, b.data + whole, b.size - whole);
}

}  // namespace relay
