// The part of MessagePack that the journal and payloads use: writers, most of them of fixed-width fields at constant
// offsets, and a reader of definitions.
#pragma once

#include "base/utf8.hpp"

namespace relay::msgpack {

constexpr uint8_t kNil = 0xc0, kBin8 = 0xc4, kBin32 = 0xc6, kExt8 = 0xc7, kExt32 = 0xc9, kFloat32 = 0xca,
                  kFloat64 = 0xcb, kInt32 = 0xd2, kInt64 = 0xd3, kFixStr = 0xa0, kStr8 = 0xd9, kStr32 = 0xdb,
                  kFixMap = 0x80, kMap32 = 0xdf;

inline uint8_t* put_array(uint8_t* p, unsigned n) {
  *p = static_cast<uint8_t>(0x90 | n);
  return p + 1;
}  // n < 16
inline uint8_t* put_small(uint8_t* p, unsigned v) {
  *p = static_cast<uint8_t>(v);
  return p + 1;
}  // v < 128
inline uint8_t* put_u32(uint8_t* p, uint32_t v) {
  *p = 0xce;
  store(p + 1, __builtin_bswap32(v));
  return p + 5;
}
inline uint8_t* put_u64(uint8_t* p, uint64_t v) {
  *p = 0xcf;
  store(p + 1, __builtin_bswap64(v));
  return p + 9;
}
inline uint8_t* put_int(uint8_t* p, uint64_t v) {
  if (v < 0x80) return put_small(p, static_cast<unsigned>(v));
  return v <= UINT32_MAX ? put_u32(p, static_cast<uint32_t>(v)) : put_u64(p, v);
}
inline uint8_t* put_int(uint8_t* p, int64_t v) {
  const auto bits = static_cast<uint64_t>(v);
  if (v >= 0) return put_int(p, bits);
  if (v >= -32) return put_small(p, static_cast<uint8_t>(v));
  uint8_t* const end = v < INT32_MIN ? put_u64(p, bits) : put_u32(p, static_cast<uint32_t>(bits));
  *p = v < INT32_MIN ? kInt64 : kInt32;
  return end;
}
inline uint8_t* put_head32(uint8_t* p, uint8_t tag, size_t n) {
  *p = tag;
  store(p + 1, __builtin_bswap32(static_cast<uint32_t>(n)));
  return p + 5;
}
inline uint8_t* put_bytes(uint8_t* p, uint8_t tag, Bytes b) {
  p = put_head32(p, tag, b.size);
  if (b.size) std::memcpy(p, b.data, b.size);
  return p + b.size;
}
inline uint8_t* put_str(uint8_t* p, std::string_view s) { return put_bytes(p, kStr32, Bytes(s)); }
// A str with a short head. Decoders recognize a key that they had before if it has one (msgspec: one below 32 bytes).
inline uint8_t* put_name(uint8_t* p, std::string_view s) {
  if (s.size() >= 0x100) return put_str(p, s);
  if (s.size() >= 32) *p++ = kStr8;
  *p++ = static_cast<uint8_t>(s.size() < 32 ? kFixStr | s.size() : s.size());
  std::memcpy(p, s.data(), s.size());
  return p + s.size();
}
inline uint8_t* put_map(uint8_t* p, size_t n) {
  if (n >= 16) return put_head32(p, kMap32, n);
  *p = static_cast<uint8_t>(kFixMap | n);
  return p + 1;
}
inline uint8_t* put_bin(uint8_t* p, Bytes b) { return put_bytes(p, kBin32, b); }

// Reads any encoding of arrays, unsigned integers, booleans and strings in UTF-8. Anything else makes `ok` false.
class Unpacker {
 public:
  explicit Unpacker(Bytes b) : r_(b) {}
  bool ok() const { return ok_ && r_.ok(); }

  uint64_t array() {
    uint8_t t = r_.u8();
    if ((t & 0xf0) == 0x90) return t & 0x0f;
    if (t == 0xdc) return be(2);
    if (t == 0xdd) return be(4);
    return fail();
  }
  uint64_t uint() {
    uint8_t t = r_.u8();
    if (t < 0x80) return t;
    if (t >= 0xcc && t <= 0xcf) return be(1u << (t - 0xcc));
    return fail();
  }
  bool boolean() {
    uint8_t t = r_.u8();
    if (t == 0xc2 || t == 0xc3) return t == 0xc3;
    return fail() != 0;
  }
  std::string str() {
    const Bytes text = text_bytes();
    if (!is_utf8(text.data, text.end())) fail();
    return std::string(text.text());
  }
  bool at_end() const { return ok() && r_.left() == 0; }

 private:
  Bytes text_bytes() {
    uint8_t t = r_.u8();
    if ((t & 0xe0) == 0xa0) return r_.take(t & 0x1f);
    if (t == 0xd9) return r_.take(be(1));
    if (t == 0xda) return r_.take(be(2));
    if (t == 0xdb) return r_.take(be(4));
    fail();
    return {};
  }
  uint64_t be(unsigned n) {
    Bytes b = r_.take(n);
    return b.data ? load_be(b.data, n) : 0;
  }
  uint64_t fail() {
    ok_ = false;
    return 0;
  }

  Reader r_;
  bool ok_ = true;
};

}  // namespace relay::msgpack
