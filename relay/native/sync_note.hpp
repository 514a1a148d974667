// Whether what was written to the journal since its last good sync can be trusted.
//
// Linux tells of a failed sync once, and keeps the pages as if they were on disk. So a sync is noted before it begins
// and after it went well, in a file that is mapped and never synced itself: the note lives as long as those pages do.
#pragma once

#include <cstdint>
#include <string>

namespace relay {

class SyncNote {
 public:
  enum class Trust {
    all,
    unknown,  // a process died within a sync
    none,     // a sync has failed
  };

  // The note of the journal in the directory, made if there is none. Throws JournalError.
  explicit SyncNote(const std::string& directory);
  SyncNote(const SyncNote&) = delete;
  SyncNote& operator=(const SyncNote&) = delete;
  ~SyncNote();

  Trust trust() const;
  void begin();  // syncs begin
  void end();    // they went well
  void fail();   // one did not
  void settle();  // all that is left has been synced

  // The same for who does not write the journal; `all` if there is no note.
  static Trust of(const std::string& directory);

 private:
  struct Words {
    uint64_t boot;  // of the host: after its next one, what is read comes from the disk
    uint64_t begun, done, failed;
  };
  static std::string path(const std::string& directory);
  static Trust judge(const Words& words);

  Words* words_ = nullptr;
};

}  // namespace relay
