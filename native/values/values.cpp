// Writers of column values, by kind.
#include "values/values.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "base/msgpack.hpp"
#include "base/utf8.hpp"
#include "values/bounded.hpp"
#include "values/charset.hpp"
#include "values/compressed.hpp"
#include "values/json.hpp"

namespace relay {

namespace {

constexpr size_t kHead32 = 5;  // size of a msgpack header with a 32-bit length

// Calls `use` with the value of an integer column, signed or unsigned, and `otherwise` for other kinds.
template <typename Use, typename Otherwise>
inline auto with_integer(const Cell& cell, Use use, Otherwise otherwise) {
  const uint8_t* image = cell.bytes.data;
  switch (cell.step.value) {
    case Value::int8: return use(int64_t{load<int8_t>(image)});
    case Value::uint8: return use(uint64_t{*image});
    case Value::int16: return use(int64_t{load<int16_t>(image)});
    case Value::uint16: return use(uint64_t{load<uint16_t>(image)});
    case Value::int24: return use(int64_t{sign_extended24(image)});
    case Value::uint24: return use(uint64_t{load_le24(image)});
    case Value::int32: return use(int64_t{load<int32_t>(image)});
    case Value::uint32: return use(uint64_t{load<uint32_t>(image)});
    case Value::int64: return use(load<int64_t>(image));
    case Value::uint64: return use(load<uint64_t>(image));
    default: return otherwise();
  }
}

uint8_t* put_uuid(uint8_t* p, const uint8_t* bytes) {
  static const char kHex[] = "0123456789abcdef";
  for (unsigned i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *p++ = '-';
    *p++ = static_cast<uint8_t>(kHex[bytes[i] >> 4]);
    *p++ = static_cast<uint8_t>(kHex[bytes[i] & 15]);
  }
  return p;
}

// Prints as MariaDB does: the first of the longest runs of zero groups becomes ::, even a single group, which inet_ntop
// would keep; an address that carries an IPv4 address ends with it.
uint8_t* put_inet6(uint8_t* p, const uint8_t* bytes) {
  constexpr unsigned kGroups = 8;
  unsigned first = 0, zeros = 0;
  for (unsigned i = 0, run = 0; i < kGroups; ++i) {
    run = load_be16(bytes + 2 * i) ? 0 : run + 1;
    if (run > zeros) {
      zeros = run;
      first = i + 1 - run;
    }
  }
  bool carries = first == 0 && (zeros == 6 || (zeros == 5 && load_be16(bytes + 10) == 0xffff));
  for (unsigned i = 0; i < kGroups; ++i) {
    if (zeros && i == first) {
      *p++ = ':';
      i += zeros - 1;
      if (i == kGroups - 1) *p++ = ':';
      continue;
    }
    if (i) *p++ = ':';
    if (carries && i == 6) {
      char text[INET_ADDRSTRLEN];
      if (!inet_ntop(AF_INET, bytes + 12, text, sizeof text)) return nullptr;
      return copy_exact(p, reinterpret_cast<const uint8_t*>(text), std::strlen(text));
    }
    char* digits = reinterpret_cast<char*>(p);
    p = reinterpret_cast<uint8_t*>(std::to_chars(digits, digits + 4, load_be16(bytes + 2 * i), 16).ptr);
  }
  return p;
}

// Writes text of another character set. Returns whether it is valid UTF-8 then.
bool put_converted(Output& out, const Charset& from, Bytes text) {
  out.ensure(text.size * Charset::kGrowth);
  const Converted done = from.convert(text, out.p);
  out.p += done.size;
  return done.valid;
}

bool put_compressed(Output& out, const Cell& cell, bool* valid) {
  Bytes value;
  if (!unpack_value(cell.bytes, cell.step.width, &value)) return false;
  if (cell.column.conversion) {
    *valid = put_converted(out, *cell.column.conversion, value);
  } else {
    out.append(value);
    *valid = false;
  }
  return true;
}

// `valid` becomes false if the value may not be valid UTF-8.
uint8_t* put_growing(const Target& to, uint8_t* p, const Cell& cell, bool* valid) {
  Output& out = to.out;
  out.p = p;
  if (cell.step.value == Value::converted) {
    *valid = put_converted(out, *cell.column.conversion, cell.bytes);
  } else if (!(cell.step.value == Value::json ? put_json(out, cell.bytes) : put_compressed(out, cell, valid))) {
    return nullptr;
  }
  out.ensure(to.row_room);
  return out.p;
}

// The tags for lengths of 8, 16 and 32 bits are consecutive.
uint8_t* put_head(uint8_t* p, size_t n, uint8_t tag8) {
  if (n >= 0x100) return msgpack::put_head32(p, static_cast<uint8_t>(tag8 + 2), n);
  p[0] = tag8;
  p[1] = static_cast<uint8_t>(n);
  return p + 2;
}

// Writes a str, or a bin for binary strings, whose length is known only after it is written.
uint8_t* put_packed_growing(const Target& to, uint8_t* p, const Cell& cell) {
  size_t start = to.out.offset(p);
  bool valid = true;
  uint8_t* end = put_growing(to, p + kHead32, cell, &valid);
  if (!end) return nullptr;
  bool binary = cell.step.value == Value::compressed && is_binary(cell.column);
  size_t n = to.out.offset(end) - start - kHead32;
  if (!binary && !valid) mend_utf8(end - n, n);
  msgpack::put_head32(to.out.at(start), binary ? msgpack::kBin32 : msgpack::kStr32, n);
  return end;
}

uint8_t* put_packed_string(uint8_t* p, Bytes b, uint8_t tag8) {
  return copy_exact(put_head(p, b.size, tag8), b.data, b.size);
}

// Writes a str, or a bin for labels that are not text.
uint8_t* put_packed_text(uint8_t* p, const Cell& cell, const RenderOptions& options) {
  bool label = cell.step.value == Value::enumeration || cell.step.value == Value::set;
  uint8_t tag = label && has_byte_labels(cell.column) ? msgpack::kBin8 : msgpack::kStr8;
  uint8_t* text = p + 2;
  uint8_t* end = put_bounded(text, cell.step, cell.column, cell.bytes, options);
  if (!end) return nullptr;
  auto n = static_cast<size_t>(end - text);
  if (n < 0x100) {
    put_head(p, n, tag);
    return end;
  }
  std::memmove(p + kHead32, text, n);
  return put_head(p, n, tag) + n;
}

// Writes bytes or text that need no conversion. Returns nullptr and writes nothing for all other kinds.
uint8_t* put_packed_image(uint8_t* p, const Cell& cell) {
  switch (cell.step.value) {
    case Value::raw: return put_packed_string(p, cell.bytes, msgpack::kBin8);
    case Value::text: {
      const bool valid = is_utf8(cell.bytes.data, cell.bytes.end());
      uint8_t* end = put_packed_string(p, cell.bytes, msgpack::kStr8);
      if (!valid) mend_utf8(end - cell.bytes.size, cell.bytes.size);
      return end;
    }
    case Value::padded:
      return put_padded(put_head(p, std::max<size_t>(cell.bytes.size, cell.step.width), msgpack::kBin8), cell.bytes,
                        cell.step.width);
    default: return nullptr;
  }
}

uint8_t* put_packed_bounded(uint8_t* p, const Cell& cell, const RenderOptions& options) {
  const uint8_t* image = cell.bytes.data;
  switch (cell.step.value) {
    case Value::year: return msgpack::put_int(p, uint64_t{*image ? 1900u + *image : 0});
    case Value::float32:
      msgpack::put_u32(p, load<uint32_t>(image));
      *p = msgpack::kFloat32;
      return p + 5;
    case Value::float64:
      msgpack::put_u64(p, load<uint64_t>(image));
      *p = msgpack::kFloat64;
      return p + 9;
    case Value::raw:
    case Value::text:
    case Value::padded: return put_packed_image(p, cell);
    case Value::enumeration:
    case Value::set:
      return cell.column.labels.empty() ? msgpack::put_int(p, bits_of(cell.bytes)) : put_packed_text(p, cell, options);
    default:
      return with_integer(
          cell, [p](auto v) { return msgpack::put_int(p, v); }, [&] { return put_packed_text(p, cell, options); });
  }
}

}  // namespace

// UUID and INET are stored as binary strings without trailing zeros.
uint8_t* put_address(uint8_t* p, Value kind, Bytes bytes) {
  uint8_t whole[16] = {};
  if (bytes.size > sizeof whole) return nullptr;
  copy_exact(whole, bytes.data, bytes.size);
  if (kind == Value::uuid) return put_uuid(p, whole);
  if (kind == Value::inet6) return put_inet6(p, whole);
  char text[INET_ADDRSTRLEN];
  if (!inet_ntop(AF_INET, whole, text, sizeof text)) return nullptr;
  return put_chars(p, text);
}

uint8_t* zero_filled(uint8_t* start, uint8_t* end, unsigned width) {
  auto n = static_cast<size_t>(end - start);
  if (n >= width) return end;
  std::memmove(start + (width - n), start, n);
  std::memset(start, '0', width - n);
  return start + width;
}

uint8_t* put_label(uint8_t* p, const Column& column, uint64_t number) {
  const std::vector<std::string>& labels = column.labels;
  if (labels.empty()) return put_unsigned(p, number);
  if (number > labels.size()) return nullptr;
  return number ? put_chars(p, labels[number - 1]) : p;
}

uint8_t* put_labels(uint8_t* p, const Column& column, uint64_t bits) {
  const std::vector<std::string>& labels = column.labels;
  if (labels.empty()) return put_unsigned(p, bits);
  if (labels.size() < 64 && bits >> labels.size()) return nullptr;
  const uint8_t* start = p;
  for (size_t i = 0; i < labels.size() && i < 64; ++i) {
    if (!(bits >> i & 1)) continue;
    if (p != start) *p++ = ',';
    p = put_chars(p, labels[i]);
  }
  return p;
}

bool integer_of(const Cell& cell, int64_t* value) {
  auto keep = [value](auto v) {
    *value = static_cast<int64_t>(v);
    return true;
  };
  return with_integer(cell, keep, [] { return false; });
}

uint8_t* put_text(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options) {
  bool valid = true;
  return grows(cell.step.value) ? put_growing(to, p, cell, &valid)
                                : put_bounded(p, cell.step, cell.column, cell.bytes, options);
}

uint8_t* put_typed(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options) {
  return grows(cell.step.value) ? put_packed_growing(to, p, cell) : put_packed_bounded(p, cell, options);
}

uint8_t* put_spelled(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options) {
  if (grows(cell.step.value)) return put_packed_growing(to, p, cell);
  uint8_t* end = put_packed_image(p, cell);
  return end ? end : put_packed_text(p, cell, options);
}

}  // namespace relay
