// Rows of the journal counted by table, kind and minute, without a look at their values.
#pragma once

#include <array>
#include <unordered_map>

#include "journal.hpp"

namespace relay {

// Rows of a table whose events are of one minute.
struct Tally {
  uint32_t table = 0;           // its index in this reader
  uint32_t minute = 0;          // of the events, since 1970-01-01 UTC
  std::array<uint64_t, 3> rows{};  // inserted, updated, deleted; an update is one
  uint64_t unproven = 0;        // of all of them, those whose names of columns nothing proves
  uint32_t last = 0;            // Unix seconds of the last of these events
};

// A definition that rows are of from here on.
struct MetTable {
  uint32_t table = 0;  // counted up from 0 as new names are met
  std::string schema;
  std::string name;
  std::string definition;  // packed
};

// Counts each row once, by its number: whatever is read again after a journal was restored is passed over. Throws
// JournalError: journal_lost if retention has deleted what comes next.
class UsageReader {
 public:
  // Begins at the frame at `position`, or with the oldest if that is 0; rows numbered below `number` are counted
  // already. 0: none is, and what the journal lacks at its beginning is not missed.
  UsageReader(std::string directory, uint64_t position, uint64_t number);

  // Counts up to `until`, which is flushed; a step of about `max_bytes` of the journal. Whether it has come to `until`.
  bool read(uint64_t until, uint64_t max_bytes);
  // What was counted and met since they were called last.
  std::vector<Tally> take();
  std::vector<MetTable> met();

  uint64_t position() const { return position_; }  // of the next frame
  uint64_t number() const { return number_; }      // of the next change
  uint64_t missed() const { return missed_; }      // changes that were gone before they could be counted
  uint64_t generation() { return journal_.generation(); }

 private:
  // A TABLE frame, and where its rows were counted last.
  struct Entry {
    uint32_t table = 0;
    bool proven = true;
    uint32_t minute = 0;
    uint64_t taken = 0;  // after how many calls of `take`
    size_t tally = 0;
  };

  void pass(const FrameView& view);
  void come_to(uint64_t number);
  void count(const RowsFrame& rows, uint64_t fresh);
  Entry& entry_of(uint64_t table);
  Entry meet(uint64_t table);
  void forget_before(uint64_t position);

  JournalReader journal_;
  uint64_t position_ = 0;
  uint64_t number_ = 0;
  uint64_t statements_ = 0;  // met since a frame told a number; each has one
  uint64_t missed_ = 0;

  std::vector<Tally> tallies_;
  std::unordered_map<uint64_t, size_t> places_;  // in tallies_, by table and minute
  uint64_t taken_ = 1;
  std::map<std::pair<std::string, std::string>, uint32_t> tables_;
  std::vector<MetTable> met_;
  std::map<uint64_t, Entry> entries_;  // by TABLE frame
  std::array<std::pair<uint64_t, Entry*>, 1024> recent_{};
};

}  // namespace relay
