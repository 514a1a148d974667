// Byte views, and bounds-checked reading of integers in the byte orders of the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace relay {

constexpr uint64_t kPage = 4096;  // bytes of memory

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;

  Bytes() = default;
  Bytes(const void* p, size_t n) : data(static_cast<const uint8_t*>(p)), size(n) {}
  explicit Bytes(std::string_view text) : Bytes(text.data(), text.size()) {}

  const uint8_t* end() const { return data + size; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
  Bytes sub(size_t from, size_t n) const { return {data + from, n}; }
  Bytes from(size_t offset) const { return {data + offset, size - offset}; }
};

template <typename T>
inline T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <typename T>
inline void store(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

inline uint16_t load_be16(const void* p) { return __builtin_bswap16(load<uint16_t>(p)); }
inline uint32_t load_be32(const void* p) { return __builtin_bswap32(load<uint32_t>(p)); }
inline uint64_t load_be64(const void* p) { return __builtin_bswap64(load<uint64_t>(p)); }

// Loads n bytes, 1 to 8, least significant first.
inline uint64_t load_le(const uint8_t* p, unsigned n) {
  uint64_t v = 0;
  for (unsigned i = 0; i < n; ++i) v |= uint64_t{p[i]} << (8 * i);
  return v;
}

// Loads n bytes, 1 to 8, most significant first.
inline uint64_t load_be(const uint8_t* p, unsigned n) {
  uint64_t v = 0;
  for (unsigned i = 0; i < n; ++i) v = v << 8 | p[i];
  return v;
}

// Reads forward through untrusted bytes. After a read past the end, `ok` is false and every read returns zero.
class Reader {
 public:
  explicit Reader(Bytes bytes) : p_(bytes.data), end_(bytes.end()) {}

  bool ok() const { return ok_; }
  size_t left() const { return static_cast<size_t>(end_ - p_); }
  const uint8_t* at() const { return p_; }
  Bytes rest() const { return {p_, left()}; }

  Bytes take(size_t n) {
    if (n > left()) {
      ok_ = false;
      p_ = end_;
      return {};
    }
    Bytes b{p_, n};
    p_ += n;
    return b;
  }
  void skip(size_t n) { take(n); }
  uint64_t le(unsigned n) {
    Bytes b = take(n);
    return b.data ? load_le(b.data, n) : 0;
  }
  uint8_t u8() { return static_cast<uint8_t>(le(1)); }
  uint16_t u16() { return static_cast<uint16_t>(le(2)); }
  uint32_t u32() { return static_cast<uint32_t>(le(4)); }
  uint64_t u64() { return le(8); }

  // A length-encoded integer of MySQL. 0xfb (NULL) and 0xff are not lengths and fail.
  uint64_t lenenc() {
    uint8_t first = u8();
    if (first < 0xfb) return first;
    if (first == 0xfc) return le(2);
    if (first == 0xfd) return le(3);
    if (first == 0xfe) return le(8);
    ok_ = false;
    return 0;
  }

 private:
  const uint8_t* p_;
  const uint8_t* end_;
  bool ok_ = true;
};

}  // namespace relay
