// Parsing of binary JSON values and containers.
#include "values/json_format.hpp"

namespace relay {

namespace {

uint64_t take_offset(Reader& in, unsigned width) { return width == 2 ? in.u16() : in.u32(); }

uint64_t offset_at(const uint8_t* p, unsigned width) { return width == 2 ? load<uint16_t>(p) : load<uint32_t>(p); }

}  // namespace

bool take_long_json_length(Reader& in, uint8_t first, size_t* length) {
  uint64_t v = first & 0x7fu;
  for (unsigned shift = 7; shift < 35; shift += 7) {
    uint8_t byte = in.u8();
    v |= uint64_t{byte & 0x7fu} << shift;
    if (!(byte & 0x80)) {
      *length = v;
      return in.ok();
    }
  }
  return false;
}

bool JsonValue::trim() {
  Reader in(bytes);
  size_t length = 0;
  switch (tag) {
    case kSmallObject:
    case kSmallArray:
      in.skip(2);
      length = in.u16();
      if (!in.ok() || length < 4 || length > bytes.size) return false;
      bytes.size = length;
      return true;
    case kLargeObject:
    case kLargeArray:
      in.skip(4);
      length = in.u32();
      if (!in.ok() || length < 8 || length > bytes.size) return false;
      bytes.size = length;
      return true;
    case kLiteral: in.skip(1); break;
    case kInt16:
    case kUint16: in.skip(2); break;
    case kInt32:
    case kUint32: in.skip(4); break;
    case kInt64:
    case kUint64:
    case kJsonDouble: in.skip(8); break;
    case kOpaque:
      in.skip(1);  // the column type of the opaque value
      [[fallthrough]];
    case kJsonText:
      if (!take_json_length(in, &length)) return false;
      in.skip(length);
      break;
    default: return false;
  }
  if (!in.ok()) return false;
  bytes.size -= in.left();
  return true;
}

bool JsonContainer::parse(const JsonValue& value, JsonContainer* out) {
  out->object = is_json_object(value.tag);
  if (!out->object && !is_json_array(value.tag)) return false;
  unsigned width = value.tag == kLargeObject || value.tag == kLargeArray ? 4 : 2;
  Reader in(value.bytes);
  uint64_t count = take_offset(in, width);
  uint64_t size = take_offset(in, width);
  if (!in.ok() || size > value.bytes.size) return false;
  out->width = width;
  out->count = count;
  out->whole = Bytes(value.bytes.data, size);
  Reader entries(out->whole);
  entries.skip(2 * width);
  out->key_entries = entries.take(out->object ? count * (width + 2) : 0).data;
  out->value_entries = entries.take(count * (width + 1)).data;
  return entries.ok();
}

bool JsonContainer::key(uint64_t i, Bytes* out) const {
  const uint8_t* entry = key_entries + i * (width + 2);
  uint64_t offset = offset_at(entry, width);
  size_t length = load<uint16_t>(entry + width);
  if (offset > whole.size || length > whole.size - offset) return false;
  *out = whole.sub(offset, length);
  return true;
}

bool JsonContainer::value(uint64_t i, JsonValue* out) const {
  const uint8_t* entry = value_entries + i * (width + 1);
  out->tag = entry[0];
  if (is_json_inlined(out->tag, width)) {
    out->bytes = Bytes(entry + 1, width);
    return true;
  }
  uint64_t offset = offset_at(entry + 1, width);
  if (offset > whole.size) return false;
  out->bytes = whole.from(offset);
  return true;
}

}  // namespace relay
