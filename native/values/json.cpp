// Printing of binary JSON documents.
#include "values/json.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "values/definition.hpp"
#include "values/json_format.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

// 0: unchanged; 'u': \u00xx; else the letter after the backslash.
char escape_of(uint8_t c) {
  switch (c) {
    case '"':
    case '\\': return static_cast<char>(c);
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\f': return 'f';
    case '\r': return 'r';
    default: return c < 0x20 ? 'u' : 0;
  }
}

// Whether one of eight bytes needs an escape.
bool needs_escape(uint64_t eight) {
  constexpr uint64_t kOnes = 0x0101010101010101, kTops = 0x80 * kOnes;
  auto zero = [](uint64_t v) { return (v - kOnes) & ~v; };  // the result is in the top bit of each byte
  uint64_t control = (eight - 0x20 * kOnes) & ~eight;
  return ((control | zero(eight ^ '"' * kOnes) | zero(eight ^ '\\' * kOnes)) & kTops) != 0;
}

constexpr size_t kMostEscaped = 6;  // bytes that an escaped one takes

uint8_t* put_escaped(uint8_t* p, uint8_t c) {
  static const char kHex[] = "0123456789abcdef";
  const char escape = escape_of(c);
  if (!escape) {
    *p++ = c;
    return p;
  }
  *p++ = '\\';
  *p++ = static_cast<uint8_t>(escape);
  if (escape != 'u') return p;
  p = put_two(p, 0);
  *p++ = static_cast<uint8_t>(kHex[c >> 4]);
  *p++ = static_cast<uint8_t>(kHex[c & 15]);
  return p;
}

// Writes the text in quotes: at most kMostEscaped * text.size + 2 bytes. Eight more may be touched.
uint8_t* put_quoted(uint8_t* p, Bytes text) {
  constexpr size_t kWord = sizeof(uint64_t);
  constexpr uint64_t kSpaces = 0x2020202020202020;
  const uint8_t* const end = text.end();
  *p++ = '"';
  for (const uint8_t* at = text.data; at != end;) {
    const size_t n = std::min(static_cast<size_t>(end - at), kWord);
    uint64_t word = word_at(text.data, at, end);
    if (n < kWord) word |= kSpaces << 8 * n;
    if (!needs_escape(word)) {
      store(p, word);
      p += n;
      at += n;
    } else {
      for (const uint8_t* const next = at + n; at != next; ++at) p = put_escaped(p, *at);
    }
  }
  *p++ = '"';
  return p;
}

constexpr size_t kBase64Line = 57;  // bytes of data

size_t base64_size(size_t size) { return (size + 2) / 3 * 4 + size / kBase64Line * 2; }

// Writes at most base64_size(data.size) bytes, as the server does: with an escaped newline between lines of 76
// characters.
uint8_t* put_base64(uint8_t* p, Bytes data) {
  static const char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < data.size; i += 3) {
    if (i && i % kBase64Line == 0) p = put_chars(p, "\\n");
    size_t n = data.size - i < 3 ? data.size - i : 3;
    uint32_t v = uint32_t{data.data[i]} << 16;
    if (n > 1) v |= uint32_t{data.data[i + 1]} << 8;
    if (n > 2) v |= data.data[i + 2];
    for (size_t k = 0; k < 4; ++k) *p++ = static_cast<uint8_t>(k <= n ? kLetters[v >> (18 - 6 * k) & 63] : '=');
  }
  return p;
}

// A double stays a double when it is read again: 1.0, not 1.
uint8_t* put_number(uint8_t* p, double v) {
  uint8_t* end = put_double(p, v);
  if (!std::isfinite(v)) return end;
  for (uint8_t* c = p; c != end; ++c) {
    if (*c == '.' || *c == 'e') return end;
  }
  return put_chars(end, ".0");
}

// Each function writes at p, which has room for Output::kSlack bytes, and leaves as much room behind what it wrote. It
// returns the end, or nullptr if the bytes are not a document.
class Printer {
 public:
  // A valid document refers to each of its bytes once. The budget stops a crafted one that refers to bytes repeatedly.
  Printer(Output& out, size_t size) : out_(out), budget_(2 * size + 16) {}

  uint8_t* value(uint8_t* p, const JsonValue& value, unsigned depth) {
    if (!spend(1)) return nullptr;
    Reader in(value.bytes);
    switch (value.tag) {
      case kSmallObject:
      case kLargeObject:
      case kSmallArray:
      case kLargeArray: return container(p, value, depth);
      case kJsonText: return text(p, in);
      case kOpaque: return opaque(p, in);
      case kLiteral: p = literal(p, in.u8()); break;
      case kInt16: p = put_signed(p, static_cast<int16_t>(in.u16())); break;
      case kUint16: p = put_unsigned(p, in.u16()); break;
      case kInt32: p = put_signed(p, static_cast<int32_t>(in.u32())); break;
      case kUint32: p = put_unsigned(p, in.u32()); break;
      case kInt64: p = put_signed(p, static_cast<int64_t>(in.u64())); break;
      case kUint64: p = put_unsigned(p, in.u64()); break;
      case kJsonDouble: {
        const uint64_t bits = in.u64();
        p = put_number(p, load<double>(&bits));
        break;
      }
      default: return nullptr;
    }
    return p && in.ok() ? room(p, 0) : nullptr;
  }

 private:
  static_assert(kDoubleRoom + 2 <= Output::kSlack && kTemporalRoom + 2 <= Output::kSlack);

  bool spend(size_t n) {
    if (n > budget_) return false;
    budget_ -= n;
    return true;
  }

  // Makes room for n bytes at p, and kSlack more.
  uint8_t* room(uint8_t* p, size_t n) {
    out_.p = p;
    out_.ensure(n);
    return out_.p;
  }

  static uint8_t* literal(uint8_t* p, uint8_t which) {
    switch (which) {
      case 0: return put_chars(p, "null");
      case 1: return put_chars(p, "true");
      case 2: return put_chars(p, "false");
      default: return nullptr;
    }
  }

  uint8_t* text(uint8_t* p, Reader& in) {
    size_t length;
    if (!take_json_length(in, &length) || !spend(length)) return nullptr;
    const Bytes bytes = in.take(length);
    return in.ok() ? quoted(p, bytes) : nullptr;
  }

  uint8_t* quoted(uint8_t* p, Bytes bytes) { return put_quoted(room(p, kMostEscaped * bytes.size + 2), bytes); }

  uint8_t* opaque(uint8_t* p, Reader& in) {
    const uint8_t type = in.u8();
    size_t length;
    if (!take_json_length(in, &length) || !spend(length)) return nullptr;
    const Bytes bytes = in.take(length);
    if (!in.ok()) return nullptr;
    switch (type) {
      case kNewDecimal: return decimal(p, bytes);
      case kDate:
      case kTime:
      case kTime2:
      case kDatetime:
      case kDatetime2:
      case kTimestamp:
      case kTimestamp2: return temporal(p, type, bytes);
      default:
        p = put_unsigned(put_chars(p, "\"base64:type"), type);
        *p++ = ':';
        p = put_base64(room(p, base64_size(bytes.size) + 1), bytes);
        *p++ = '"';
        return p;
    }
  }

  uint8_t* decimal(uint8_t* p, Bytes bytes) {
    if (bytes.size < 2) return nullptr;
    const unsigned precision = bytes.data[0], scale = bytes.data[1];
    if (!is_decimal(precision, scale) || decimal_size(precision, scale) != bytes.size - 2) return nullptr;
    return put_decimal(room(p, kDecimalRoom), bytes.data + 2, precision, scale);
  }

  uint8_t* temporal(uint8_t* p, uint8_t type, Bytes bytes) {
    if (bytes.size != 8) return nullptr;
    const auto packed = load<int64_t>(bytes.data);
    *p++ = '"';
    if (type == kDate) {
      p = put_packed_date(p, packed);
    } else if (type == kTime || type == kTime2) {
      p = put_packed_time(p, packed);
    } else {
      p = put_packed_datetime(p, packed);
    }
    if (!p) return nullptr;
    *p++ = '"';
    return room(p, 0);
  }

  uint8_t* container(uint8_t* p, const JsonValue& value, unsigned depth) {
    JsonContainer in;
    if (depth >= kJsonDepth || !JsonContainer::parse(value, &in)) return nullptr;
    *p++ = in.object ? '{' : '[';
    for (uint64_t i = 0; i < in.count; ++i) {
      if (i) p = put_chars(p, ", ");
      if (in.object) {
        Bytes bytes;
        if (!in.key(i, &bytes) || !spend(bytes.size)) return nullptr;
        p = put_chars(quoted(p, bytes), ": ");
      }
      JsonValue element;
      if (!in.value(i, &element)) return nullptr;
      p = this->value(room(p, 0), element, depth + 1);
      if (!p) return nullptr;
    }
    *p++ = in.object ? '}' : ']';
    return room(p, 0);
  }

  Output& out_;
  size_t budget_;
};

}  // namespace

bool put_json(Output& out, Bytes document) {
  out.ensure(0);
  uint8_t* const end = document.size ? Printer(out, document.size).value(out.p, {document.data[0], document.from(1)}, 0)
                                     : put_chars(out.p, "null");  // the server stores this where a NULL became a value
  if (end) out.p = end;
  return end != nullptr;
}

}  // namespace relay
