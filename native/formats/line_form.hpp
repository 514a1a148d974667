// Formats a changed row as a line for the log of [Logger], as CSV in the original's layout or as JSON.
#pragma once

#include <memory>

#include "values/values.hpp"

namespace relay {

enum class LineForm : uint8_t { csv, json };

// What all rows of an event share.
struct LineOrigin {
  uint32_t timestamp = 0;  // Unix seconds
  int32_t offset = 0;      // of the lines' time zone at that time, seconds east of UTC
  std::string_view file;
  uint64_t position = 0;  // end of the event in the file
  std::string_view gtid;  // empty: none
};

// Formats the rows of one table.
class LineTable {
 public:
  LineTable(std::shared_ptr<const Definition> definition, LineForm form);

  const Definition& definition() const { return *definition_; }
  // The common beginning of the lines of one event.
  std::string head(RowKind kind, const LineOrigin& origin) const;
  // Appends the line of a row. False, with the reason, if a value cannot be decoded; `out` then has a part of the line.
  bool append(Output& out, const Row& row, std::string_view head, const RenderOptions& options,
              std::string* error) const;

 private:
  // How a value is written in a line.
  enum class Style : uint8_t {
    bare,     // an unquoted number
    wide,     // a 64-bit integer: JSON readers may convert numbers to doubles
    real,     // a floating-point number
    year,     // an unquoted number
    plain,    // quoted, with nothing to escape
    instant,  // quoted; an unquoted 0 if it is zero
    text,     // quoted and escaped
    base64,   // bytes, in an object with a marker
  };
  struct Part {
    Step step;
    std::string name;  // in the form of a line
    Style style = Style::text;
    std::string_view null;
  };

  static Style csv_style(const Column& column);
  static Style json_style(const Column& column, const Step& step);
  bool append_csv(Output& out, const Row& row, const RenderOptions& options, std::string* error) const;
  bool append_json(Output& out, const Row& row, const RenderOptions& options, std::string* error) const;
  bool append_side(Output& out, std::string_view name, const Row& row, const uint8_t* present, Bytes bytes,
                   const RenderOptions& options, std::string* error) const;
  uint8_t* put(const Target& to, uint8_t* p, size_t column, Bytes bytes, const RenderOptions& options) const;
  size_t room_for(const Row& row) const { return room_ + row.before.size + row.after.size; }

  std::shared_ptr<const Definition> definition_;
  LineForm form_;
  std::string names_;  // schema and table in the form of a line
  std::vector<Part> parts_;
  size_t room_ = 0;  // room for a row, except for values that are escaped, which reserve room themselves
};

}  // namespace relay
