// Maps columns to fields of the CDC protocol's schema.
#include <algorithm>
#include <charconv>
#include <set>

#include "serve/cdc_form.hpp"

namespace relay {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string lowered(const std::string& text) {
  std::string made = text;
  std::transform(made.begin(), made.end(), made.begin(), lower);
  return made;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_plain(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_'; }

// Avro names consist of letters, digits and underscores, and do not begin with a digit.
std::string field_name(const std::string& column, const std::set<std::string>& taken) {
  static const std::set<std::string> kReserved = {"domain",       "server_id", "sequence",
                                                  "event_number", "timestamp", "event_type"};
  std::string name = column;
  for (char& c : name)
    if (!is_plain(c)) c = '_';
  if (name.empty() || is_digit(name[0])) name.insert(0, 1, '_');
  if (kReserved.count(lowered(name))) name += '_';
  while (taken.count(name)) name += '_';
  return name;
}

// The name of the type: the text before a parenthesis or a blank.
std::string type_word(const std::string& sql_type) { return lowered(sql_type.substr(0, sql_type.find_first_of(" ("))); }

// The number in parentheses, for types whose size it is.
int64_t length_of(const std::string& word, const std::string& sql_type) {
  static const std::set<std::string> kSized = {"char", "varchar", "binary", "varbinary", "bit", "decimal", "vector"};
  if (!kSized.count(word) || sql_type.size() <= word.size() || sql_type[word.size()] != '(') return -1;
  const char* digits = sql_type.data() + word.size() + 1;
  int64_t length = -1;
  std::from_chars(digits, sql_type.data() + sql_type.size(), length);
  return length;
}

bool is_blob(const Column& c) {
  switch (c.type) {
    case kTinyBlob:
    case kMediumBlob:
    case kLongBlob:
    case kBlob:
    case kBlobCompressed: return true;
    default: return false;
  }
}

struct Choice {
  const char* type;
  CdcStyle style;
  bool wide = false;
};

Choice exact(const Column& c, const Step& step) {
  switch (step.value) {
    case Value::int8:
    case Value::uint8:
    case Value::int16:
    case Value::uint16:
    case Value::int24:
    case Value::uint24:
    case Value::int32: return {"int", CdcStyle::integer};
    case Value::uint32:
    case Value::int64: return {"long", CdcStyle::integer};
    case Value::uint64: return {"long", CdcStyle::wide, true};
    case Value::float32: return {"float", CdcStyle::real};
    case Value::float64: return {"double", CdcStyle::real};
    case Value::enumeration:
    case Value::set:
      if (has_byte_labels(c)) return {"bytes", CdcStyle::bytes};
      return {"string", CdcStyle::text};
    case Value::raw:
    case Value::padded:
      if (c.type != kBit) return {"bytes", CdcStyle::bytes};
      return {"long", CdcStyle::bits, c.meta == 64};
    case Value::compressed:
      if (is_binary(c)) return {"bytes", CdcStyle::bytes};
      return {"string", CdcStyle::text};
    case Value::text:
    case Value::converted:
    case Value::json: return {"string", CdcStyle::text};
    default: return {"string", CdcStyle::plain};
  }
}

Choice of_maxscale(const Column& c, const Step& step) {
  switch (c.type) {
    case kTiny:
    case kShort:
    case kInt24:
    case kLong: return {"int", CdcStyle::narrow};
    case kLongLong: return {"long", CdcStyle::narrow};
    case kFloat: return {"float", CdcStyle::widened};
    case kDouble: return {"double", CdcStyle::widened};
    case kNewDecimal: return {"double", CdcStyle::digits};
    case kBit: return {"string", CdcStyle::nothing};
    case kEnum:
    case kSet: return {"string", CdcStyle::index};
    case kYear: return {"string", CdcStyle::year};
    case kDate:
    case kNewDate:
    case kDatetime:
    case kDatetime2:
    case kTimestamp:
    case kTimestamp2:
    case kTime:
    case kTime2: return {"string", CdcStyle::instant};
    case kJson: return {"string", CdcStyle::text};
    case kGeometry:
    case kVector: return {"bytes", CdcStyle::bytes};  // MaxScale has no usable form for these
    default: break;
  }
  if (step.value == Value::uuid || step.value == Value::inet4 || step.value == Value::inet6)
    return {"string", CdcStyle::plain};
  if (is_blob(c) || (c.type == kString && is_binary(c))) return {"bytes", CdcStyle::unclear};
  return {"string", CdcStyle::until_nul};
}

}  // namespace

std::vector<CdcField> cdc_fields(const Definition& d, CdcValues values) {
  std::vector<CdcField> fields;
  std::set<std::string> taken;
  for (size_t i = 0; i < d.columns.size(); ++i) {
    const Column& c = d.columns[i];
    const Choice choice = (values == CdcValues::exact ? exact : of_maxscale)(c, d.layout->steps[i]);
    CdcField field;
    field.name = field_name(c.name, taken);
    field.type = choice.type;
    field.wide = choice.wide;
    field.real_type = type_word(c.sql_type);
    if (values == CdcValues::exact) field.length = length_of(field.real_type, c.sql_type);
    field.is_unsigned = c.is_unsigned;
    field.style = choice.style;
    taken.insert(field.name);
    fields.push_back(std::move(field));
  }
  return fields;
}

}  // namespace relay
