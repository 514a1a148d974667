// Formatting of rows as CSV and JSON lines.
#include "formats/line_form.hpp"

#include <algorithm>
#include <cstdlib>

#include "formats/line_text.hpp"
#include "values/image.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

constexpr size_t kAround = 32;  // around a value: quotes, separators, "null", the base64 marker
constexpr std::string_view kMarker = "{\"base64\":\"";

char* put_two(char* p, uint32_t v) {
  *p++ = static_cast<char>('0' + v / 10 % 10);
  *p++ = static_cast<char>('0' + v % 10);
  return p;
}

// The time of day, HH:MM:SS, of a second since 1970-01-01.
std::string clock_text(int64_t local) {
  const auto second = static_cast<uint32_t>(local - day_of(local) * kDay);
  char text[8];
  char* p = put_two(text, second / 3600);
  *p++ = ':';
  p = put_two(p, second / 60 % 60);
  *p++ = ':';
  put_two(p, second % 60);
  return std::string(text, sizeof text);
}

std::string day_text(int64_t day) {
  std::string text(10, '-');
  // Years that begin in March: then a leap day is the last day of its year.
  const int64_t shifted = day + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t of_era = shifted - era * 146097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t march = (5 * of_year + 2) / 153;
  const int64_t month = march < 10 ? march + 3 : march - 9;
  const auto year = static_cast<uint32_t>(era * 400 + year_of_era + (month <= 2));
  put_two(&text[0], year / 100);
  put_two(&text[2], year % 100);
  put_two(&text[5], static_cast<uint32_t>(month));
  put_two(&text[8], static_cast<uint32_t>(of_year - (153 * march + 2) / 5 + 1));
  return text;
}

std::string offset_text(int32_t seconds) {
  std::string text = seconds < 0 ? "-00:00" : "+00:00";
  const auto minutes = static_cast<uint32_t>(std::abs(seconds) / 60);
  put_two(&text[1], minutes / 60);
  put_two(&text[4], minutes % 60);
  return text;
}

// A name, quoted only where CSV readers would otherwise misread it.
std::string csv_name(const std::string& name) {
  const bool awkward = name.find_first_of(std::string_view(";\"\\\n\r\0", 6)) != std::string::npos;
  return awkward ? quoted_csv(name) : name;
}

const char* json_kind(RowKind kind) {
  return kind == RowKind::insert ? "insert" : kind == RowKind::update ? "update" : "delete";
}

bool is_zero_instant(const uint8_t* text, const uint8_t* end) {
  return std::all_of(text, end, [](uint8_t c) { return c < '1' || c > '9'; });
}

// Whether a double holds the integer and its neighbours exactly: it is at most 2^53 - 1, compared as text.
bool fits_double(const uint8_t* text, const uint8_t* end) {
  constexpr std::string_view kMost = "9007199254740991";
  if (*text == '-') ++text;
  const auto n = static_cast<size_t>(end - text);
  if (n != kMost.size()) return n < kMost.size();
  return std::string_view(reinterpret_cast<const char*>(text), n) <= kMost;
}

}  // namespace

LineTable::LineTable(std::shared_ptr<const Definition> definition, LineForm form)
    : definition_(std::move(definition)), form_(form) {
  const Definition& d = *definition_;
  const bool csv = form_ == LineForm::csv;
  names_ = csv ? csv_name(d.schema) + ';' + csv_name(d.table)
               : ",\"schema\":" + quoted_json(d.schema) + ",\"table\":" + quoted_json(d.table);
  room_ = d.layout->row_room + kAround;
  for (size_t i = 0; i < d.columns.size(); ++i) {
    const Column& column = d.columns[i];
    Part part;
    part.step = d.layout->steps[i];
    part.name = csv ? ';' + csv_name(column.name) + ';' : quoted_json(column.name) + ':';
    part.style = csv ? csv_style(column) : json_style(column, part.step);
    part.null = !csv ? "null" : part.style == Style::bare ? "NULL" : "";
    if (!csv && part.style != Style::plain) part.step.zeros = 0;  // JSON numbers cannot begin with zeros
    room_ += 2 * (part.name.size() + kAround);
    parts_.push_back(std::move(part));
  }
}

LineTable::Style LineTable::csv_style(const Column& column) {
  switch (column.type) {
    case kTiny:
    case kShort:
    case kInt24:
    case kLong:
    case kLongLong:
    case kFloat:
    case kDouble: return Style::bare;
    case kDatetime:
    case kDatetime2:
    case kTimestamp:
    case kTimestamp2: return Style::instant;
    case kNewDecimal:
    case kDate:
    case kNewDate:
    case kTime:
    case kTime2:
    case kYear: return Style::plain;
    default: return Style::text;
  }
}

LineTable::Style LineTable::json_style(const Column& column, const Step& step) {
  switch (step.value) {
    case Value::int64:
    case Value::uint64: return Style::wide;
    case Value::float32:
    case Value::float64: return Style::real;
    case Value::year: return Style::year;
    case Value::raw:
    case Value::padded: return Style::base64;
    case Value::compressed: return is_binary(column) ? Style::base64 : Style::text;
    case Value::text:
    case Value::converted:
    case Value::json: return Style::text;
    case Value::enumeration:
    case Value::set:
      if (column.labels.empty()) return Style::wide;
      return has_byte_labels(column) ? Style::base64 : Style::text;
    case Value::decimal:
    case Value::date:
    case Value::old_time:
    case Value::old_datetime:
    case Value::old_timestamp:
    case Value::time:
    case Value::datetime:
    case Value::timestamp:
    case Value::uuid:
    case Value::inet4:
    case Value::inet6: return Style::plain;
    default: return Style::bare;
  }
}

std::string LineTable::head(RowKind kind, const LineOrigin& origin) const {
  const int64_t local = int64_t{origin.timestamp} + origin.offset;
  std::string made;
  if (form_ == LineForm::csv) {
    made = clock_text(local) + ';' + names_ + ';';
    return made + (kind == RowKind::insert ? 'I' : kind == RowKind::update ? 'U' : 'D');
  }
  made = "{\"time\":\"" + day_text(day_of(local)) + 'T' + clock_text(local) + offset_text(origin.offset) +
         "\",\"kind\":\"";
  made += json_kind(kind);
  made += '"' + names_ + ",\"file\":" + quoted_json(std::string(origin.file));
  made += ",\"position\":" + std::to_string(origin.position);
  return made + ",\"gtid\":" + (origin.gtid.empty() ? "null" : quoted_json(std::string(origin.gtid)));
}

bool LineTable::append(Output& out, const Row& row, std::string_view head, const RenderOptions& options,
                       std::string* error) const {
  out.ensure(head.size() + room_for(row));
  out.p = put_chars(out.p, head);
  if (!(form_ == LineForm::csv ? append_csv(out, row, options, error) : append_json(out, row, options, error)))
    return false;
  *out.p++ = '\n';
  return true;
}

bool LineTable::append_csv(Output& out, const Row& row, const RenderOptions& options, std::string* error) const {
  const Definition& d = *definition_;
  const bool two = row.kind == RowKind::update;
  Image first(d, row.before_present, row.before);
  Image second;
  if (two) second = Image(d, row.after_present, row.after);
  if (first.broken() || second.broken()) return cut_short(d, error);
  const Target to{out, room_for(row)};
  uint8_t* p = out.p;
  Bytes bytes;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!first.holds(i) && !(two && second.holds(i))) continue;
    const Part& part = parts_[i];
    p = put_chars(p, part.name);
    for (Image* image : {&first, &second}) {
      if (image == &second) {
        if (!two) break;
        *p++ = ';';
      }
      const Has has = image->next(i, part.step.extent, &bytes);
      if (has == Has::null) p = put_chars(p, part.null);
      if (has == Has::value) p = put(to, p, i, bytes, options);
      if (has == Has::broken || !p) return undecodable(d, i, error);
    }
  }
  out.p = p;
  return true;
}

bool LineTable::append_json(Output& out, const Row& row, const RenderOptions& options, std::string* error) const {
  const std::string_view first = row.kind == RowKind::insert ? ",\"after\":{" : ",\"before\":{";
  if (!append_side(out, first, row, row.before_present, row.before, options, error)) return false;
  if (row.kind == RowKind::update &&
      !append_side(out, ",\"after\":{", row, row.after_present, row.after, options, error))
    return false;
  *out.p++ = '}';
  return true;
}

bool LineTable::append_side(Output& out, std::string_view name, const Row& row, const uint8_t* present, Bytes bytes,
                            const RenderOptions& options, std::string* error) const {
  const Definition& d = *definition_;
  Image image(d, present, bytes);
  if (image.broken()) return cut_short(d, error);
  const Target to{out, room_for(row)};
  uint8_t* p = put_chars(out.p, name);
  bool some = false;
  Bytes value;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const Has has = image.next(i, part.step.extent, &value);
    if (has == Has::nothing) continue;
    if (has == Has::broken) return undecodable(d, i, error);
    if (some) *p++ = ',';
    some = true;
    p = put_chars(p, part.name);
    p = has == Has::null ? put_chars(p, part.null) : put(to, p, i, value, options);
    if (!p) return undecodable(d, i, error);
  }
  *p++ = '}';
  out.p = p;
  return true;
}

// Returns nullptr if the bytes are not a value of the column.
uint8_t* LineTable::put(const Target& to, uint8_t* p, size_t i, Bytes bytes, const RenderOptions& options) const {
  const Part& part = parts_[i];
  const Cell cell{part.step, definition_->columns[i], bytes};
  Output& out = to.out;
  const size_t start = out.offset(p);
  size_t front = part.style == Style::bare || part.style == Style::year ? 0 : 1;
  if (part.style == Style::base64) {
    p = put_chars(p, kMarker);
    front = kMarker.size();
  } else if (front) {
    *p++ = '"';
  }
  uint8_t* end = put_text(to, p, cell, options);
  if (!end) return nullptr;
  uint8_t* text = out.at(start + front);
  switch (part.style) {
    case Style::bare: return end;
    case Style::year:
      if (*text != '0') return end;
      return text + 1;
    case Style::wide:
    case Style::real:
      if (part.style == Style::wide ? fits_double(text, end) : end[-1] >= '0' && end[-1] <= '9') {
        std::memmove(text - 1, text, static_cast<size_t>(end - text));
        return end - 1;
      }
      break;
    case Style::instant:
      if (is_zero_instant(text, end)) {
        text[-1] = '0';
        return text;
      }
      break;
    case Style::text:
      end = (form_ == LineForm::csv ? escape_csv : escape_json)(out, start + front, end, to.row_room);
      break;
    case Style::base64:
      end = encode_base64(out, start + front, end, to.row_room);
      *end++ = '"';
      *end++ = '}';
      return end;
    case Style::plain: break;
  }
  *end++ = '"';
  return end;
}

}  // namespace relay
