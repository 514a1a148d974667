// Records whether writes to a file or to the journal since its last good sync can be trusted.
//
// Linux reports a failed sync only once, and keeps the pages as if they were on disk. So a sync is recorded before it
// begins and after it succeeded, in a mapped file that is itself never synced: the record lives as long as those pages.
#pragma once

#include <cstdint>
#include <string>

namespace relay {

class SyncNote {
 public:
  enum class Trust {
    all,
    unknown,  // a process died during a sync
    none,     // a sync has failed
  };

  // Opens the note in this file, or creates it. Several processes may share it. Throws JournalError.
  explicit SyncNote(const std::string& file);
  SyncNote(const SyncNote&) = delete;
  SyncNote& operator=(const SyncNote&) = delete;
  ~SyncNote();

  Trust trust() const;
  void begin();   // a sync begins
  void end();     // it succeeded
  void fail();    // it failed
  void settle();  // everything that is left has been synced

  // The same, read-only; `all` if there is no note.
  static Trust of(const std::string& file);

  static std::string of_journal(const std::string& directory) { return directory + "/sync"; }

 private:
  struct Words {
    uint64_t boot;  // of the host: after a reboot, reads come from the disk
    uint64_t begun, done, failed;
  };
  static Trust judge(const Words& words);

  Words* words_ = nullptr;
};

}  // namespace relay
