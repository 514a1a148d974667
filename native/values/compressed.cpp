// Parsing and unpacking of compressed column values.
#include "values/compressed.hpp"

#include "base/output.hpp"

namespace relay {

bool CompressedValue::parse(Bytes bytes, size_t longest, CompressedValue* out) {
  constexpr unsigned kZlib = 8, kRaw = 0x08, kWidth = 0x07;
  *out = CompressedValue();
  if (!bytes.size) return true;
  unsigned head = bytes.data[0];
  out->data = bytes.from(1);
  if (!head) {
    out->size = out->data.size;
    return out->size <= longest;
  }
  unsigned width = head & kWidth;
  if (head >> 4 != kZlib || width < 1 || width > 4 || width > out->data.size) return false;
  out->packed = true;
  out->form = head & kRaw ? Deflated::raw : Deflated::zlib;
  out->size = load_be(out->data.data, width);
  out->data = out->data.from(width);
  return out->size <= longest && may_inflate_to(out->data, out->size);
}

bool CompressedValue::unpack(uint8_t* to) const {
  if (packed) return inflate_exactly(data, form, to, size);
  copy_exact(to, data.data, size);
  return true;
}

bool unpack_value(Bytes bytes, size_t longest, Bytes* value) {
  thread_local Output unpacked;
  CompressedValue packed;
  if (!CompressedValue::parse(bytes, longest, &packed)) return false;
  unpacked.clear();
  unpacked.ensure(packed.size);
  if (!packed.unpack(unpacked.p)) return false;
  *value = Bytes(unpacked.p, packed.size);
  return true;
}

}  // namespace relay
