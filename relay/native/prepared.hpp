// XA transactions between PREPARE and COMMIT: the note on disk of where they began.
#pragma once

#include <map>

#include "journal_writer.hpp"

namespace relay {

// Which prepared transactions the journal says nothing of yet. Written before the journal's position passes them, and
// cleared after it holds their rows: a restart reads them again from the source.
class PreparedLog {
 public:
  struct Entry {
    std::string file;    // "" if only its GTID tells where it is
    uint64_t start = 0;  // of the group's first event
    std::string gtid;
  };

  explicit PreparedLog(std::string directory);  // throws JournalError
  void add(const std::string& xid, Entry entry);
  void remove(const std::string& xid);
  void clear();
  void forget_places();  // the files are those of another server now
  const std::map<std::string, Entry>& entries() const { return entries_; }
  // Whether the group is noted, by its GTID or else by its place.
  bool knows(std::string_view gtid, std::string_view file, uint64_t start) const;

 private:
  void save() const;

  const std::string directory_;
  std::map<std::string, Entry> entries_;
};

}  // namespace relay
