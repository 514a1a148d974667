// The journal: append-only memory-mapped segments of CRC-checked frames, one writer, any number of readers.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "rows.hpp"

namespace relay {

// What failed, in words for people; `code` is one of relay.errors' codes (journal_lost, disk_full, journal_corrupt ...).
struct JournalError : std::runtime_error {
  std::string code;
  JournalError(std::string c, const std::string& what) : std::runtime_error(what), code(std::move(c)) {}
};

enum class FrameKind : uint8_t { table = 1, rows = 2, commit = 3, file = 4, source = 5, ddl = 6, gap = 7 };

struct FrameView {
  uint64_t position = 0;  // of this frame, a journal position
  uint64_t next = 0;      // of the frame after it
  Bytes payload;
  FrameKind kind() const { return static_cast<FrameKind>(payload.data[1]); }
};

struct TableFrame {
  uint64_t link = 0;
  Bytes definition;
  static bool parse(Bytes payload, TableFrame* out);
};

struct RowsFrame {
  RowKind kind = RowKind::insert;
  uint64_t table = 0;
  uint64_t end_position = 0;
  uint32_t timestamp = 0;
  uint32_t rows = 0;
  uint64_t sequence = 0;
  Bytes body;
  static bool parse(Bytes payload, RowsFrame* out);  // constant offsets: a few loads
};

struct CommitFrame {
  uint64_t position = 0;
  uint32_t timestamp = 0;
  uint64_t sequence = 0;
  std::string_view gtid;
  static bool parse(Bytes payload, CommitFrame* out);
};

struct SourceFrame {
  uint64_t position = 0;
  uint64_t sequence = 0;
  std::string_view file;
  std::string_view gtid_set;
  std::string_view identity;
  static bool parse(Bytes payload, SourceFrame* out);
};

struct Mapping;  // one mapped segment

// Reads frames at positions below the committed watermark, which the caller knows. Maps segments as they are met and keeps
// them mapped until `release_before`. Not thread-safe; one per process.
class JournalReader {
 public:
  explicit JournalReader(std::string directory);
  ~JournalReader();

  uint64_t generation();  // of the journal in the directory; throws JournalError if there is none
  uint64_t first();       // position of the oldest segment that still exists
  // The frame at `position`. Follows a segment's end to the next one. Throws JournalError if it is gone or damaged.
  FrameView frame(uint64_t position);
  // The definition in force for rows frames that name the TABLE frame at `table`; parsed once and kept. Follows its link.
  std::shared_ptr<const Definition> definition(uint64_t table);
  void release_before(uint64_t position);

 private:
  const Mapping& segment_of(uint64_t position);
  std::string directory_;
  std::map<uint64_t, std::unique_ptr<Mapping>> segments_;  // by base
  const Mapping* last_ = nullptr;
  std::map<uint64_t, std::shared_ptr<const Definition>> definitions_;  // by TABLE frame
};

}  // namespace relay
