// The journal's rows as lines, for the log of [Logger].
#pragma once

#include "journal.hpp"
#include "line_form.hpp"

namespace relay {

// Why a reading stopped.
struct LinesReached {
  enum class Why : uint8_t {
    end,     // at the position that was given
    full,    // there are as many bytes of lines as may be
    more,    // much has been looked at: so that the caller may do other things in between
    day,     // the next row is of a later day, `day`
    gap,     // events were lost here, and no lines are there; `text` is the reason
    table,   // whether rows of `schema`.`text` are wanted has to be decided
    offset,  // the lines' time zone at `timestamp` has to be told
  };
  Why why = Why::end;
  int64_t day = 0;
  uint32_t timestamp = 0;
  std::string schema;
  std::string text;
};

// Makes lines of a journal's rows, event by event in the journal's order. Throws JournalError: journal_lost if retention
// has deleted what comes next; and StreamError: schema_unproven and unsupported_column at rows that cannot be logged.
// The lines of what was read before stay.
class LineReader {
 public:
  // Begins at `position`, where a frame begins, as position() told it; 0: with the oldest. Rows whose columns' names are
  // not proven are refused unless `positional`.
  LineReader(std::string directory, uint64_t position, LineForm form, RenderOptions options, bool positional);

  // Adds lines up to `until`, which is flushed, or until there are `max_bytes`, of events that are not of a later day
  // than `day` (days since 1970-01-01 in the lines' time zone). An event of a later day than `latest` counts as of that.
  LinesReached read(uint64_t until, uint64_t max_bytes, int64_t day, int64_t latest);
  // Answers Why::table.
  void decide(bool wanted);
  // Answers Why::offset: seconds east of UTC from `from` until `until`, Unix seconds.
  void set_offset(int32_t offset, int64_t from, int64_t until);

  // What was added since `clear`.
  const char* lines() const { return lines_.chars(); }
  uint64_t size() const { return lines_.size(); }
  void clear() { lines_.clear(); }

  uint64_t count() const { return count_; }  // of all lines so far
  // After the last frame that was read.
  uint64_t position() const { return at_; }
  uint64_t sequence() const { return sequence_; }  // of the next change, 0: not known yet
  const std::string& file() const { return file_; }
  uint64_t offset() const { return offset_; }  // of the last event in the file
  uint32_t timestamp() const { return timestamp_; }  // of the last event, 0: not known yet
  uint64_t generation() { return journal_.generation(); }

 private:
  struct Table {
    std::unique_ptr<LineTable> lines;  // nullptr: its rows are not wanted
  };

  void pass(const FrameView& view);
  bool log_rows(const FrameView& view, int64_t day, int64_t latest, LinesReached* told);
  void append_rows(const FrameView& view, const RowsFrame& rows, const LineTable& table);
  bool meet(uint64_t position, LinesReached* told);
  std::string gtid_at(uint64_t position);

  JournalReader journal_;
  const LineForm form_;
  const RenderOptions options_;
  const bool positional_;
  Output lines_;
  uint64_t count_ = 0;

  uint64_t at_ = 0;  // of the next frame
  uint64_t sequence_ = 0;
  std::string file_;
  uint64_t offset_ = 0;
  uint32_t timestamp_ = 0;
  std::string gtid_;  // of the transaction that is being read, once it is
  bool gtid_known_ = false;

  int32_t zone_ = 0;  // the lines' offset, where it holds:
  int64_t zone_from_ = 0;
  int64_t zone_until_ = 0;

  std::map<uint64_t, Table> tables_;  // by TABLE frame
  std::map<std::pair<std::string, std::string>, bool> wanted_;
  std::pair<std::string, std::string> asked_;
};

}  // namespace relay
