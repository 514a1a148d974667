#include "prepared.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace relay {
namespace {

std::string path_in(const std::string& directory) { return directory + "/prepared"; }

}  // namespace

// One line an entry: xid, file, start and GTID, between tabs.
PreparedLog::PreparedLog(std::string directory) : directory_(std::move(directory)) {
  std::ifstream in(path_in(directory_));
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string xid, start;
    Entry entry;
    bool whole =
        std::getline(fields, xid, '\t') && std::getline(fields, entry.file, '\t') && std::getline(fields, start, '\t');
    std::getline(fields, entry.gtid, '\t');
    if (!whole || start.find_first_not_of("0123456789") != start.npos || start.empty() || start.size() > 19)
      throw JournalError("journal_corrupt", "read prepared transactions: " + path_in(directory_) + ": it is damaged");
    entry.start = std::stoull(start);
    entries_[xid] = std::move(entry);
  }
}

bool PreparedLog::knows(std::string_view gtid, std::string_view file, uint64_t start) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& item) {
    const Entry& entry = item.second;
    return gtid.empty() ? entry.file == file && entry.start == start : entry.gtid == gtid;
  });
}

void PreparedLog::add(const std::string& xid, Entry entry) {
  auto before = entries_;
  entries_[xid] = std::move(entry);
  try {
    save();
  } catch (...) {
    entries_ = std::move(before);
    throw;
  }
}

// A note that stays because it could not be written without it does no harm: its group is read again, and its end
// skipped.
void PreparedLog::remove(const std::string& xid) {
  if (!entries_.erase(xid)) return;
  try {
    save();
  } catch (const JournalError& error) {
    if (error.code != "disk_full") throw;
  }
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

void PreparedLog::forget_places() {
  if (entries_.empty()) return;
  for (auto& [xid, entry] : entries_) {
    entry.file.clear();
    entry.start = 0;
  }
  save();
}

void PreparedLog::save() const {
  std::string text;
  for (const auto& [xid, entry] : entries_)
    text += xid + '\t' + entry.file + '\t' + std::to_string(entry.start) + '\t' + entry.gtid + '\n';
  std::string path = path_in(directory_), temporary = path + ".new";
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    throw_system(errno == ENOSPC ? "disk_full" : "journal_lost", "note prepared transactions", temporary, errno);
  bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fdatasync(fd) == 0;
  int error = errno;
  close(fd);
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) {
    if (written) error = errno;
    unlink(temporary.c_str());
    throw_system(error == ENOSPC || error == 0 ? "disk_full" : "journal_lost", "note prepared transactions", path,
                 error);
  }
  sync_directory(directory_);
}

}  // namespace relay
