#include "charset.hpp"

#include <iconv.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "utf8.hpp"

namespace relay {

using charsets::Known;
using charsets::Run;
using charsets::Shape;

namespace {

constexpr const char* kPassedThrough[] = {"", "binary", "utf8mb4", "utf8mb3", "utf8"};
constexpr uint32_t kTwoByteBase = 0x8000;
constexpr uint32_t kNone = 0xffffffff;  // no character

// One character at a time through the C library; for filling tables and for characters of three and four bytes.
class Converter {
 public:
  explicit Converter(const char* name) : handle_(iconv_open("UTF-32LE", name)) {}
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;
  ~Converter() {
    if (opened()) iconv_close(handle_);
  }
  bool opened() const { return handle_ != reinterpret_cast<iconv_t>(-1); }

  // 0 if the bytes are not exactly one character.
  uint32_t code_point(const uint8_t* bytes, size_t n) {
    char in[4];
    char out[16];
    std::memcpy(in, bytes, n);
    char* from = in;
    char* to = out;
    size_t left = n, room = sizeof out;
    iconv(handle_, nullptr, nullptr, nullptr, nullptr);
    bool ok = iconv(handle_, &from, &left, &to, &room) != static_cast<size_t>(-1) &&
              iconv(handle_, nullptr, nullptr, &to, &room) != static_cast<size_t>(-1);
    return ok && left == 0 && to == out + 4 ? load<uint32_t>(out) : 0;
  }

 private:
  iconv_t handle_;
};

// The C library's converters keep state: each thread has its own.
uint32_t by_library(const char* name, const uint8_t* bytes, size_t n) {
  thread_local std::map<std::string, std::unique_ptr<Converter>> converters;
  std::unique_ptr<Converter>& converter = converters[name];
  if (!converter) converter = std::make_unique<Converter>(name);
  return converter->opened() ? converter->code_point(bytes, n) : 0;
}

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

// Bytes of the character that starts with p[0], as far as the first two bytes tell.
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
                              [&name](const Known& k) { return name == k.mysql; });
    if (known == std::end(charsets::kKnown)) return false;
    std::unique_ptr<Charset> fresh(new Charset(*known));
    if (!fresh->fill()) return false;
    charset = std::move(fresh);
  }
  *out = charset.get();
  return true;
}

bool Charset::fill() {
  if (known_.shape >= Shape::ucs2_be) return true;
  one_.resize(0x100);
  for (unsigned byte = 0; byte < 0x80; ++byte) one_[byte] = static_cast<uint16_t>(byte);
  if (!known_.iconv) {
    std::copy_n(charsets::kKeybcs2, 0x80, one_.begin() + 0x80);
    ascii_ = true;
    return true;
  }
  Converter converter(known_.iconv);
  if (!converter.opened()) return false;
  uint8_t code[2];
  for (unsigned byte = 0; byte < 0x100; ++byte) {
    code[0] = static_cast<uint8_t>(byte);
    bool alone = known_.shape == Shape::one_byte || byte < 0x80 || known_.shape == Shape::shift_jis;
    one_[byte] = static_cast<uint16_t>(alone ? converter.code_point(code, 1) : 0);
  }
  if (known_.shape != Shape::one_byte) {
    two_.resize(0x10000 - kTwoByteBase);
    for (uint32_t i = 0; i < two_.size(); ++i) {
      store(code, __builtin_bswap16(static_cast<uint16_t>(kTwoByteBase + i)));
      uint32_t c = length_of(known_.shape, code, 2) == 2 ? converter.code_point(code, 2) : 0;
      two_[i] = static_cast<uint16_t>(c < 0x10000 ? c : 0);
    }
  }
  for (unsigned r = 0; r < known_.run_count; ++r) {
    const Run& run = known_.runs[r];
    if (run.last > 0xffff) continue;
    for (uint32_t c = run.first; c <= run.last; ++c) {
      uint16_t& entry = c < 0x100 ? one_[c] : two_[c - kTwoByteBase];
      entry = static_cast<uint16_t>(run.code_point ? run.code_point + (c - run.first) : 0);
    }
  }
  ascii_ = true;
  for (unsigned byte = 0; byte < 0x80; ++byte) ascii_ = ascii_ && one_[byte] == byte;
  return true;
}

// The code point of a character of three or four bytes; 0: none.
uint32_t Charset::long_character(const uint8_t* p, size_t n) const {
  uint32_t code = 0;
  for (size_t i = 0; i < n; ++i) code = code << 8 | p[i];
  for (unsigned r = 0; r < known_.run_count; ++r) {
    const Run& run = known_.runs[r];
    if (code >= run.first && code <= run.last) return run.code_point ? run.code_point + (code - run.first) : 0;
  }
  return by_library(known_.iconv, p, n);
}

// Reads the character at p: its bytes, and its code point or kNone.
size_t Charset::character(const uint8_t* p, size_t left, uint32_t* code_point) const {
  size_t n = length_of(known_.shape, p, left);
  *code_point = kNone;
  if (n > left) return known_.shape >= Shape::ucs2_be ? left : 1;
  switch (known_.shape) {
    case Shape::ucs2_be:
      *code_point = load_be16(p);
      break;
    case Shape::utf16_be:
      *code_point = utf16(load_be16(p), n == 4 ? load_be16(p + 2) : 0u, n == 4);
      break;
    case Shape::utf16_le:
      *code_point = utf16(load<uint16_t>(p), n == 4 ? load<uint16_t>(p + 2) : 0u, n == 4);
      break;
    case Shape::utf32_be:
      if (load_be32(p) <= 0x10ffff) *code_point = load_be32(p);
      break;
    default: {
      uint32_t c = n == 1   ? one_[p[0]]
                   : n == 2 ? two_[load_be16(p) - kTwoByteBase]
                            : long_character(p, n);
      if (c || !p[0]) *code_point = c;
    }
  }
  return n;
}

size_t Charset::convert(Bytes text, uint8_t* to) const {
  uint8_t* out = to;
  const uint8_t* p = text.data;
  const uint8_t* end = text.end();
  while (p != end) {
    if (ascii_ && static_cast<size_t>(end - p) >= sizeof(uint64_t) && !(load<uint64_t>(p) & kHighBits)) {
      store(out, load<uint64_t>(p));
      p += sizeof(uint64_t);
      out += sizeof(uint64_t);
      continue;
    }
    if (ascii_ && *p < 0x80) {
      *out++ = *p++;
      continue;
    }
    uint32_t c;
    p += character(p, static_cast<size_t>(end - p), &c);
    out = put_utf8(out, c == kNone ? '?' : c);
  }
  return static_cast<size_t>(out - to);
}

bool Charset::holds(Bytes text) const {
  for (const uint8_t* p = text.data; p != text.end();) {
    uint32_t c;
    p += character(p, static_cast<size_t>(text.end() - p), &c);
    if (c == kNone) return false;
  }
  return true;
}

bool charset_text(const std::string& name, Bytes text, std::string* out) {
  const Charset* charset;
  if (!Charset::find(name, &charset)) return false;
  if (!charset) {
    out->assign(text.text());
    return true;
  }
  out->resize(text.size * Charset::kGrowth + 4);
  out->resize(charset->convert(text, reinterpret_cast<uint8_t*>(&(*out)[0])));
  return true;
}

bool utf8_text(const std::string& name, Bytes text, std::string* out, bool* whole) {
  const Charset* charset;
  if (!Charset::find(name, &charset) || !charset_text(name, text, out)) return false;
  bool mended = mend_utf8(reinterpret_cast<uint8_t*>(&(*out)[0]), out->size());
  *whole = !mended && (!charset || charset->holds(text));
  return true;
}

}  // namespace relay
