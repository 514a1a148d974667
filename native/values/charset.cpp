// Character set conversion by the servers' own tables, which are unpacked on first use.
#include "values/charset.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "base/inflate.hpp"
#include "base/utf8.hpp"

namespace relay {

using charsets::Known;
using charsets::Shape;

namespace {

constexpr const char* kPassedThrough[] = {"", "binary", "utf8mb4", "utf8mb3", "utf8"};
// setup.py writes it from charsets.bin: for each set that has a table, its packed size as u32, and the table deflated.
constexpr uint8_t kPacked[] = {
#include "values/charsets.inc"
};
// A table holds a code point, or 0, for each byte, then for each two-byte code from 0x8000 on, then for what follows the
// byte 0x8f in EUC-JP from 0x8000 on, or for each four-byte code of GB18030 that stands for a character of the BMP.
constexpr uint32_t kTwoByteBase = 0x8000;
constexpr size_t kOneByte = 0x100, kTwoBytes = 0x8000, kFourBytes = 39420;
constexpr uint32_t kFourByteAstral = 189000;  // the four-byte code of U+10000, counted from 0x81308130
constexpr uint32_t kNone = 0xffffffff;        // not a character
constexpr uint32_t kSurrogates = 0xd800, kSurrogateBits = 0x7ff;

uint8_t* put_utf8(uint8_t* p, uint32_t c) {
  if (c < 0x80) {
    *p++ = static_cast<uint8_t>(c);
    return p;
  }
  if (c < 0x800) {
    *p++ = static_cast<uint8_t>(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      *p++ = static_cast<uint8_t>(0xe0 | c >> 12);
    } else {
      *p++ = static_cast<uint8_t>(0xf0 | c >> 18);
      *p++ = static_cast<uint8_t>(0x80 | (c >> 12 & 0x3f));
    }
    *p++ = static_cast<uint8_t>(0x80 | (c >> 6 & 0x3f));
  }
  *p++ = static_cast<uint8_t>(0x80 | (c & 0x3f));
  return p;
}

// The length of the character that starts with p[0], as far as its first two bytes say.
size_t length_of(Shape shape, const uint8_t* p, size_t left) {
  uint8_t lead = p[0];
  switch (shape) {
    case Shape::one_byte: return 1;
    case Shape::double_byte: return lead > 0x80 ? 2 : 1;
    case Shape::shift_jis: return (lead >= 0x81 && lead <= 0x9f) || (lead >= 0xe0 && lead <= 0xfc) ? 2 : 1;
    case Shape::euc_jp:
      if (lead == 0x8e) return left > 1 && p[1] == 0xa0 ? 1 : 2;
      return lead == 0x8f ? 3 : lead >= 0xa1 ? 2 : 1;
    case Shape::gb18030: return lead <= 0x80 ? 1 : left > 1 && p[1] >= 0x30 && p[1] <= 0x39 ? 4 : 2;
    case Shape::ucs2_be: return 2;
    case Shape::utf16_be: return (lead & 0xfc) == 0xd8 ? 4 : 2;
    case Shape::utf16_le: return left > 1 && (p[1] & 0xfc) == 0xd8 ? 4 : 2;
    case Shape::utf32_be: return 4;
  }
  return 1;
}

bool has_table(Shape shape) { return shape < Shape::ucs2_be; }

// The number of codes in the table of a set.
size_t codes_of(Shape shape) {
  switch (shape) {
    case Shape::one_byte: return kOneByte;
    case Shape::euc_jp: return kOneByte + 2 * kTwoBytes;
    case Shape::gb18030: return kOneByte + kTwoBytes + kFourBytes;
    default: return kOneByte + kTwoBytes;
  }
}

uint32_t utf16(uint32_t high, uint32_t low, bool pair) {
  if (!pair) return (high & 0xfc00) == 0xdc00 ? kNone : high;
  return (low & 0xfc00) == 0xdc00 ? 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff) : kNone;
}

}  // namespace

bool Charset::find(const std::string& name, const Charset** out) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const Charset>> made;
  *out = nullptr;
  for (const char* plain : kPassedThrough) {
    if (name == plain) return true;
  }
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const Charset>& charset = made[name];
  if (!charset) {
    auto known = std::find_if(std::begin(charsets::kKnown), std::end(charsets::kKnown),
                              [&name](const Known& k) { return name == k.name; });
    if (known == std::end(charsets::kKnown)) return false;
    charset.reset(new Charset(*known));
  }
  *out = charset.get();
  return true;
}

Charset::Charset(const Known& known) : shape_(known.shape) {
  if (!has_table(shape_)) return;
  const uint8_t* packed = kPacked;
  for (const Known* before = charsets::kKnown; before != &known; ++before) packed += 4 + load<uint32_t>(packed);
  points_.resize(codes_of(shape_));
  if (!inflate_exactly({packed + 4, load<uint32_t>(packed)}, Deflated::raw, reinterpret_cast<uint8_t*>(points_.data()),
                       points_.size() * sizeof points_[0]))
    throw std::logic_error("charsets.bin is damaged");
  uint16_t point = 0;
  for (uint16_t& each : points_) each = point = static_cast<uint16_t>(point + each);  // the file has differences
  ascii_ = true;
  for (unsigned byte = 0; byte < 0x80; ++byte) ascii_ = ascii_ && points_[byte] == byte;
}

// The code point of a character of three or four bytes; 0 if there is none.
uint32_t Charset::long_character(const uint8_t* p, size_t n) const {
  if (n == 3) return p[1] < 0x80 ? 0 : points_[kOneByte + kTwoBytes + load_be16(p + 1) - kTwoByteBase];
  auto in = [](uint8_t byte, uint8_t first, uint8_t last) { return byte >= first && byte <= last; };
  if (!in(p[0], 0x81, 0xfe) || !in(p[1], '0', '9') || !in(p[2], 0x81, 0xfe) || !in(p[3], '0', '9')) return 0;
  uint32_t code = ((p[0] - 0x81u) * 10 + (p[1] - '0')) * 1260 + (p[2] - 0x81u) * 10 + (p[3] - '0');
  if (code < kFourBytes) return points_[kOneByte + kTwoBytes + code];
  return code >= kFourByteAstral && code - kFourByteAstral < 0x100000 ? 0x10000 + code - kFourByteAstral : 0;
}

// Reads the character at p: returns its length, and its code point or kNone.
size_t Charset::character(const uint8_t* p, size_t left, uint32_t* code_point) const {
  size_t n = length_of(shape_, p, left);
  *code_point = kNone;
  if (n > left) return shape_ >= Shape::ucs2_be ? left : 1;
  switch (shape_) {
    case Shape::ucs2_be: *code_point = load_be16(p); break;
    case Shape::utf16_be: *code_point = utf16(load_be16(p), n == 4 ? load_be16(p + 2) : 0u, n == 4); break;
    case Shape::utf16_le: *code_point = utf16(load<uint16_t>(p), n == 4 ? load<uint16_t>(p + 2) : 0u, n == 4); break;
    case Shape::utf32_be:
      if (load_be32(p) <= 0x10ffff) *code_point = load_be32(p);
      break;
    default: {
      uint32_t c = n == 1   ? points_[p[0]]
                   : n == 2 ? points_[kOneByte + load_be16(p) - kTwoByteBase]
                            : long_character(p, n);
      if (c || !p[0]) *code_point = c;
    }
  }
  return n;
}

Converted Charset::convert(Bytes text, uint8_t* to) const {
  Converted done;
  uint8_t* out = to;
  const uint8_t* p = text.data;
  const uint8_t* end = text.end();
  while (p != end) {
    if (ascii_) {
      const Ascii plain = ascii_at(text.data, p, end);
      store(out, plain.bytes);
      p += plain.count;
      out += plain.count;
      if (plain.count) continue;
    }
    uint32_t c;
    p += character(p, static_cast<size_t>(end - p), &c);
    done.whole = done.whole && c != kNone;
    done.valid = done.valid && (c & ~kSurrogateBits) != kSurrogates;
    out = put_utf8(out, c == kNone ? '?' : c);
  }
  done.size = static_cast<size_t>(out - to);
  return done;
}

// Replaces `out` by the text in UTF-8. False if there is no such character set.
static bool convert_to(std::string* out, const std::string& name, Bytes text, Converted* done) {
  const Charset* charset;
  if (!Charset::find(name, &charset)) return false;
  if (!charset) {
    out->assign(text.text());
    return true;
  }
  out->resize(text.size * Charset::kGrowth + Charset::kRoom);
  *done = charset->convert(text, reinterpret_cast<uint8_t*>(&(*out)[0]));
  out->resize(done->size);
  return true;
}

bool charset_text(const std::string& name, Bytes text, std::string* out) {
  Converted done;
  return convert_to(out, name, text, &done);
}

bool utf8_text(const std::string& name, Bytes text, std::string* out, bool* whole) {
  Converted done;
  if (!convert_to(out, name, text, &done)) return false;
  const bool mended = mend_utf8(reinterpret_cast<uint8_t*>(&(*out)[0]), out->size());
  *whole = done.whole && !mended;
  return true;
}

}  // namespace relay
