// The text of values that need no more room than Layout::row_room has for them. Inline, since it runs for every value.
#pragma once

#include "base/numbers.hpp"
#include "values/temporal.hpp"
#include "values/values.hpp"

namespace relay {

uint8_t* put_address(uint8_t* p, Value kind, Bytes bytes);              // UUID, INET4, INET6
uint8_t* put_label(uint8_t* p, const Column& column, uint64_t number);  // of an ENUM
uint8_t* put_labels(uint8_t* p, const Column& column, uint64_t bits);   // of a SET
uint8_t* zero_filled(uint8_t* start, uint8_t* end, unsigned width);

inline uint8_t* put_padded(uint8_t* p, Bytes bytes, size_t width) {
  p = copy_exact(p, bytes.data, bytes.size);
  if (bytes.size >= width) return p;
  std::memset(p, 0, width - bytes.size);
  return p + (width - bytes.size);
}

inline uint64_t bits_of(Bytes bytes) { return load_le(bytes.data, static_cast<unsigned>(bytes.size)); }

inline uint32_t load_le24(const uint8_t* p) { return load<uint16_t>(p) | uint32_t{p[2]} << 16; }

inline int32_t sign_extended24(const uint8_t* p) { return static_cast<int32_t>(load_le24(p) << 8) >> 8; }

// Writes the text. Returns nullptr if the bytes are invalid, or if the value grows().
[[gnu::always_inline]] inline uint8_t* put_bounded(uint8_t* p, const Step& step, const Column& column, Bytes bytes,
                                                   const RenderOptions& options) {
  const uint8_t* image = bytes.data;
  const auto filled = [&](uint8_t* end) { return step.zeros ? zero_filled(p, end, step.zeros) : end; };
  int64_t number;
  switch (step.value) {
    case Value::int8: number = int64_t{load<int8_t>(image)}; break;
    case Value::uint8: number = *image; break;
    case Value::int16: number = load<int16_t>(image); break;
    case Value::uint16: number = load<uint16_t>(image); break;
    case Value::int24: number = sign_extended24(image); break;
    case Value::uint24: number = load_le24(image); break;
    case Value::int32: number = load<int32_t>(image); break;
    case Value::uint32: number = load<uint32_t>(image); break;
    case Value::int64: number = load<int64_t>(image); break;
    case Value::uint64: return filled(put_unsigned(p, load<uint64_t>(image)));
    case Value::float32:
      return filled(step.fixed_digits ? put_fixed_double(p, static_cast<double>(load<float>(image)), step.digits)
                                      : put_float(p, load<float>(image)));
    case Value::float64:
      return filled(step.fixed_digits ? put_fixed_double(p, load<double>(image), step.digits)
                                      : put_double(p, load<double>(image)));
    case Value::decimal: return filled(put_decimal(p, image, step.precision, step.digits));
    case Value::raw:
    case Value::text: return copy_exact(p, image, bytes.size);
    case Value::padded: return put_padded(p, bytes, step.width);
    case Value::enumeration: return put_label(p, column, bits_of(bytes));
    case Value::set: return put_labels(p, column, bits_of(bytes));
    case Value::year: return put_year(p, *image);
    case Value::date: return put_date(p, image);
    case Value::old_time: return put_old_time(p, image, step.digits);
    case Value::old_datetime: return put_old_datetime(p, image, step.digits);
    case Value::old_timestamp: return put_old_timestamp(p, image, step.digits, options.utc);
    case Value::time: return put_time(p, image, step.digits);
    case Value::datetime: return put_datetime(p, image, step.digits);
    case Value::timestamp: return put_timestamp(p, image, step.digits, options.utc);
    case Value::uuid:
    case Value::inet4:
    case Value::inet6: return put_address(p, step.value, bytes);
    default: return nullptr;
  }
  return filled(put_signed(p, number));
}

}  // namespace relay
