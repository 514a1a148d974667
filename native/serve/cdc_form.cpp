// Formatting of row images for CDC clients.
#include "serve/cdc_form.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "formats/line_text.hpp"
#include "values/image.hpp"

namespace relay {

namespace {

constexpr size_t kHead = 256;   // the six fields of every row
constexpr size_t kAround = 48;  // around a value: quotes, separators, "null", zeros of a fraction
constexpr const char* kImages[] = {"insert", "update_before", "update_after", "delete"};

size_t varint_size(uint64_t v) {
  size_t n = 1;
  while (v >>= 7) ++n;
  return n;
}

uint8_t* put_varint(uint8_t* p, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *p++ = static_cast<uint8_t>(v | 0x80);
  *p++ = static_cast<uint8_t>(v);
  return p;
}

uint64_t zigzag(int64_t v) { return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63); }

uint8_t* put_long(uint8_t* p, int64_t v) { return put_varint(p, zigzag(v)); }

bool is_whole(const char* text, const char* end) {
  return std::all_of(text, end, [](char c) { return c == '-' || (c >= '0' && c <= '9'); });
}

// Adds a decimal point to a JSON number, so that it is read as floating point.
char* pointed(char* text, char* end) {
  if (!is_whole(text, end)) return end;
  *end++ = '.';
  *end++ = '0';
  return end;
}

template <typename Real>
uint8_t* put_real(uint8_t* p, Real v) {
  if (!std::isfinite(v)) return put_chars(p, "null");
  char* text = reinterpret_cast<char*>(p);
  return reinterpret_cast<uint8_t*>(pointed(text, std::to_chars(text, text + kDoubleRoom, v).ptr));
}

// Writes 17 digits even if fewer would do, and an exponent without plus sign and leading zeros.
uint8_t* put_widened(uint8_t* p, double v) {
  if (!std::isfinite(v)) return put_chars(p, "null");
  char* text = reinterpret_cast<char*>(p);
  char* end = std::to_chars(text, text + kDoubleRoom, v, std::chars_format::general, 17).ptr;
  char* exponent = std::find(text, end, 'e');
  if (exponent == end) return reinterpret_cast<uint8_t*>(pointed(text, end));
  char* to = exponent + 1;
  char* from = to + 1;
  if (*to == '-') ++to;
  while (from < end - 1 && *from == '0') ++from;
  return reinterpret_cast<uint8_t*>(std::copy(from, end, to));
}

double real_of(const Cell& cell) {
  return cell.step.value == Value::float32 ? double{load<float>(cell.bytes.data)} : load<double>(cell.bytes.data);
}

double decimal_of(const Cell& cell) {
  uint8_t text[kDecimalRoom];
  const char* begin = reinterpret_cast<const char*>(text);
  const uint8_t* end = put_decimal(text, cell.bytes.data, cell.step.precision, cell.step.digits);
  double v = 0;
  std::from_chars(begin, reinterpret_cast<const char*>(end), v);
  return v;
}

// Reads the number of a `wide` or `bits` column. False if it has more bits than the column.
bool wide_of(const Cell& cell, CdcStyle style, uint64_t* v) {
  if (style == CdcStyle::wide) {
    *v = load<uint64_t>(cell.bytes.data);
    return true;
  }
  const unsigned bits = cell.column.meta;
  *v = load_be(cell.bytes.data, static_cast<unsigned>(cell.bytes.size));
  return bits == 64 || *v >> bits == 0;
}

// The value as a signed number of the column's size.
int64_t narrow_of(const Cell& cell, int64_t v) {
  switch (cell.step.value) {
    case Value::uint32: return static_cast<int32_t>(v);
    default: return v;
  }
}

uint8_t* put_upper_hex(uint8_t* p, Bytes bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (size_t i = 0; i < bytes.size; ++i) {
    *p++ = static_cast<uint8_t>(kDigits[bytes.data[i] >> 4]);
    *p++ = static_cast<uint8_t>(kDigits[bytes.data[i] & 15]);
  }
  return p;
}

// Converts the server's text of a date or time to MaxScale's, in place.
uint8_t* as_maxscale(uint8_t* text, uint8_t* end, const Step& step) {
  if (std::find(text, end, '-') - text == 4) {
    uint8_t* year = text;
    while (year < text + 3 && *year == '0') ++year;
    end = std::copy(year, end, text);
  }
  if (!step.digits) return end;
  for (unsigned digits = step.digits; digits < 6; ++digits) *end++ = '0';
  return end;
}

}  // namespace

CdcTable::CdcTable(std::shared_ptr<const Definition> definition, CdcForm form, CdcValues values)
    : definition_(std::move(definition)), form_(form), fields_(cdc_fields(*definition_, values)) {
  const Definition& d = *definition_;
  room_ = d.layout->row_room + kHead;
  for (size_t i = 0; i < d.columns.size(); ++i) {
    Part part;
    part.step = d.layout->steps[i];
    part.step.zeros = 0;  // JSON numbers have no leading zeros
    part.column = d.columns[i];
    part.name = ", \"" + fields_[i].name + "\": ";
    part.style = fields_[i].style;
    part.blob = part.style == CdcStyle::unclear && part.column.type != kString;
    if (part.style == CdcStyle::unclear || part.style == CdcStyle::until_nul) {  // the bytes as the server stored them
      part.column.conversion = nullptr;
      if (part.step.value != Value::compressed) part.step.value = Value::raw;
    }
    room_ += part.name.size() + kAround;
    parts_.push_back(std::move(part));
  }
}

uint8_t* CdcTable::put_json_head(uint8_t* p, const CdcOrigin& origin, uint64_t event_number, CdcImage kind) const {
  p = put_unsigned(put_chars(p, "{\"domain\": "), origin.gtid.domain);
  p = put_unsigned(put_chars(p, ", \"server_id\": "), origin.gtid.server);
  p = put_unsigned(put_chars(p, ", \"sequence\": "), origin.gtid.sequence);
  p = put_unsigned(put_chars(p, ", \"event_number\": "), event_number);
  p = put_unsigned(put_chars(p, ", \"timestamp\": "), origin.timestamp);
  p = put_chars(put_chars(p, ", \"event_type\": \""), kImages[static_cast<size_t>(kind)]);
  *p++ = '"';
  return p;
}

uint8_t* CdcTable::put_avro_head(uint8_t* p, const CdcOrigin& origin, uint64_t event_number, CdcImage kind) const {
  p = put_long(p, static_cast<int64_t>(origin.gtid.domain));
  p = put_long(p, origin.gtid.server);
  p = put_long(p, static_cast<int64_t>(origin.gtid.sequence));
  p = put_long(p, static_cast<int64_t>(event_number));
  p = put_long(p, origin.timestamp);
  return put_long(p, static_cast<int64_t>(kind));
}

bool CdcTable::append(Output& out, const CdcOrigin& origin, uint64_t event_number, CdcImage kind,
                      const uint8_t* present, Bytes bytes, const RenderOptions& options, std::string* error) const {
  const Definition& d = *definition_;
  const Target to{out, room_ + bytes.size};
  const bool json = form_ == CdcForm::json;
  out.ensure(to.row_room);
  Image image(d, present, bytes);
  uint8_t* p =
      json ? put_json_head(out.p, origin, event_number, kind) : put_avro_head(out.p, origin, event_number, kind);
  Bytes value;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const Has has = image.broken() ? Has::broken : image.next(i, part.step.extent, &value);
    if (has == Has::nothing || has == Has::broken) return undecodable(d, i, error);
    if (json) p = put_chars(p, part.name);
    if (has == Has::value) {
      p = json ? put_json(to, p, part, value, options) : put_avro(to, p, part, value, options);
      if (!p) return undecodable(d, i, error);
    } else if (json) {
      p = put_chars(p, "null");
    } else {
      *p++ = 0;  // first branch of the union
    }
  }
  if (json) p = put_chars(p, "}\n");
  out.p = p;
  return true;
}

// Writes a value that is not a number, for both forms: before JSON escapes and the conversion to hexadecimal digits.
uint8_t* CdcTable::put_string(const Target& to, uint8_t* p, const Part& part, Bytes bytes,
                              const RenderOptions& options) const {
  if (part.style == CdcStyle::index) return put_upper_hex(p, bytes);
  const size_t start = to.out.offset(p);
  uint8_t* end = put_text(to, p, Cell{part.step, part.column, bytes}, options);
  if (!end) return nullptr;
  uint8_t* text = to.out.at(start);
  switch (part.style) {
    case CdcStyle::until_nul: return std::find(text, end, uint8_t{0});
    case CdcStyle::unclear:
      if (part.blob && end == text) *end++ = 0;
      return end;
    case CdcStyle::year:
      if (!bytes.data[0]) std::memcpy(text, "1900", 4);
      return end;
    case CdcStyle::instant: return as_maxscale(text, end, part.step);
    default: return end;
  }
}

// Returns nullptr if the bytes are not a value of the column.
uint8_t* CdcTable::put_json(const Target& to, uint8_t* p, const Part& part, Bytes bytes,
                            const RenderOptions& options) const {
  const Cell cell{part.step, part.column, bytes};
  Output& out = to.out;
  switch (part.style) {
    case CdcStyle::integer: return put_text(to, p, cell, options);
    case CdcStyle::narrow: {
      int64_t v = 0;
      return integer_of(cell, &v) ? put_signed(p, narrow_of(cell, v)) : nullptr;
    }
    case CdcStyle::wide:
    case CdcStyle::bits: {
      uint64_t v = 0;
      if (!wide_of(cell, part.style, &v)) return nullptr;
      if (v <= INT64_MAX) return put_unsigned(p, v);
      *p++ = '"';
      p = put_unsigned(p, v);
      *p++ = '"';
      return p;
    }
    case CdcStyle::real:
      return part.step.value == Value::float32 ? put_real(p, load<float>(bytes.data)) : put_real(p, real_of(cell));
    case CdcStyle::widened: return put_widened(p, real_of(cell));
    case CdcStyle::digits: return put_widened(p, decimal_of(cell));
    case CdcStyle::nothing: return put_chars(p, "\"\"");
    default: break;
  }
  *p++ = '"';
  const size_t start = out.offset(p);
  uint8_t* end = put_string(to, p, part, bytes, options);
  if (!end) return nullptr;
  switch (part.style) {
    case CdcStyle::text: end = escape_json(out, start, end, to.row_room); break;
    case CdcStyle::bytes: end = encode_hex(out, start, end, to.row_room); break;
    case CdcStyle::unclear:
    case CdcStyle::until_nul:
      end = (is_utf8(out.at(start), end) ? escape_json : encode_hex)(out, start, end, to.row_room);
      break;
    default: break;
  }
  *end++ = '"';
  return end;
}

uint8_t* CdcTable::put_avro(const Target& to, uint8_t* p, const Part& part, Bytes bytes,
                            const RenderOptions& options) const {
  constexpr uint8_t kValue = 2, kDigits = 4;  // second and third branch of the union
  const Cell cell{part.step, part.column, bytes};
  Output& out = to.out;
  *p++ = kValue;
  int64_t number = 0;
  switch (part.style) {
    case CdcStyle::integer:
    case CdcStyle::narrow:
      if (!integer_of(cell, &number)) return nullptr;
      return put_long(p, part.style == CdcStyle::narrow ? narrow_of(cell, number) : number);
    case CdcStyle::wide:
    case CdcStyle::bits: {
      uint64_t v = 0;
      if (!wide_of(cell, part.style, &v)) return nullptr;
      if (v <= INT64_MAX) return put_long(p, static_cast<int64_t>(v));
      p[-1] = kDigits;
      uint8_t* end = put_unsigned(p + 1, v);
      put_long(p, end - p - 1);
      return end;
    }
    case CdcStyle::real:
    case CdcStyle::widened: std::memcpy(p, bytes.data, bytes.size); return p + bytes.size;
    case CdcStyle::digits: store(p, decimal_of(cell)); return p + sizeof(double);
    case CdcStyle::nothing: *p++ = 0; return p;
    default: break;
  }
  // The length precedes the text but is known only afterwards. Usually it has as many bytes as guessed.
  const size_t guessed = varint_size(2 * bytes.size);
  const size_t head = out.offset(p);
  const size_t start = head + guessed;
  p += guessed;
  uint8_t* end = put_string(to, p, part, bytes, options);
  if (!end) return nullptr;
  uint8_t* text = out.at(start);
  if (part.style == CdcStyle::text) mend_utf8(text, static_cast<size_t>(end - text));
  if (part.style == CdcStyle::until_nul && !is_utf8(text, end)) end = encode_hex(out, start, end, to.row_room);
  text = out.at(start);
  const auto size = static_cast<size_t>(end - text);
  const size_t needed = varint_size(2 * size);
  if (needed != guessed) std::memmove(out.at(head + needed), text, size);
  return put_long(out.at(head), static_cast<int64_t>(size)) + size;
}

}  // namespace relay
