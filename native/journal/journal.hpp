// The journal: append-only memory-mapped segments of CRC-checked frames, with one writer and any number of readers.
#pragma once

#include <map>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/failure.hpp"
#include "values/rows.hpp"

namespace relay {

enum class FrameKind : uint8_t { table = 1, rows = 2, commit = 3, file = 4, source = 5, ddl = 6, gap = 7 };

struct FrameView {
  uint64_t position = 0;  // journal position of this frame
  uint64_t next = 0;      // journal position of the next frame
  uint64_t segment = 0;   // journal position of its segment
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
  static bool parse(Bytes payload, RowsFrame* out);  // reads at constant offsets: a few loads
};

struct CommitFrame {
  uint64_t position = 0;
  uint32_t timestamp = 0;
  uint64_t sequence = 0;
  std::string_view gtid;
  uint32_t server = 0;  // id of the server where the transaction was made; 0: unknown
  static bool parse(Bytes payload, CommitFrame* out);
};

struct FileFrame {
  uint64_t position = 0;
  std::string_view file;
  static bool parse(Bytes payload, FileFrame* out);
};

struct SourceFrame {
  uint64_t position = 0;
  uint64_t sequence = 0;
  std::string_view file;
  std::string_view gtid_set;
  std::string_view identity;
  static bool parse(Bytes payload, SourceFrame* out);
};

struct DdlFrame {
  uint64_t end_position = 0;
  uint32_t timestamp = 0;
  std::string_view schema;
  std::string_view statement;
  Bytes dialect;  // both packed; empty in journals before format 3
  Bytes tables;
  static bool parse(Bytes payload, DdlFrame* out);
};

struct GapFrame {
  uint64_t position = 0;
  std::string_view file;
  std::string_view reason;
  static bool parse(Bytes payload, GapFrame* out);
};

// Throws a JournalError (journal_corrupt) that says what is wrong with the frame, with its file and offset.
[[noreturn]] void throw_corrupt(const FrameView& view, const std::string& what);

// Parses the frame as the struct. Throws JournalError if it is malformed, and at rows whose TABLE frame is not one
// before them in their segment: consumers keep tables by segment.
template <typename Frame>
Frame parsed(const FrameView& view) {
  Frame frame;
  if (!Frame::parse(view.payload, &frame)) throw_corrupt(view, "is malformed");
  if constexpr (std::is_same_v<Frame, RowsFrame>) {
    if (frame.table <= view.segment || frame.table >= view.position)
      throw_corrupt(view, "has rows of a table that its segment does not define before them");
  }
  return frame;
}

// Compares positions in the binlog of one server. Files are ordered by the number after the last dot.
bool binlog_before(std::string_view file, uint64_t position, std::string_view other_file, uint64_t other_position);

struct Mapping;  // one mapped segment

// Reads frames at positions below the committed watermark, which the caller knows. Maps segments on first use and keeps
// them mapped until `release_before`. Not thread-safe; one per process.
class JournalReader {
 public:
  explicit JournalReader(std::string directory);
  ~JournalReader();

  uint64_t generation();  // of the journal in the directory; throws JournalError if there is none
  uint64_t first();       // position of the oldest segment that still exists
  // Everything before this position is committed and on disk. It is never taken back, even if the writer's process or
  // host fails. 0 if there is no journal.
  uint64_t flushed();
  // The frame at `position`. At a segment's end, continues in the next one. Throws JournalError if the frame is gone or
  // damaged. Verifies the CRC only if `check` (the writer verified what it wrote, and recovery what it found).
  FrameView frame(uint64_t position, bool check = false);
  // The first frame in [position, end) of one of some kinds, a bit each (0: any), with its CRC verified.
  bool next(uint64_t position, uint64_t end, uint32_t kinds, FrameView* out);
  // As `frame` with `check`, but verifies the CRC once for callers that return to the same frame for another client.
  FrameView verified(uint64_t position);
  // The position of the segment that holds `position`.
  uint64_t segment(uint64_t position);
  // The TABLE frame in force for rows frames that name the one at `table`: the end of its links. Its link is not 0 if
  // its proof is pending.
  TableFrame table(uint64_t table);
  // The definition in force for rows frames that name the TABLE frame at `table`. Follows its link. Parsed once and
  // cached.
  std::shared_ptr<const Definition> definition(uint64_t table);
  // The number that this reader gave to the table name of the TABLE frame at `table`; 0 if the proof of the definition
  // is pending.
  uint32_t table_number(uint64_t table);
  uint32_t table_number(std::string_view schema, std::string_view name);
  // The definition of the rows at `position`; nullptr if the frame there is not a ROWS frame.
  std::shared_ptr<const Definition> definition_at(uint64_t position);
  // The schema and the table that the TABLE frame at `table` names, even if the rest of its definition is unreadable.
  std::pair<std::string, std::string> table_name(uint64_t table);
  // Whether the segment at `segment` begins within a transaction that ends before `until`. Stores its COMMIT frame.
  bool torn(uint64_t segment, uint64_t until, FrameView* commit);
  void release_before(uint64_t position);
  // The journal position of the frames that come after `position` of the source's `file`. It is always between
  // transactions and not beyond `committed`. Throws JournalError if the journal begins later.
  uint64_t locate(std::string_view file, uint64_t position, uint64_t committed);

 private:
  FrameView find_frame(uint64_t position, bool check);
  const Mapping& segment_of(uint64_t position);
  const Mapping* find_segment(uint64_t position);
  FrameView table_frame(uint64_t table, TableFrame* out);
  uint64_t find_boundary(uint64_t base, std::string_view file, uint64_t position, uint64_t committed);
  std::string directory_;
  std::map<uint64_t, std::unique_ptr<Mapping>> segments_;  // by base
  const Mapping* last_ = nullptr;
  uint64_t flushed_ = 0;
  std::vector<uint64_t> verified_;  // verified frames, each at the index that its position gives
  std::unordered_map<uint64_t, std::shared_ptr<const Definition>> definitions_;  // by TABLE frame
  std::unordered_map<uint64_t, uint32_t> numbers_;                               // by TABLE frame
  std::map<std::pair<std::string, std::string>, uint32_t> numbered_;             // by schema and table
};

}  // namespace relay
