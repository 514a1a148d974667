// Computes layouts from definitions.
#include "values/layout.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/msgpack.hpp"
#include "base/numbers.hpp"
#include "base/output.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

constexpr uint8_t kFloatWidth = 12;  // the ZEROFILL width of a column without one
constexpr uint8_t kDoubleWidth = 22;
constexpr uint32_t kLargestValue = 1u << 30;  // the largest value a server can get: the maximum of max_allowed_packet

void add_u32(std::string* out, uint32_t v) { out->append(reinterpret_cast<const char*>(&v), sizeof v); }

// Appends a classic protocol string: u32 length + 1, bytes, 00.
void add_string(std::string* out, const std::string& s) {
  add_u32(out, static_cast<uint32_t>(s.size() + 1));
  *out += s;
  out->push_back('\0');
}

void add_name(std::string* out, const std::string& s) {
  std::vector<uint8_t> bytes(s.size() + 5);
  out->append(bytes.data(), msgpack::put_name(bytes.data(), s));
}

class Spans {
 public:
  explicit Spans(std::string* text) : text_(text) {}
  void begin() { at_ = text_->size(); }
  Span end() const { return Span{static_cast<uint32_t>(at_), static_cast<uint32_t>(text_->size() - at_)}; }

 private:
  std::string* text_;
  size_t at_ = 0;
};

bool has(const Column& c, const char* word) { return c.sql_type.find(word) != std::string::npos; }

// The n-th number in the parentheses of the SQL type, or `otherwise`.
unsigned number_in(const std::string& sql_type, unsigned n, unsigned otherwise) {
  size_t at = sql_type.find('(');
  for (; n > 0 && at != std::string::npos; --n) at = sql_type.find(',', at);
  if (at == std::string::npos) return otherwise;
  return static_cast<unsigned>(std::strtoul(sql_type.c_str() + at + 1, nullptr, 10));
}

Value integer(Value is_signed, const Column& c) {
  return static_cast<Value>(static_cast<uint8_t>(is_signed) + (c.is_unsigned ? 1 : 0));
}

Value string_value(const Column& c, bool proven) {
  if (c.conversion) return Value::converted;
  if (c.charset == "binary") {
    if (c.sql_type == "uuid") return Value::uuid;
    if (c.sql_type == "inet4") return Value::inet4;
    if (c.sql_type == "inet6") return Value::inet6;
    return c.type == kString && proven ? Value::padded : Value::raw;
  }
  return c.charset.empty() ? Value::raw : Value::text;
}

Value value_of(const Column& c, bool proven) {
  switch (c.type) {
    case kTiny: return integer(Value::int8, c);
    case kShort: return integer(Value::int16, c);
    case kInt24: return integer(Value::int24, c);
    case kLong: return integer(Value::int32, c);
    case kLongLong: return integer(Value::int64, c);
    case kFloat: return Value::float32;
    case kDouble: return Value::float64;
    case kNewDecimal: return Value::decimal;
    case kYear: return Value::year;
    case kDate:
    case kNewDate: return Value::date;
    case kTime: return Value::old_time;
    case kDatetime: return Value::old_datetime;
    case kTimestamp: return Value::old_timestamp;
    case kTime2: return Value::time;
    case kDatetime2: return Value::datetime;
    case kTimestamp2: return Value::timestamp;
    case kEnum: return Value::enumeration;
    case kSet: return Value::set;
    case kJson: return Value::json;
    case kBit:
    case kGeometry:
    case kVector: return Value::raw;
    case kBlobCompressed:
    case kVarcharCompressed: return Value::compressed;
    default: return string_value(c, proven);
  }
}

uint8_t zero_fill_width(const Column& c) {
  if (!has(c, "zerofill")) return 0;
  unsigned otherwise = c.type == kFloat ? kFloatWidth : c.type == kDouble ? kDoubleWidth : 0;
  unsigned width = number_in(c.sql_type, 0, otherwise);
  if (c.type == kNewDecimal) width += c.meta & 0xff ? 1 : 0;  // the decimal point
  return static_cast<uint8_t>(width < 255 ? width : 255);
}

uint32_t label_room(const Column& c) {
  size_t longest = 0, all = 0;
  for (const std::string& label : c.labels) {
    longest = std::max(longest, label.size());
    all += label.size() + 1;
  }
  return static_cast<uint32_t>(kIntegerRoom + (c.type == kSet ? all : longest));
}

uint32_t room_of(const Column& c, const Step& step) {
  switch (step.value) {
    case Value::float32:
    case Value::float64:
      return static_cast<uint32_t>((step.fixed_digits ? kFixedDoubleRoom : kDoubleRoom) + step.zeros);
    case Value::decimal: return static_cast<uint32_t>(kDecimalRoom + step.zeros);
    case Value::enumeration:
    case Value::set: return label_room(c);
    case Value::padded: return step.width;
    case Value::raw:
    case Value::text:
    case Value::converted:
    case Value::json:
    case Value::compressed: return 0;
    case Value::year:
    case Value::date:
    case Value::old_time:
    case Value::old_datetime:
    case Value::old_timestamp:
    case Value::time:
    case Value::datetime:
    case Value::timestamp:
    case Value::uuid:
    case Value::inet4:
    case Value::inet6: return kTemporalRoom;
    default: return static_cast<uint32_t>(kIntegerRoom + step.zeros);
  }
}

Step step_of(const Column& c, Extent extent, bool proven) {
  Step step;
  step.extent = extent;
  step.value = value_of(c, proven);
  step.zeros = zero_fill_width(c);
  switch (c.type) {
    case kNewDecimal:
      step.precision = static_cast<uint8_t>(c.meta >> 8);
      step.digits = static_cast<uint8_t>(c.meta);
      break;
    case kTime:
    case kDatetime:
    case kTimestamp:
    case kTime2:
    case kDatetime2:
    case kTimestamp2: step.digits = static_cast<uint8_t>(c.meta); break;
    case kFloat:
    case kDouble: {
      unsigned digits = number_in(c.sql_type, 1, 255);
      step.fixed_digits = digits <= 30;
      step.digits = static_cast<uint8_t>(digits);
      break;
    }
    case kString:
    case kVarcharCompressed: step.width = c.meta; break;
    case kBlobCompressed: step.width = c.meta < 4 ? (1u << 8 * c.meta) - 1 : kLargestValue; break;
    default: break;
  }
  step.room = room_of(c, step);
  return step;
}

}  // namespace

std::shared_ptr<const Layout> make_layout(const Definition& d) {
  auto layout = std::make_shared<Layout>();
  std::string* text = &layout->text;
  Spans spans(text);
  auto columns = static_cast<uint32_t>(d.columns.size());
  spans.begin();
  add_string(text, d.schema);
  add_string(text, d.table);
  add_u32(text, columns);
  layout->front1 = spans.end();
  spans.begin();
  add_u32(text, d.version);
  add_u32(text, d.schema_id);
  add_string(text, d.schema);
  add_u32(text, d.table_id);
  add_string(text, d.table);
  add_u32(text, columns);
  layout->front2 = spans.end();
  spans.begin();
  add_name(text, d.schema);
  add_name(text, d.table);
  uint8_t version[5];
  text->append(version, msgpack::put_int(version, uint64_t{d.version}));
  layout->packed_front = spans.end();
  for (size_t i = 0; i < d.columns.size(); ++i) {
    const Column& c = d.columns[i];
    Step step = step_of(c, d.extents[i], d.proven);
    spans.begin();
    add_u32(text, c.name_id);
    add_string(text, c.name);
    step.head = spans.end();
    add_string(text, "");
    spans.begin();
    add_name(text, c.name);
    step.key = spans.end();
    layout->steps.push_back(step);
    constexpr size_t kAround =
        16;  // lengths, terminators, an empty string or a NULL of the other side, a bit of a bitmap
    layout->row_room += std::max(step.head.size, step.key.size) + 2 * (step.room + kAround);
  }
  constexpr size_t kFixedParts = 64;
  layout->row_room += kFixedParts + layout->front2.size + layout->packed_front.size;
  text->append(Output::kSlack, '\0');
  return layout;
}

}  // namespace relay
