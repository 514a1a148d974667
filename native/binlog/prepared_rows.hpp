// Rows of XA transactions that are not finished yet: kept in memory, and in a file when there are too many.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "journal/journal_writer.hpp"

namespace relay {

// A definition in use. The writer forgets it when the last user is gone.
struct TableUse {
  JournalWriter& writer;
  JournalWriter::Handle handle;

  TableUse(JournalWriter& w, JournalWriter::Handle h) : writer(w), handle(h) {}
  TableUse(const TableUse&) = delete;
  TableUse& operator=(const TableUse&) = delete;
  ~TableUse() { writer.forget(handle); }
};

// An unnamed file in the journal's folder, created on first use. Nothing in it has to outlive the process.
class SpillFile {
 public:
  explicit SpillFile(std::string directory) : directory_(std::move(directory)) {}
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;
  ~SpillFile();

  uint64_t end() const { return end_; }
  void append(Bytes bytes);  // throws JournalError, and then has changed nothing
  void check() const;        // throws JournalError if a write did not reach the disk: reads could return anything
  void read(uint64_t from, uint8_t* to, size_t size) const;
  void give_back(uint64_t from, uint64_t end);  // frees a part that is not read again

 private:
  void make();

  const std::string directory_;
  int fd_ = -1;
  uint64_t end_ = 0;
  uint64_t used_ = 0;  // bytes that were not freed
};

// The rows of one group, in order. Only one group at a time may be appended to.
class PreparedRows {
 public:
  explicit PreparedRows(SpillFile& file) : file_(file) {}
  PreparedRows(const PreparedRows&) = delete;
  PreparedRows& operator=(const PreparedRows&) = delete;
  ~PreparedRows() { file_.give_back(from_, end_); }

  struct Rows {
    JournalWriter::Handle table = 0;
    RowKind kind = RowKind::insert;
    uint64_t end_position = 0;
    uint32_t timestamp = 0;
    uint32_t rows = 0;
    Bytes body;
  };

  void add(const std::shared_ptr<TableUse>& table, const Rows& rows);
  void spill();  // moves rows from memory to the file; throws JournalError, and then has changed nothing
  size_t memory() const { return recent_.size(); }
  void each(const std::function<void(const Rows&)>& take) const;
  void count(const std::function<void(RowKind, uint64_t)>& take) const;

 private:
  struct Record;  // a header; its body follows

  Rows rows_of(const Record& record, const uint8_t* body) const;

  SpillFile& file_;
  uint64_t from_ = 0, end_ = 0;  // in the file
  std::string recent_;           // appended after the file's part
  std::vector<std::shared_ptr<TableUse>> tables_;
  std::array<uint64_t, 3> counts_{};
};

}  // namespace relay
