// Turns row images into what clients get: classic Poll and PollV2 payloads, and rows of PollMany.
#pragma once

#include "base/output.hpp"
#include "values/rows.hpp"

namespace relay {

struct RenderOptions {
  std::string null_text = "NULL";
  bool utc = true;  // TIMESTAMP in UTC; otherwise in the TZ of the process, which the server process set from TimeZone
};

// One row: its kind, its images (`after` is empty unless an update), and the facts of its frame.
struct Row {
  const Definition* definition = nullptr;
  RowKind kind = RowKind::insert;
  const uint8_t* before_present = nullptr;
  const uint8_t* after_present = nullptr;
  Bytes before;           // the only image of an insert or delete
  Bytes after;            // the second image of an update
  uint64_t position = 0;  // EventPosition as configured
};

// A column that no image of the row holds (binlog_row_image other than FULL) is left out of the payload. A column that
// only the other image holds is an empty text here, a set bit in the bitmap of format 0, and no key in the map of
// format 1.

// Appends the payload of a Poll (version 1) or PollV2 (version 2) reply. False, with `out` unchanged, if a value cannot
// be decoded.
bool append_poll(Output& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options,
                 std::string* error);

// Appends a row of PollMany format 0: u64 sequence, the PollV2 payload, then for each side of the row (insert: after;
// delete: before; update: before, after) a NULL bitmap of (columns + 7) / 8 bytes.
bool append_many_text(Output& out, uint64_t sequence, const Row& row, uint32_t queue_size, const RenderOptions& options,
                      std::string* error);

// Appends a row of PollMany format 1: msgpack [sequence, kind, position, schema, table, instance, before, after].
// before and after are maps of name to typed value, or nil where the kind has no such side.
bool append_many_msgpack(Output& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                         std::string* error);

// Appends a row of PollMany format 3: as format 1, with MessagePack's extension types (put_extended).
bool append_many_extended(Output& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                          std::string* error);

// How values are written in [before, after]: as text that the server prints, or bytes; or as in format 1 or 3.
enum class ValueForm : uint8_t { text, typed, extended };

// Appends msgpack [before, after].
bool append_sides(Output& out, const Row& row, ValueForm form, const RenderOptions& options, std::string* error);

}  // namespace relay
