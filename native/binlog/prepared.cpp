// Reading and writing of the file of prepared transactions.
#include "binlog/prepared.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>

#include "journal/system_calls.hpp"

namespace relay {
namespace {

std::string path_in(const std::string& directory) { return directory + "/prepared"; }

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 19 && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

// One line per entry: xid, file, start, GTID and end, separated by tabs. Older releases wrote no end.
PreparedLog::PreparedLog(std::string directory, uint64_t end) : directory_(std::move(directory)) {
  std::ifstream in(path_in(directory_));
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string start, ended;
    Entry entry;
    bool whole = std::getline(fields, entry.xid, '\t') && std::getline(fields, entry.file, '\t') &&
                 std::getline(fields, start, '\t');
    std::getline(fields, entry.gtid, '\t');
    std::getline(fields, ended, '\t');
    if (!whole || !is_number(start) || !(ended.empty() || is_number(ended)))
      throw JournalError("journal_corrupt", "read prepared transactions: " + path_in(directory_) + ": it is damaged");
    entry.start = std::stoull(start);
    entry.ended = ended.empty() ? 0 : std::stoull(ended);
    if (entry.ended && entry.ended <= end) continue;
    entry.ended = 0;  // the journal has lost it
    entries_.push_back(std::move(entry));
  }
  // Saved again: a sync of what was read may have failed, and ends that the journal has lost must be gone before the
  // journal is that long again.
  if (!entries_.empty()) save();
}

std::vector<PreparedLog::Entry>::iterator PreparedLog::find(const std::string& xid) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.xid == xid && !entry.ended; });
}

std::vector<PreparedLog::Entry> PreparedLog::prepared() const {
  std::vector<Entry> found;
  std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(found),
               [](const Entry& entry) { return !entry.ended; });
  return found;
}

bool PreparedLog::knows(std::string_view gtid, std::string_view file, uint64_t start) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return !entry.ended && (gtid.empty() ? entry.file == file && entry.start == start : entry.gtid == gtid);
  });
}

void PreparedLog::add(Entry entry, uint64_t flushed) {
  auto before = entries_;
  auto found = find(entry.xid);
  if (found == entries_.end()) {
    entries_.push_back(std::move(entry));
  } else {
    *found = std::move(entry);
  }
  forget(flushed);
  try {
    save();
  } catch (...) {
    entries_ = std::move(before);
    throw;
  }
}

// An entry that stays because the file could not be written without it is harmless: its group is read again, and its
// end is skipped.
void PreparedLog::finish(const std::string& xid, uint64_t ended, uint64_t flushed) {
  auto found = find(xid);
  if (found == entries_.end()) return;
  found->ended = ended;
  forget(flushed);
  try {
    save();
  } catch (const JournalError& error) {
    if (error.code != "disk_full") throw;
  }
}

void PreparedLog::forget(uint64_t flushed) {
  auto is_done = [flushed](const Entry& entry) { return entry.ended && entry.ended <= flushed; };
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), is_done), entries_.end());
}

void PreparedLog::clear() {
  auto before = std::move(entries_);
  entries_.clear();
  try {
    save();
  } catch (...) {
    entries_ = std::move(before);
    throw;
  }
}

void PreparedLog::forget_positions() {
  if (entries_.empty()) return;
  for (Entry& entry : entries_) {
    entry.file.clear();
    entry.start = 0;
  }
  save();
}

void PreparedLog::save() const {
  std::string text;
  for (const Entry& entry : entries_)
    text += entry.xid + '\t' + entry.file + '\t' + std::to_string(entry.start) + '\t' + entry.gtid + '\t' +
            std::to_string(entry.ended) + '\n';
  std::string path = path_in(directory_), temporary = path + ".new";
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) throw_system("sync_failed", "note prepared transactions", temporary, errno);
  int error = write_at(fd, Bytes(text), 0);
  if (!error) error = sync_data(fd);
  close(fd);
  if (!error && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error) unlink(temporary.c_str());
  if (!error) error = Directory(directory_).sync();
  if (error) throw_system("sync_failed", "note prepared transactions", path, error);
}

}  // namespace relay
