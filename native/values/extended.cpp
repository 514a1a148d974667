// Writes values with MessagePack's extension types.
#include <charconv>

#include "base/msgpack.hpp"
#include "base/numbers.hpp"
#include "values/values.hpp"

namespace relay {

namespace {

constexpr size_t kExtHead8 = 3, kExtHead32 = 6;  // size of a header with a length of 8 or 32 bits

Extension extension_of(const Cell& cell) {
  switch (cell.step.value) {
    case Value::decimal: return Extension::decimal;
    case Value::date: return Extension::date;
    case Value::old_time:
    case Value::time: return Extension::time;
    case Value::old_datetime:
    case Value::datetime: return Extension::datetime;
    case Value::old_timestamp:
    case Value::timestamp: return Extension::timestamp;
    case Value::set:
      return cell.column.labels.empty() || has_byte_labels(cell.column) ? Extension::none : Extension::set;
    case Value::json: return Extension::json;
    default: return Extension::none;
  }
}

uint8_t* put_head8(uint8_t* p, size_t n, Extension type) {
  p[0] = msgpack::kExt8;
  p[1] = static_cast<uint8_t>(n);
  p[2] = static_cast<uint8_t>(type);
  return p + kExtHead8;
}

uint8_t* put_head32(uint8_t* p, size_t n, Extension type) {
  p = msgpack::put_head32(p, msgpack::kExt32, n);
  *p = static_cast<uint8_t>(type);
  return p + 1;
}

// Writes the number that the printed text of a FLOAT or DOUBLE has.
uint8_t* put_printed(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options) {
  const uint8_t* end = put_text(to, p, cell, options);
  double number = 0;
  std::from_chars(reinterpret_cast<const char*>(p), reinterpret_cast<const char*>(end), number);
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  msgpack::put_u64(p, bits);
  *p = msgpack::kFloat64;
  return p + 9;
}

}  // namespace

uint8_t* put_extended(const Target& to, uint8_t* p, const Cell& cell, const RenderOptions& options) {
  const Step& step = cell.step;
  if (step.value == Value::float32 || (step.value == Value::float64 && step.fixed_digits))
    return put_printed(to, p, cell, options);
  const Extension type = extension_of(cell);
  if (type == Extension::none) return put_typed(to, p, cell, options);
  static const RenderOptions utc;
  size_t start = to.out.offset(p);
  uint8_t* text = p + (type == Extension::json ? kExtHead32 : kExtHead8);
  size_t head = static_cast<size_t>(text - p);
  uint8_t* end = put_text(to, text, cell, utc);
  if (!end) return nullptr;
  p = to.out.at(start);
  size_t n = to.out.offset(end) - start - head;
  if (head == kExtHead8 && n < 0x100) {
    put_head8(p, n, type);
    return end;
  }
  if (head == kExtHead8) std::memmove(p + kExtHead32, p + kExtHead8, n);
  return put_head32(p, n, type) + n;
}

}  // namespace relay
