// XA transactions between PREPARE and COMMIT: a file that records where they began.
#pragma once

#include <string>
#include <vector>

#include "journal/journal_writer.hpp"

namespace relay {

// The prepared transactions whose end is not yet in the journal on disk. An entry is written before the journal's
// position passes its group, and kept until the end is flushed, so that a restart can read the group from the source
// again.
class PreparedLog {
 public:
  struct Entry {
    std::string xid;
    std::string file;    // "" if only its GTID says where it is
    uint64_t start = 0;  // start of the group's first event
    std::string gtid;
    uint64_t ended = 0;  // the journal has its end before this position; 0: still prepared
  };

  // `end`: the end of the journal, flushed up to there. Throws JournalError.
  PreparedLog(std::string directory, uint64_t end);
  // `flushed`: the journal is on disk up to this position.
  void add(Entry entry, uint64_t flushed);
  void finish(const std::string& xid, uint64_t ended, uint64_t flushed);
  void clear();
  void forget_positions();  // the files are now those of another server
  std::vector<Entry> prepared() const;
  // Whether the group is prepared, by its GTID or else by its binlog position.
  bool knows(std::string_view gtid, std::string_view file, uint64_t start) const;

 private:
  std::vector<Entry>::iterator find(const std::string& xid);
  void forget(uint64_t flushed);
  void save() const;

  const std::string directory_;
  std::vector<Entry> entries_;
};

}  // namespace relay
