// A changed row as a line of the log of [Logger], as CSV in the original's layout or as JSON.
#pragma once

#include <memory>

#include "values.hpp"

namespace relay {

enum class LineForm : uint8_t { csv, json };

// What all rows of an event have in common.
struct LineOrigin {
  uint32_t timestamp = 0;  // Unix seconds
  int32_t offset = 0;      // of the lines' time zone then, seconds east of UTC
  std::string_view file;
  uint64_t position = 0;  // where the event ends in it
  std::string_view gtid;  // empty: none
};

// How the rows of one table become lines.
class LineTable {
 public:
  LineTable(std::shared_ptr<const Definition> definition, LineForm form);

  const Definition& definition() const { return *definition_; }
  // What the lines of one event begin with.
  std::string head(RowKind kind, const LineOrigin& origin) const;
  // Appends the line of a row. False, with the reason, if a value cannot be decoded; `out` has a part of the line then.
  bool append(Output& out, const Row& row, std::string_view head, const RenderOptions& options,
              std::string* error) const;

 private:
  // How a value stands in a line.
  enum class Style : uint8_t {
    bare,     // a number
    wide,     // an integer of 64 bits: JSON's readers may take numbers for doubles
    real,     // a floating point number
    year,     // a number
    plain,    // in quotes, with nothing to escape
    instant,  // in quotes, a bare 0 if it is zero
    text,     // in quotes, escaped
    base64,   // bytes, in an object that says so
  };
  struct Part {
    Step step;
    std::string name;  // as it stands in a line
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
  std::string names_;  // schema and table, as they stand in a line
  std::vector<Part> parts_;
  size_t room_ = 0;  // for a row, but for what escapes and makes room itself
};

}  // namespace relay
