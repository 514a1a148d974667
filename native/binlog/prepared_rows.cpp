// Keeping and replaying of rows of XA transactions.
#include "binlog/prepared_rows.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "journal/system_calls.hpp"

namespace relay {
namespace {

constexpr RowKind kKinds[] = {RowKind::insert, RowKind::update, RowKind::remove};

}  // namespace

struct PreparedRows::Record {
  uint32_t table;  // index into tables_
  uint32_t kind;
  uint64_t end_position;
  uint32_t timestamp;
  uint32_t rows;
  uint64_t size;  // size of the body
};

SpillFile::~SpillFile() {
  if (fd_ >= 0) close(fd_);
}

void SpillFile::make() {
  std::string path = directory_ + "/prepared.rows";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd_ < 0) throw_system("sync_failed", "hold rows of prepared transactions", path, errno);
  unlink(path.c_str());
}

void SpillFile::append(Bytes bytes) {
  if (fd_ < 0) make();
  if (int error = write_at(fd_, bytes, end_)) {
    throw_system("sync_failed", "hold rows of prepared transactions", directory_, error);
  }
  end_ += bytes.size;
  used_ += bytes.size;
}

void SpillFile::read(uint64_t from, uint8_t* to, size_t size) const {
  for (size_t done = 0; done < size;) {
    const ssize_t n = repeat([&] { return pread(fd_, to + done, size - done, static_cast<off_t>(from + done)); });
    if (n <= 0) throw_system("sync_failed", "read rows of prepared transactions", directory_, n == 0 ? EIO : errno);
    done += static_cast<size_t>(n);
  }
}

void SpillFile::check() const {
  if (int error = sync_data(fd_)) throw_system("sync_failed", "hold rows of prepared transactions", directory_, error);
}

// If the filesystem cannot punch holes, the space is freed with the last group.
void SpillFile::give_back(uint64_t from, uint64_t end) {
  if (from == end) return;
  used_ -= end - from;
  if (used_ == 0 && ftruncate(fd_, 0) == 0) {
    end_ = 0;
    return;
  }
  (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                  static_cast<off_t>(end - from));
}

void PreparedRows::add(const std::shared_ptr<TableUse>& table, const Rows& rows) {
  auto found = std::find(tables_.rbegin(), tables_.rend(), table);
  size_t index = static_cast<size_t>(tables_.rend() - found);  // 0: not found
  if (!index) {
    tables_.push_back(table);
    index = tables_.size();
  }
  Record record{static_cast<uint32_t>(index - 1),
                static_cast<uint32_t>(rows.kind),
                rows.end_position,
                rows.timestamp,
                rows.rows,
                rows.body.size};
  recent_.append(reinterpret_cast<const char*>(&record), sizeof record);
  recent_.append(rows.body.text());
  counts_[static_cast<size_t>(std::find(kKinds, kKinds + 2, rows.kind) - kKinds)] += rows.rows;
}

void PreparedRows::spill() {
  if (recent_.empty()) return;
  uint64_t begin = file_.end();
  file_.append(Bytes(recent_));
  if (from_ == end_) from_ = begin;
  end_ = file_.end();
  recent_ = std::string();
}

PreparedRows::Rows PreparedRows::rows_of(const Record& record, const uint8_t* body) const {
  return {tables_[record.table]->handle,
          static_cast<RowKind>(record.kind),
          record.end_position,
          record.timestamp,
          record.rows,
          Bytes(body, record.size)};
}

void PreparedRows::each(const std::function<void(const Rows&)>& take) const {
  Record record;
  std::string body;
  if (from_ < end_) file_.check();
  for (uint64_t at = from_; at < end_; at += sizeof record + record.size) {
    file_.read(at, reinterpret_cast<uint8_t*>(&record), sizeof record);
    body.resize(record.size);
    file_.read(at + sizeof record, reinterpret_cast<uint8_t*>(body.data()), body.size());
    take(rows_of(record, reinterpret_cast<const uint8_t*>(body.data())));
  }
  for (size_t at = 0; at < recent_.size(); at += sizeof record + record.size) {
    std::memcpy(&record, recent_.data() + at, sizeof record);
    take(rows_of(record, reinterpret_cast<const uint8_t*>(recent_.data()) + at + sizeof record));
  }
}

void PreparedRows::count(const std::function<void(RowKind, uint64_t)>& take) const {
  for (size_t i = 0; i < counts_.size(); ++i) take(kKinds[i], counts_[i]);
}

}  // namespace relay
