#include "values.hpp"

#include <arpa/inet.h>

#include "charset.hpp"
#include "json.hpp"
#include "msgpack.hpp"
#include "numbers.hpp"
#include "temporal.hpp"

namespace relay {

namespace {

constexpr size_t kFixedRoom = kFixedDoubleRoom + 256;  // the longest of what put_fixed writes, zeros filled

int64_t sign_extended(const uint8_t* p, unsigned bytes) {
  unsigned unused = 64 - 8 * bytes;
  return static_cast<int64_t>(load_le(p, bytes) << unused) >> unused;
}

// An integer column's value, by its width and signedness; false for other kinds.
bool integer_of(const Cell& cell, uint64_t* bits, bool* is_signed) {
  const uint8_t* p = cell.bytes.data;
  *is_signed = (static_cast<uint8_t>(cell.step.value) & 1) == 0;
  switch (cell.step.value) {
    case Value::int8: *bits = static_cast<uint64_t>(int64_t{load<int8_t>(p)}); return true;
    case Value::uint8: *bits = *p; return true;
    case Value::int16: *bits = static_cast<uint64_t>(int64_t{load<int16_t>(p)}); return true;
    case Value::uint16: *bits = load<uint16_t>(p); return true;
    case Value::int24: *bits = static_cast<uint64_t>(sign_extended(p, 3)); return true;
    case Value::uint24: *bits = load_le(p, 3); return true;
    case Value::int32: *bits = static_cast<uint64_t>(int64_t{load<int32_t>(p)}); return true;
    case Value::uint32: *bits = load<uint32_t>(p); return true;
    case Value::int64: case Value::uint64: *bits = load<uint64_t>(p); return true;
    default: return false;
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

// The strings' trailing zeros are not in the image.
uint8_t* put_restored(uint8_t* p, const Cell& cell) {
  uint8_t whole[16] = {};
  if (cell.bytes.size > sizeof whole) return nullptr;
  std::memcpy(whole, cell.bytes.data, cell.bytes.size);
  if (cell.step.value == Value::uuid) return put_uuid(p, whole);
  char text[INET6_ADDRSTRLEN];
  if (!inet_ntop(cell.step.value == Value::inet4 ? AF_INET : AF_INET6, whole, text, sizeof text)) return nullptr;
  size_t n = std::strlen(text);
  std::memcpy(p, text, n);
  return p + n;
}

uint8_t* put_number(uint8_t* p, const Cell& cell) {
  const Step& step = cell.step;
  const uint8_t* image = cell.bytes.data;
  switch (step.value) {
    case Value::float32:
      return step.fixed_digits ? put_fixed_double(p, static_cast<double>(load<float>(image)), step.digits)
                               : put_float(p, load<float>(image));
    case Value::float64:
      return step.fixed_digits ? put_fixed_double(p, load<double>(image), step.digits) : put_double(p, load<double>(image));
    case Value::decimal:
      return put_decimal(p, image, step.precision, step.digits);
    default: {
      uint64_t bits;
      bool is_signed;
      if (!integer_of(cell, &bits, &is_signed)) return nullptr;
      return is_signed ? put_signed(p, static_cast<int64_t>(bits)) : put_unsigned(p, bits);
    }
  }
}

uint8_t* zero_filled(uint8_t* start, uint8_t* end, unsigned width) {
  auto n = static_cast<size_t>(end - start);
  if (n >= width) return end;
  std::memmove(start + (width - n), start, n);
  std::memset(start, '0', width - n);
  return start + width;
}

// Text of the kinds whose length has a bound; nullptr if the bytes are no such value.
uint8_t* put_fixed(uint8_t* p, const Cell& cell, const RenderOptions& options) {
  const Step& step = cell.step;
  const uint8_t* image = cell.bytes.data;
  switch (step.value) {
    case Value::year: return put_year(p, *image);
    case Value::date: return put_date(p, image);
    case Value::old_time: return put_old_time(p, image);
    case Value::old_datetime: return put_old_datetime(p, image);
    case Value::old_timestamp: return put_old_timestamp(p, image, options.utc);
    case Value::time: return put_time(p, image, step.digits);
    case Value::datetime: return put_datetime(p, image, step.digits);
    case Value::timestamp: return put_timestamp(p, image, step.digits, options.utc);
    case Value::uuid: case Value::inet4: case Value::inet6: return put_restored(p, cell);
    default: {
      uint8_t* end = put_number(p, cell);
      return step.zeros && end ? zero_filled(p, end, step.zeros) : end;
    }
  }
}

bool put_bytes(Output& out, Bytes b) {
  out.ensure(b.size);
  std::memcpy(out.p, b.data, b.size);
  out.p += b.size;
  return true;
}

bool put_label(Output& out, const Cell& cell, uint64_t number) {
  const std::vector<std::string>& labels = cell.column.labels;
  if (labels.empty()) {
    out.ensure(kIntegerRoom);
    out.p = put_unsigned(out.p, number);
    return true;
  }
  if (number > labels.size()) return false;
  return number == 0 || put_bytes(out, Bytes(labels[number - 1]));
}

bool put_labels(Output& out, const Cell& cell, uint64_t bits) {
  const std::vector<std::string>& labels = cell.column.labels;
  if (labels.empty()) return put_label(out, cell, bits);
  bool first = true;
  for (size_t i = 0; i < labels.size() && i < 64; ++i) {
    if (!(bits >> i & 1)) continue;
    if (!first) put_bytes(out, Bytes(",", 1));
    first = false;
    put_bytes(out, Bytes(labels[i]));
  }
  return labels.size() >= 64 || bits >> labels.size() == 0;
}

bool put_padded(Output& out, const Cell& cell) {
  put_bytes(out, cell.bytes);
  if (cell.bytes.size >= cell.step.width) return true;
  size_t zeros = cell.step.width - cell.bytes.size;
  out.ensure(zeros);
  std::memset(out.p, 0, zeros);
  out.p += zeros;
  return true;
}

bool put_converted(Output& out, const Cell& cell) {
  out.ensure(cell.bytes.size * Charset::kGrowth);
  out.p += cell.column.conversion->convert(cell.bytes, out.p);
  return true;
}

uint64_t bits_of(const Cell& cell) { return load_le(cell.bytes.data, static_cast<unsigned>(cell.bytes.size)); }

uint8_t* put_head(uint8_t* p, size_t n, uint8_t tag8) {  // tags of 8, 16 and 32 bits follow one another
  if (n < 0x100) {
    *p++ = tag8;
    *p++ = static_cast<uint8_t>(n);
    return p;
  }
  return msgpack::put_head32(p, static_cast<uint8_t>(tag8 + 2), n);
}

// A msgpack str whose length shows only when its text is written.
template <typename Writer>
bool put_unmeasured(Output& out, Writer write) {
  constexpr size_t kHead = 5;
  out.ensure(kHead);
  size_t start = out.size();
  out.p += kHead;
  if (!write()) return false;
  msgpack::put_head32(out.at(start), 0xdb, out.size() - start - kHead);
  return true;
}

uint8_t* put_packed_integer(uint8_t* p, uint64_t bits, bool is_signed) {
  auto v = static_cast<int64_t>(bits);
  if (is_signed && v < 0) {
    if (v >= -32) {
      *p = static_cast<uint8_t>(v);
      return p + 1;
    }
    if (v < INT32_MIN) {
      *p = 0xd3;
      store(p + 1, __builtin_bswap64(bits));
      return p + 9;
    }
    *p = 0xd2;
    store(p + 1, __builtin_bswap32(static_cast<uint32_t>(bits)));
    return p + 5;
  }
  if (bits < 0x80) return msgpack::put_small(p, static_cast<unsigned>(bits));
  return bits <= UINT32_MAX ? msgpack::put_u32(p, static_cast<uint32_t>(bits)) : msgpack::put_u64(p, bits);
}

bool put_packed_bytes(Output& out, Bytes b, uint8_t tag8) {
  out.ensure(b.size + 5);
  out.p = put_head(out.p, b.size, tag8);
  return put_bytes(out, b);
}

bool put_packed_padded(Output& out, const Cell& cell) {
  out.ensure(5);
  out.p = put_head(out.p, cell.bytes.size < cell.step.width ? cell.step.width : cell.bytes.size, 0xc4);
  return put_padded(out, cell);
}

bool put_packed_fixed(Output& out, const Cell& cell, const RenderOptions& options) {
  out.ensure(kFixedRoom);
  uint8_t* text = out.p + 2;
  uint8_t* end = put_fixed(text, cell, options);
  if (!end) return false;
  put_head(out.p, static_cast<size_t>(end - text), 0xd9);
  out.p = end;
  return true;
}

}  // namespace

bool put_text(Output& out, const Cell& cell, const RenderOptions& options) {
  switch (cell.step.value) {
    case Value::raw: case Value::text: return put_bytes(out, cell.bytes);
    case Value::padded: return put_padded(out, cell);
    case Value::converted: return put_converted(out, cell);
    case Value::enumeration: return put_label(out, cell, bits_of(cell));
    case Value::set: return put_labels(out, cell, bits_of(cell));
    case Value::json: return put_json(out, cell.bytes);
    default: {
      out.ensure(kFixedRoom);
      uint8_t* end = put_fixed(out.p, cell, options);
      if (end) out.p = end;
      return end != nullptr;
    }
  }
}

bool put_typed(Output& out, const Cell& cell, const RenderOptions& options) {
  const uint8_t* image = cell.bytes.data;
  bool labelled = !cell.column.labels.empty();
  out.ensure(16);
  uint64_t bits;
  bool is_signed;
  if (integer_of(cell, &bits, &is_signed)) {
    out.p = put_packed_integer(out.p, bits, is_signed);
    return true;
  }
  switch (cell.step.value) {
    case Value::year:
      out.p = put_packed_integer(out.p, *image ? 1900u + *image : 0, false);
      return true;
    case Value::float32:
      out.p = msgpack::put_u32(out.p, load<uint32_t>(image));
      out.p[-5] = 0xca;
      return true;
    case Value::float64:
      out.p = msgpack::put_u64(out.p, load<uint64_t>(image));
      out.p[-9] = 0xcb;
      return true;
    case Value::raw: return put_packed_bytes(out, cell.bytes, 0xc4);
    case Value::padded: return put_packed_padded(out, cell);
    case Value::text: return put_packed_bytes(out, cell.bytes, 0xd9);
    case Value::enumeration: case Value::set:
      if (labelled) return put_unmeasured(out, [&] { return put_text(out, cell, options); });
      out.p = put_packed_integer(out.p, bits_of(cell), false);
      return true;
    case Value::converted: case Value::json: return put_unmeasured(out, [&] { return put_text(out, cell, options); });
    default: return put_packed_fixed(out, cell, options);
  }
}

}  // namespace relay
