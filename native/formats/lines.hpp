// Reads the journal's rows as lines, for the log of [Logger].
#pragma once

#include "formats/line_form.hpp"
#include "journal/journal.hpp"

namespace relay {

// Why a read stopped.
struct LinesReached {
  enum class Why : uint8_t {
    end,     // at the given position
    full,    // the lines have their maximum size
    more,    // much was scanned: lets the caller do other work in between
    day,     // the next row belongs to a later day, `day`
    gap,     // events were lost here and there are no lines; `text` is the reason
    table,   // the caller must decide whether rows of `schema`.`text` are wanted
    offset,  // the caller must supply the lines' UTC offset at `timestamp`
  };
  Why why = Why::end;
  int64_t day = 0;
  uint32_t timestamp = 0;
  std::string schema;
  std::string text;
};

// Formats a journal's rows as lines, event by event in the journal's order. Throws JournalError (journal_lost if
// retention has deleted the next frames) and StreamError (schema_unproven and unsupported_column at rows that cannot be
// logged). Lines of earlier events are kept.
class LineReader {
 public:
  // Begins at `position`, an earlier result of position(), where a frame begins; 0: with the oldest frame. Unless
  // `positional`, rows with unproven column names are refused.
  LineReader(std::string directory, uint64_t position, LineForm form, RenderOptions options, bool positional);

  // Adds lines up to `until`, which must be flushed, or until there are `max_bytes`, from events no later than `day`
  // (days since 1970-01-01 in the lines' time zone). An event later than `latest` counts as of `latest`.
  LinesReached read(uint64_t until, uint64_t max_bytes, int64_t day, int64_t latest);
  // Replies to Why::table.
  void decide(bool wanted);
  // Replies to Why::offset: seconds east of UTC, valid from `from` until `until`, Unix seconds.
  void set_offset(int32_t offset, int64_t from, int64_t until);

  // The lines since `clear`.
  const char* lines() const { return lines_.chars(); }
  uint64_t size() const { return lines_.size(); }
  void clear() { lines_.clear(); }

  uint64_t count() const { return count_; }  // of all lines so far
  // The position after the last frame that was read.
  uint64_t position() const { return at_; }
  uint64_t sequence() const { return sequence_; }  // of the next change; 0: not known yet
  const std::string& file() const { return file_; }
  uint64_t offset() const { return offset_; }        // of the last event in the file
  uint32_t timestamp() const { return timestamp_; }  // of the last event; 0: not known yet
  uint64_t generation() { return journal_.generation(); }

 private:
  struct Table {
    std::unique_ptr<LineTable> lines;  // nullptr: its rows are not wanted
  };

  static constexpr uint64_t kMostScanned = 64 << 20;  // bytes of the journal in one `read`

  [[noreturn]] static void refuse(const char* code, uint64_t position, const std::string& cause, const char* hint);
  void pass(const FrameView& view);
  bool log_rows(const FrameView& view, int64_t day, int64_t latest, LinesReached* result);
  void append_rows(const FrameView& view, const RowsFrame& rows, const LineTable& table);
  const Table* load_table(uint64_t position, LinesReached* result);
  std::string gtid_after(const FrameView& rows);

  JournalReader journal_;
  const LineForm form_;
  const RenderOptions options_;
  const bool positional_;
  Output lines_;
  uint64_t count_ = 0;

  uint64_t at_ = 0;     // position of the next frame
  uint64_t until_ = 0;  // of this `read`
  uint64_t sequence_ = 0;
  std::string file_;
  uint64_t offset_ = 0;
  uint32_t timestamp_ = 0;
  std::string gtid_;  // of the current transaction, once it is known
  bool gtid_known_ = false;

  int32_t zone_ = 0;  // the UTC offset of the lines, valid:
  int64_t zone_from_ = 0;
  int64_t zone_until_ = 0;

  std::map<uint64_t, Table> tables_;  // by TABLE frame
  std::map<std::pair<std::string, std::string>, bool> wanted_;
  std::pair<std::string, std::string> undecided_;
};

}  // namespace relay
