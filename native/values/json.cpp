// Printing of binary JSON documents.
#include "values/json.hpp"

#include <cmath>

#include "base/numbers.hpp"
#include "values/definition.hpp"
#include "values/json_format.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

constexpr size_t kScalarRoom = 400;

void put_text(Output& out, std::string_view text) {
  out.ensure(text.size());
  std::memcpy(out.p, text.data(), text.size());
  out.p += text.size();
}

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

void put_quoted(Output& out, Bytes text) {
  out.ensure(text.size * 6 + 2);
  uint8_t* p = out.p;
  *p++ = '"';
  for (size_t i = 0; i < text.size; ++i) {
    if (text.size - i >= sizeof(uint64_t) && !needs_escape(load<uint64_t>(text.data + i))) {
      store(p, load<uint64_t>(text.data + i));
      p += sizeof(uint64_t);
      i += sizeof(uint64_t) - 1;
      continue;
    }
    uint8_t c = text.data[i];
    char escape = escape_of(c);
    if (!escape) {
      *p++ = c;
      continue;
    }
    *p++ = '\\';
    *p++ = static_cast<uint8_t>(escape);
    if (escape == 'u') {
      static const char kHex[] = "0123456789abcdef";
      p = put_two(p, 0);
      *p++ = static_cast<uint8_t>(kHex[c >> 4]);
      *p++ = static_cast<uint8_t>(kHex[c & 15]);
    }
  }
  *p++ = '"';
  out.p = p;
}

// As the server writes it: with an escaped newline between lines of 76 characters.
void put_base64(Output& out, Bytes data) {
  static const char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr size_t kLine = 57;  // bytes of data
  out.ensure((data.size + 2) / 3 * 4 + data.size / kLine * 2);
  for (size_t i = 0; i < data.size; i += 3) {
    if (i && i % kLine == 0) {
      *out.p++ = '\\';
      *out.p++ = 'n';
    }
    size_t n = data.size - i < 3 ? data.size - i : 3;
    uint32_t v = uint32_t{data.data[i]} << 16;
    if (n > 1) v |= uint32_t{data.data[i + 1]} << 8;
    if (n > 2) v |= data.data[i + 2];
    for (size_t k = 0; k < 4; ++k) *out.p++ = static_cast<uint8_t>(k <= n ? kLetters[v >> (18 - 6 * k) & 63] : '=');
  }
}

class Printer {
 public:
  // A valid document refers to each of its bytes once. The budget stops a crafted one that refers to bytes repeatedly.
  Printer(Output& out, size_t size) : out_(out), budget_(2 * size + 16) {}

  bool value(const JsonValue& value, unsigned depth) {
    if (!spend(1)) return false;
    if (is_json_object(value.tag) || is_json_array(value.tag)) return container(value, depth);
    switch (value.tag) {
      case kJsonText: return text(value.bytes);
      case kOpaque: return opaque(value.bytes);
      default: return scalar(value.tag, value.bytes);
    }
  }

 private:
  bool spend(size_t n) {
    if (n > budget_) return false;
    budget_ -= n;
    return true;
  }

  bool scalar(uint8_t tag, Bytes at) {
    Reader in(at);
    out_.ensure(kScalarRoom);
    uint8_t* p = out_.p;
    switch (tag) {
      case kLiteral: return literal(in);
      case kInt16: p = put_signed(p, static_cast<int16_t>(in.u16())); break;
      case kUint16: p = put_unsigned(p, in.u16()); break;
      case kInt32: p = put_signed(p, static_cast<int32_t>(in.u32())); break;
      case kUint32: p = put_unsigned(p, in.u32()); break;
      case kInt64: p = put_signed(p, static_cast<int64_t>(in.u64())); break;
      case kUint64: p = put_unsigned(p, in.u64()); break;
      case kJsonDouble: p = number(p, in.u64()); break;
      default: return false;
    }
    if (!in.ok()) return false;
    out_.p = p;
    return true;
  }

  bool literal(Reader& in) {
    uint8_t which = in.u8();
    if (!in.ok() || which > 2) return false;
    put_text(out_, which == 0 ? "null" : which == 1 ? "true" : "false");
    return true;
  }

  // A double stays a double when it is read again: 1.0, not 1.
  static uint8_t* number(uint8_t* p, uint64_t bits) {
    double v = load<double>(&bits);
    uint8_t* end = put_double(p, v);
    if (!std::isfinite(v)) return end;
    for (uint8_t* c = p; c != end; ++c) {
      if (*c == '.' || *c == 'e') return end;
    }
    *end++ = '.';
    *end++ = '0';
    return end;
  }

  bool text(Bytes at) {
    Reader in(at);
    size_t length;
    if (!take_json_length(in, &length) || !spend(length)) return false;
    Bytes bytes = in.take(length);
    if (!in.ok()) return false;
    put_quoted(out_, bytes);
    return true;
  }

  bool opaque(Bytes at) {
    Reader in(at);
    uint8_t type = in.u8();
    size_t length;
    if (!take_json_length(in, &length) || !spend(length)) return false;
    Bytes bytes = in.take(length);
    if (!in.ok()) return false;
    switch (type) {
      case kNewDecimal: return decimal(bytes);
      case kDate:
      case kTime:
      case kTime2:
      case kDatetime:
      case kDatetime2:
      case kTimestamp:
      case kTimestamp2: return temporal(type, bytes);
      default:
        put_text(out_, "\"base64:type");
        out_.ensure(kIntegerRoom);
        out_.p = put_unsigned(out_.p, type);
        put_text(out_, ":");
        put_base64(out_, bytes);
        put_text(out_, "\"");
        return true;
    }
  }

  bool decimal(Bytes bytes) {
    if (bytes.size < 2) return false;
    unsigned precision = bytes.data[0], scale = bytes.data[1];
    Column column;
    column.type = kNewDecimal;
    column.meta = static_cast<uint16_t>(precision << 8 | scale);
    Extent extent;
    if (!extent_of(column, &extent) || extent.fixed != bytes.size - 2) return false;
    out_.ensure(kDecimalRoom);
    out_.p = put_decimal(out_.p, bytes.data + 2, precision, scale);
    return true;
  }

  bool temporal(uint8_t type, Bytes bytes) {
    if (bytes.size != 8) return false;
    auto packed = load<int64_t>(bytes.data);
    out_.ensure(kTemporalRoom + 2);
    uint8_t* p = out_.p;
    *p++ = '"';
    if (type == kDate) {
      p = put_packed_date(p, packed);
    } else if (type == kTime || type == kTime2) {
      p = put_packed_time(p, packed);
    } else {
      p = put_packed_datetime(p, packed);
    }
    if (!p) return false;
    *p++ = '"';
    out_.p = p;
    return true;
  }

  bool container(const JsonValue& value, unsigned depth) {
    JsonContainer in;
    if (depth >= kJsonDepth || !JsonContainer::parse(value, &in)) return false;
    put_text(out_, in.object ? "{" : "[");
    for (uint64_t i = 0; i < in.count; ++i) {
      if (i) put_text(out_, ", ");
      JsonValue element;
      if (in.object && !key(in, i)) return false;
      if (!in.value(i, &element) || !this->value(element, depth + 1)) return false;
    }
    put_text(out_, in.object ? "}" : "]");
    return true;
  }

  bool key(const JsonContainer& in, uint64_t i) {
    Bytes bytes;
    if (!in.key(i, &bytes) || !spend(bytes.size)) return false;
    put_quoted(out_, bytes);
    put_text(out_, ": ");
    return true;
  }

  Output& out_;
  size_t budget_;
};

}  // namespace

bool put_json(Output& out, Bytes document) {
  if (!document.size) {  // the server stores this where a NULL became a value without an error
    put_text(out, "null");
    return true;
  }
  return Printer(out, document.size).value(JsonValue{document.data[0], document.from(1)}, 0);
}

}  // namespace relay
