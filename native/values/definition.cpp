// Parsing of table definitions, and the extents of column types.
#include "values/definition.hpp"

#include <algorithm>

#include "base/msgpack.hpp"
#include "values/charset.hpp"
#include "values/layout.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

constexpr size_t kMaxColumns = 4096;  // the limit of the servers
constexpr unsigned kMaxPrecision = 65;
constexpr unsigned kMaxScale = 38;
constexpr unsigned kDefinitionFields = 7;
constexpr unsigned kColumnFields = 10;

bool is_text(uint8_t type) {
  switch (type) {
    case kVarchar:
    case kVarString:
    case kString:
    case kTinyBlob:
    case kMediumBlob:
    case kLongBlob:
    case kBlob:
    case kVarcharCompressed:
    case kBlobCompressed: return true;
    default: return false;
  }
}

// Converts a label whose characters, U+0000 to U+00FF, stand for bytes.
bool to_bytes(std::string& label) {
  std::string bytes;
  for (size_t i = 0; i < label.size(); ++i) {
    auto lead = static_cast<uint8_t>(label[i]);
    if (lead >= 0x80) {
      if ((lead != 0xc2 && lead != 0xc3) || ++i == label.size()) return false;
      lead = static_cast<uint8_t>(lead << 6 | (label[i] & 0x3f));
    }
    bytes += static_cast<char>(lead);
  }
  label = std::move(bytes);
  return true;
}

bool read_column(msgpack::Unpacker& in, Column* c) {
  if (in.array() != kColumnFields) return false;
  c->name = in.str();
  c->name_id = static_cast<uint32_t>(in.uint());
  c->type = static_cast<uint8_t>(in.uint());
  c->meta = static_cast<uint16_t>(in.uint());
  c->is_unsigned = in.boolean();
  c->nullable = in.boolean();
  c->primary = in.boolean();
  c->charset = in.str();
  uint64_t labels = in.array();
  for (uint64_t i = 0; i < labels && in.ok(); ++i) c->labels.push_back(in.str());
  c->sql_type = in.str();
  bool bytes = (c->type == kEnum || c->type == kSet) && has_byte_labels(*c);
  return in.ok() && (!bytes || std::all_of(c->labels.begin(), c->labels.end(), to_bytes));
}

bool understand(Definition* d, size_t column, std::string* error) {
  Column* c = &d->columns[column];
  if (!extent_of(*c, &d->extents[column])) {
    *error = d->column_name(column) + ": column type " + std::to_string(c->type) + " (metadata " +
             std::to_string(c->meta) + (c->sql_type.empty() ? "" : ", " + c->sql_type) + ") cannot be read";
    return false;
  }
  if (is_text(c->type) && !Charset::find(c->charset, &c->conversion)) {
    *error = d->column_name(column) + ": the relay does not know the character set " + c->charset;
    return false;
  }
  return true;
}

std::vector<Extent> runs_of(const std::vector<Extent>& extents) {
  std::vector<Extent> runs;
  Extent run;
  for (const Extent& e : extents) {
    run.fixed += e.fixed;
    if (e.prefix) {
      run.prefix = e.prefix;
      runs.push_back(run);
      run = Extent{};
    }
  }
  if (run.fixed) runs.push_back(run);
  return runs;
}

}  // namespace

bool is_decimal(unsigned precision, unsigned scale) {
  return precision >= 1 && precision <= kMaxPrecision && scale <= precision && scale <= kMaxScale;
}

uint32_t decimal_size(unsigned precision, unsigned scale) {
  static const uint8_t kPartial[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};  // bytes for fewer than nine digits
  unsigned whole = precision - scale;
  return whole / 9 * 4 + kPartial[whole % 9] + scale / 9 * 4 + kPartial[scale % 9];
}

bool undecodable(const Definition& definition, size_t column, std::string* error) {
  *error = definition.column_name(column) + " holds bytes that are no value of its type";
  return false;
}

bool cut_short(const Definition& definition, std::string* error) {
  *error = "a row of " + definition.name() + " is cut short";
  return false;
}

bool extent_of(const Column& c, Extent* out) {
  unsigned m = c.meta;
  auto fixed = [out](uint32_t n) {
    *out = Extent{n, 0};
    return true;
  };
  auto prefixed = [out](uint32_t n) {
    *out = Extent{0, n};
    return n >= 1 && n <= 4;
  };
  switch (c.type) {
    case kTiny:
    case kYear: return fixed(1);
    case kShort: return fixed(2);
    case kInt24:
    case kDate:
    case kNewDate: return fixed(3);
    case kLong:
    case kFloat: return fixed(4);
    case kLongLong:
    case kDouble: return fixed(8);
    case kTime: return m <= 6 && fixed(old_time_size(m));
    case kTimestamp: return m <= 6 && fixed(old_timestamp_size(m));
    case kDatetime: return m <= 6 && fixed(old_datetime_size(m));
    case kTime2: return m <= 6 && fixed(3 + (m + 1) / 2);
    case kTimestamp2: return m <= 6 && fixed(4 + (m + 1) / 2);
    case kDatetime2: return m <= 6 && fixed(5 + (m + 1) / 2);
    case kNewDecimal: {
      unsigned precision = m >> 8, scale = m & 0xff;
      return is_decimal(precision, scale) && fixed(decimal_size(precision, scale));
    }
    case kBit: return m >= 1 && m <= 64 && fixed((m + 7) / 8);
    case kEnum: return (m == 1 || m == 2) && fixed(m);
    case kSet: return m >= 1 && m <= 8 && fixed(m);
    case kVarchar:
    case kVarString:
    case kString:
    case kVarcharCompressed: return prefixed(m > 255 ? 2 : 1);
    case kTinyBlob:
    case kMediumBlob:
    case kLongBlob:
    case kBlob:
    case kJson:
    case kGeometry:
    case kVector:
    case kBlobCompressed: return prefixed(m);
    default: return false;
  }
}

std::shared_ptr<const Definition> Definition::parse(Bytes packed, std::string* error) {
  msgpack::Unpacker in(packed);
  auto d = std::make_shared<Definition>();
  *error = "the table definition is damaged";
  if (in.array() != kDefinitionFields) return nullptr;
  d->schema = in.str();
  d->table = in.str();
  d->version = static_cast<uint32_t>(in.uint());
  d->schema_id = static_cast<uint32_t>(in.uint());
  d->table_id = static_cast<uint32_t>(in.uint());
  d->proven = in.boolean();
  uint64_t count = in.array();
  if (!in.ok() || count > kMaxColumns) return nullptr;
  d->columns.resize(count);
  d->extents.resize(count);
  for (Column& c : d->columns) {
    if (!read_column(in, &c)) return nullptr;
  }
  if (!in.at_end()) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (!understand(d.get(), i, error)) return nullptr;
  }
  d->runs = runs_of(d->extents);
  d->layout = make_layout(*d);
  error->clear();
  return d;
}

bool Definition::names(Bytes packed, std::string* schema, std::string* table) {
  msgpack::Unpacker in(packed);
  const bool known = in.array() == kDefinitionFields;
  *schema = in.str();
  *table = in.str();
  return known && in.ok();
}

bool Definition::proven_in(Bytes packed) {
  msgpack::Unpacker in(packed);
  in.array();
  in.str();
  in.str();
  for (int number = 0; number < 3; ++number) in.uint();
  const bool proven = in.boolean();
  return proven || !in.ok();
}

}  // namespace relay
