// Formats a row image for clients of the CDC protocol, as a line of JSON or a record of Avro. docs/cdc.md describes the
// forms.
#pragma once

#include <memory>

#include "serve/triplet.hpp"
#include "values/values.hpp"

namespace relay {

enum class CdcForm : uint8_t { json, avro };

// Exact values, or values as in MaxScale, which loses what its types cannot hold.
enum class CdcValues : uint8_t { exact, maxscale };

// How a value is written in a row.
enum class CdcStyle : uint8_t {
  integer,    // a number
  narrow,     // a number wrapped to the bits of its signed type
  wide,       // a number; above 2^63 - 1 a string of its digits
  bits,       // BIT: like wide
  real,       // a floating-point number, in as few digits as identify it
  widened,    // a floating-point number as MaxScale prints it, with 17 digits
  digits,     // DECIMAL, with all its digits
  plain,      // a string with nothing to escape
  text,       // a string
  bytes,      // bytes; in JSON as hexadecimal digits, lower case
  unclear,    // bytes; in JSON text if they are UTF-8, otherwise hexadecimal digits
  until_nul,  // a string that ends at its first NUL; hexadecimal digits if it is not UTF-8
  index,      // ENUM and SET: the number's bytes as hexadecimal digits, upper case
  nothing,    // an empty string
  year,       // a string; 1900 for 0000
  instant,    // a string; the year without leading zeros, the fraction with six digits
};

// A field of the schema.
struct CdcField {
  std::string name;       // the name in rows
  std::string type;       // the Avro type
  bool wide = false;      // in Avro, may also be a string of digits
  std::string real_type;  // the type name in the table's DDL
  int64_t length = -1;    // -1: unknown
  bool is_unsigned = false;
  CdcStyle style = CdcStyle::text;

  bool operator==(const CdcField& other) const {
    return name == other.name && type == other.type && wide == other.wide && real_type == other.real_type &&
           length == other.length && is_unsigned == other.is_unsigned;
  }
};

std::vector<CdcField> cdc_fields(const Definition& definition, CdcValues values);

// What the rows of an event share.
struct CdcOrigin {
  Triplet gtid;
  uint32_t timestamp = 0;  // Unix seconds
};

enum class CdcImage : uint8_t { insert, update_before, update_after, remove };  // in the order of the schema's symbols

// Formats the rows of one table.
class CdcTable {
 public:
  CdcTable(std::shared_ptr<const Definition> definition, CdcForm form, CdcValues values);

  const Definition& definition() const { return *definition_; }
  const std::vector<CdcField>& fields() const { return fields_; }
  // Appends an image that holds all columns. False, with the reason, if a value cannot be decoded; `out` then has a
  // part of it.
  bool append(Output& out, const CdcOrigin& origin, uint64_t event_number, CdcImage kind, const uint8_t* present,
              Bytes image, const RenderOptions& options, std::string* error) const;

 private:
  struct Part {
    Step step;
    Column column;
    std::string name;  // as written before a value in JSON
    CdcStyle style = CdcStyle::text;
    bool blob = false;  // MaxScale writes empty values of this column as a NUL
  };

  uint8_t* put_json_head(uint8_t* p, const CdcOrigin& origin, uint64_t event_number, CdcImage kind) const;
  uint8_t* put_avro_head(uint8_t* p, const CdcOrigin& origin, uint64_t event_number, CdcImage kind) const;
  uint8_t* put_string(const Target& to, uint8_t* p, const Part& part, Bytes bytes, const RenderOptions& options) const;
  uint8_t* put_json(const Target& to, uint8_t* p, const Part& part, Bytes bytes, const RenderOptions& options) const;
  uint8_t* put_avro(const Target& to, uint8_t* p, const Part& part, Bytes bytes, const RenderOptions& options) const;

  std::shared_ptr<const Definition> definition_;
  const CdcForm form_;
  std::vector<CdcField> fields_;
  std::vector<Part> parts_;
  size_t room_ = 0;  // room for a row beyond its image, except for values that reserve room themselves
};

}  // namespace relay
