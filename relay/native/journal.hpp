// The journal: append-only memory-mapped segments of CRC-checked frames, one writer, any number of readers.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "rows.hpp"

namespace relay {

// What failed, in words for people; `code` is one of relay.errors' codes (journal_lost, disk_full, journal_corrupt
// ...).
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
  uint32_t server = 0;  // of the server where the transaction was made; 0: not said
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
  Bytes dialect;  // these two packed; empty in journals of before format 3
  Bytes tables;
  static bool parse(Bytes payload, DdlFrame* out);
};

struct GapFrame {
  uint64_t position = 0;
  std::string_view file;
  std::string_view reason;
  static bool parse(Bytes payload, GapFrame* out);
};

// The frame as its struct; throws JournalError if it is malformed.
template <typename Frame>
Frame parsed(const FrameView& view) {
  Frame frame;
  if (!Frame::parse(view.payload, &frame))
    throw JournalError("journal_corrupt",
                       "read journal: the frame at position " + std::to_string(view.position) + " is malformed");
  return frame;
}

// Order of places in one server's binlog: of files, by the number after the last dot.
bool binlog_before(std::string_view file, uint64_t position, std::string_view other_file, uint64_t other_position);

struct Mapping;  // one mapped segment

// Reads frames at positions below the committed watermark, which the caller knows. Maps segments as they are met and
// keeps them mapped until `release_before`. Not thread-safe; one per process.
class JournalReader {
 public:
  explicit JournalReader(std::string directory);
  ~JournalReader();

  uint64_t generation();  // of the journal in the directory; throws JournalError if there is none
  uint64_t first();       // position of the oldest segment that still exists
  // Up to here the journal is committed and on disk, whatever becomes of the writer's process or host: nothing before
  // it is ever taken back. 0 if there is no journal.
  uint64_t flushed();
  // The frame at `position`. Follows a segment's end to the next one. Throws JournalError if it is gone or damaged; its
  // CRC is verified only if `check` (the writer verified what it wrote, and recovery what it found).
  FrameView frame(uint64_t position, bool check = false);
  // The first frame from `position` to before `end` of one of some kinds, a bit each (0: any), with its CRC verified.
  bool next(uint64_t position, uint64_t end, uint32_t kinds, FrameView* out);
  // As `frame` with `check`, for those who come back to the same frame for another client: its CRC is verified once.
  FrameView verified(uint64_t position);
  // Position of the segment that holds `position`.
  uint64_t segment(uint64_t position);
  // The TABLE frame in force for rows frames that name the one at `table`: the end of its links. Its link is not 0 if
  // it waits for its proof.
  TableFrame table(uint64_t table);
  // The definition in force for rows frames that name the TABLE frame at `table`; parsed once and kept. Follows its
  // link.
  std::shared_ptr<const Definition> definition(uint64_t table);
  // Which table rows are of that name the TABLE frame at `table`: a number that this reader has given to it; 0 if the
  // definition waits for its proof.
  uint32_t table_number(uint64_t table);
  uint32_t table_number(std::string_view schema, std::string_view name);
  // The definition of the rows at `position`; nullptr if what stands there is no ROWS frame.
  std::shared_ptr<const Definition> definition_at(uint64_t position);
  // Whether the segment at `segment` begins within a transaction that ends before `until`: its COMMIT frame.
  bool torn(uint64_t segment, uint64_t until, FrameView* commit);
  void release_before(uint64_t position);
  // The position from which the frames follow that come after `position` of the source's `file`: always between
  // transactions, and not beyond `committed`. Throws JournalError if the journal begins later than that.
  uint64_t locate(std::string_view file, uint64_t position, uint64_t committed);

 private:
  const Mapping& segment_of(uint64_t position);
  uint64_t find_boundary(uint64_t base, std::string_view file, uint64_t position, uint64_t committed);
  std::string directory_;
  std::map<uint64_t, std::unique_ptr<Mapping>> segments_;  // by base
  const Mapping* last_ = nullptr;
  uint64_t flushed_ = 0;
  std::vector<uint64_t> verified_;  // frames, each in the place that its position gives it
  std::map<uint64_t, std::shared_ptr<const Definition>> definitions_;  // by TABLE frame
  std::unordered_map<uint64_t, uint32_t> numbers_;                      // by TABLE frame
  std::map<std::pair<std::string, std::string>, uint32_t> numbered_;   // by schema and table
};

}  // namespace relay
