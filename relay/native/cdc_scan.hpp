// What the CDC service knows of the journal: definitions, statements and transactions, without a look at values.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>

#include "gtid.hpp"
#include "journal.hpp"

namespace relay {

// A transaction that has ended.
struct CdcTransaction {
  std::string gtid;  // as the source writes it; empty: it has none
  uint32_t server = 0;
  uint32_t timestamp = 0;
  uint64_t images = 0;  // of rows; an update has two
  std::vector<uint32_t> tables;
};

// A definition that rows are of from `position` on, in the transaction that begins at `begin`.
struct CdcMet {
  uint32_t table = 0;
  uint64_t position = 0;
  uint64_t begin = 0;
  std::string definition;  // packed
  std::string gtid;
  uint32_t server = 0;
};

struct CdcStatement {
  uint64_t position = 0;
  std::string schema;  // its default one
  std::string text;
  std::string tables;  // what it leaves, packed; empty in journals of before format 3
  std::string gtid;
  uint32_t server = 0;
};

// Walks the journal from one transaction to the next. Throws JournalError: journal_lost if retention has deleted what
// comes next.
class CdcScan {
 public:
  // Begins at `position`, which is between transactions or where a segment begins; 0: with the oldest transaction that is
  // whole. The journal outlives it.
  CdcScan(JournalReader& journal, uint64_t position);

  // Goes up to `until`, which is committed; a step of about `max_bytes`. Whether it has come to `until`, or to the
  // transaction that was sought.
  bool read(uint64_t until, uint64_t max_bytes);
  // Stops at the end of this transaction: `source` is MySQL's uuid and tag, or MariaDB's domain.
  void find(std::string source, uint64_t number);
  bool found() const { return found_; }

  // Since they were called last.
  std::vector<CdcMet> met() { return std::exchange(met_, {}); }
  std::vector<CdcStatement> statements() { return std::exchange(statements_, {}); }
  std::set<uint32_t> touched() { return std::exchange(touched_, {}); }
  std::vector<std::string> sources() { return std::exchange(new_sources_, {}); }

  const std::pair<std::string, std::string>& name(uint32_t table) const { return names_.at(table); }
  const CdcTransaction& last() const { return last_; }
  uint64_t position() const { return begin_; }  // between transactions

 private:
  void pass(const FrameView& view);
  void end(const FrameView& view);
  void forget();
  uint32_t table_of(uint64_t frame, const FrameView& view);

  JournalReader& journal_;
  bool begun_ = false;  // at_ is between transactions, or beyond
  uint64_t at_ = 0;     // of the next frame
  uint64_t begin_ = 0;  // of the transaction that it is in
  uint64_t segment_ = 0;
  CdcTransaction open_;
  std::set<uint32_t> open_tables_;
  std::vector<CdcMet> open_met_;
  std::vector<CdcStatement> open_statements_;
  CdcTransaction last_;
  std::unordered_map<uint64_t, uint32_t> frames_;  // TABLE frames of this segment
  std::map<std::pair<std::string, std::string>, uint32_t> tables_;
  std::vector<std::pair<std::string, std::string>> names_;
  std::vector<CdcMet> met_;
  std::vector<CdcStatement> statements_;
  std::set<uint32_t> touched_;
  std::set<std::string> sources_;
  std::vector<std::string> new_sources_;
  std::string sought_;
  uint64_t sought_number_ = 0;
  bool found_ = false;
};

}  // namespace relay
