// A row image as clients of the CDC protocol get it: a line of JSON, or a record of Avro. docs/cdc.md has the forms.
#pragma once

#include <memory>

#include "triplet.hpp"
#include "values.hpp"

namespace relay {

enum class CdcForm : uint8_t { json, avro };

// Values as they are, or in the forms of MaxScale, which lose what its types cannot hold.
enum class CdcValues : uint8_t { exact, maxscale };

// How a value stands in a row.
enum class CdcStyle : uint8_t {
  integer,   // a number
  narrow,    // a number in so many bits as its signed type has, whatever it was
  wide,      // a number; beyond 2^63 - 1 its digits as a string
  bits,      // BIT: the same
  real,      // a floating point number, in as few digits as tell it
  widened,   // the same as MaxScale prints it, with 17 digits
  digits,    // DECIMAL, as that
  plain,     // a string with nothing to escape
  text,      // a string
  bytes,     // bytes; in JSON as hexadecimal digits, lower case
  unclear,   // bytes; in JSON as text if they are UTF-8, otherwise as hexadecimal digits
  until_nul,  // a string that ends at its first NUL; hexadecimal digits if it is not UTF-8
  index,     // ENUM and SET: the number's bytes as hexadecimal digits, upper case
  nothing,   // an empty string
  year,      // a string; 1900 for 0000
  instant,   // a string; of the year no zeros in front, of the fraction six digits
};

// A column in the schema.
struct CdcField {
  std::string name;       // as it stands in rows
  std::string type;       // Avro's
  bool wide = false;      // or a string, of digits, in Avro
  std::string real_type;  // the word in the table's DDL
  int64_t length = -1;    // -1: not said
  bool is_unsigned = false;
  CdcStyle style = CdcStyle::text;

  bool operator==(const CdcField& other) const {
    return name == other.name && type == other.type && wide == other.wide && real_type == other.real_type &&
           length == other.length && is_unsigned == other.is_unsigned;
  }
};

std::vector<CdcField> cdc_fields(const Definition& definition, CdcValues values);

// What the rows of an event have in common.
struct CdcOrigin {
  Triplet gtid;
  uint32_t timestamp = 0;  // Unix seconds
};

enum class CdcImage : uint8_t { insert, update_before, update_after, remove };  // in the order of the schema's symbols

// How the rows of one table are written.
class CdcTable {
 public:
  CdcTable(std::shared_ptr<const Definition> definition, CdcForm form, CdcValues values);

  const Definition& definition() const { return *definition_; }
  const std::vector<CdcField>& fields() const { return fields_; }
  // Appends an image that holds all columns. False, with the reason, if a value cannot be decoded; `out` has a part of
  // it then.
  bool append(Output& out, const CdcOrigin& origin, uint64_t event_number, CdcImage kind, const uint8_t* present,
              Bytes image, const RenderOptions& options, std::string* error) const;

 private:
  struct Part {
    Step step;
    Column column;
    std::string name;  // as it stands before a value in JSON
    CdcStyle style = CdcStyle::text;
    bool blob = false;  // one whose empty values MaxScale gives a NUL
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
  size_t room_ = 0;  // for a row beside its image, but for what makes room itself
};

}  // namespace relay
