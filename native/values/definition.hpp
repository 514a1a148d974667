// A table's definition while its rows are read: the parsed payload of a TABLE frame.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.hpp"

namespace relay {

// Column types as they stand in a table map (the server's enum_field_types). A new one: see CONTRIBUTING.md.
enum ColumnType : uint8_t {
  kTiny = 1,
  kShort = 2,
  kLong = 3,
  kFloat = 4,
  kDouble = 5,
  kNull = 6,
  kTimestamp = 7,
  kLongLong = 8,
  kInt24 = 9,
  kDate = 10,
  kTime = 11,
  kDatetime = 12,
  kYear = 13,
  kNewDate = 14,
  kVarchar = 15,
  kBit = 16,
  kTimestamp2 = 17,
  kDatetime2 = 18,
  kTime2 = 19,
  kBlobCompressed = 140,
  kVarcharCompressed = 141,
  kVector = 242,
  kJson = 245,
  kNewDecimal = 246,
  kEnum = 247,
  kSet = 248,
  kTinyBlob = 249,
  kMediumBlob = 250,
  kLongBlob = 251,
  kBlob = 252,
  kVarString = 253,
  kString = 254,
  kGeometry = 255,
};

class Charset;  // charset.hpp: converts text of a column to UTF-8
struct Layout;  // layout.hpp: how rows of a table are written for clients

struct Column {
  std::string name;
  uint32_t name_id = 0;
  uint8_t type = 0;   // the real type: ENUM and SET, not the STRING that carries them
  uint16_t meta = 0;  // normalised; see docs/internals/journal.md, "Definitions"
  bool is_unsigned = false;
  bool nullable = true;
  bool primary = false;
  std::string charset;  // MySQL's name; "binary" means bytes, "" means unknown or not text
  std::vector<std::string> labels;
  std::string sql_type;
  const Charset* conversion = nullptr;  // nullptr: clients get the bytes unchanged
};

// Whether a string column holds bytes, or text of an unknown character set.
inline bool is_binary(const Column& c) { return c.charset.empty() || c.charset == "binary"; }

// Whether an ENUM or SET has labels of character set binary, which are not text.
inline bool has_byte_labels(const Column& c) { return c.charset == "binary"; }

// How many bytes a value that is not NULL takes in an image: `fixed` bytes and then, unless `prefix` is 0, a length of
// `prefix` bytes (least significant first) and that many bytes.
struct Extent {
  uint32_t fixed = 0;
  uint32_t prefix = 0;
};

// Reads a length of `prefix` bytes, 1 to 4.
inline uint32_t length_at(const uint8_t* p, uint32_t prefix) {
  switch (prefix) {
    case 1: return p[0];
    case 2: return load<uint16_t>(p);
    case 3: return load<uint16_t>(p) | uint32_t{p[2]} << 16;
    default: return load<uint32_t>(p);
  }
}

struct Definition {
  std::string schema;
  std::string table;
  uint32_t version = 0;
  uint32_t schema_id = 0;
  uint32_t table_id = 0;
  bool proven = false;
  std::vector<Column> columns;

  // The following members are derived by parse().
  std::vector<Extent> extents;  // one per column
  std::vector<Extent> runs;     // for an image with every column and no NULL; fixed neighbours are added up
  std::shared_ptr<const Layout> layout;

  // As messages name them.
  std::string name() const { return schema + "." + table; }
  std::string column_name(size_t column) const { return "column " + columns[column].name + " of " + name(); }

  // Returns nullptr, with the reason in `error`, if the bytes are not a definition or hold a type or charset that
  // cannot be read.
  static std::shared_ptr<const Definition> parse(Bytes packed, std::string* error);
  // Reads only the names, of a definition whose columns may be unreadable. False if the bytes are not a definition.
  static bool names(Bytes packed, std::string* schema, std::string* table);
  // Whether the definition's column names are proven. True also if that cannot be read.
  static bool proven_in(Bytes packed);
};

// Why an image of the table's cannot be read, in `error`. They return false.
bool undecodable(const Definition& definition, size_t column, std::string* error);
bool cut_short(const Definition& definition, std::string* error);

// The extent of a column's values. False if the type is unknown or the metadata is impossible.
bool extent_of(const Column& column, Extent* out);

// Whether there is such a DECIMAL.
bool is_decimal(unsigned precision, unsigned scale);
// The size of a DECIMAL's image.
uint32_t decimal_size(unsigned precision, unsigned scale);

}  // namespace relay
