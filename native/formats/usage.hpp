// Counts rows of the journal by table, kind and minute, without reading their values.
#pragma once

#include <array>
#include <unordered_map>

#include "journal/journal.hpp"

namespace relay {

// Rows of a table with events in one minute.
struct Tally {
  uint32_t table = 0;              // index in this reader
  uint32_t minute = 0;             // of the events, since 1970-01-01 UTC
  std::array<uint64_t, 3> rows{};  // inserted, updated, deleted; an update is one
  uint64_t unproven = 0;           // how many of these rows have unproven column names
  uint32_t last = 0;               // Unix seconds of the last event
};

// The definition of the rows from here on.
struct TableDefinition {
  uint32_t table = 0;  // indices count from 0 in the order of new names
  std::string schema;
  std::string name;
  std::string definition;  // packed
};

// Counts each row once, by its number: rows that are read again after a journal was restored are skipped. Throws
// JournalError (journal_lost if retention has deleted the next frames).
class UsageReader {
 public:
  // Begins at the frame at `position`, or with the oldest if that is 0. Rows with numbers below `number` are already
  // counted. 0: none are, and changes before the journal's beginning do not count as missed.
  UsageReader(std::string directory, uint64_t position, uint64_t number);

  // Counts up to `until`, which must be flushed, in a step of about `max_bytes` of the journal. True if it reached
  // `until`.
  bool read(uint64_t until, uint64_t max_bytes);
  // The counts and definitions since the last call.
  std::vector<Tally> take();
  std::vector<TableDefinition> definitions();

  uint64_t position() const { return position_; }  // position of the next frame
  uint64_t number() const { return number_; }      // number of the next change
  uint64_t missed() const { return missed_; }      // changes that were gone before they could be counted
  uint64_t generation() { return journal_.generation(); }

 private:
  // A TABLE frame, and the tally of its last rows.
  struct Entry {
    uint32_t table = 0;
    bool proven = true;
    uint32_t minute = 0;
    uint64_t taken = 0;  // the number of `take` calls before them
    size_t tally = 0;
  };

  void pass(const FrameView& view);
  void advance_to(uint64_t number);
  void count(const RowsFrame& rows, uint64_t fresh);
  Entry& entry_of(uint64_t table);
  Entry load_table(uint64_t table);
  void forget_before(uint64_t position);

  JournalReader journal_;
  uint64_t position_ = 0;
  uint64_t number_ = 0;
  uint64_t statements_ = 0;  // statements since the last frame with a number; each has one
  uint64_t missed_ = 0;

  std::vector<Tally> tallies_;
  std::unordered_map<uint64_t, size_t> indices_;  // indices in tallies_, by table and minute
  uint64_t taken_ = 1;
  std::map<std::pair<std::string, std::string>, uint32_t> tables_;
  std::vector<TableDefinition> definitions_;
  std::unordered_map<uint64_t, Entry> entries_;  // by TABLE frame
  std::array<std::pair<uint64_t, Entry*>, 1024> recent_{};
};

}  // namespace relay
