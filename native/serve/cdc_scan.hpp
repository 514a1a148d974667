// Scans the journal for the CDC service: definitions, statements and transactions, without reading values.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>

#include "base/gtid.hpp"
#include "journal/journal.hpp"

namespace relay {

// A finished transaction.
struct CdcTransaction {
  std::string gtid;  // as the source writes it; empty: none
  uint32_t server = 0;
  uint32_t timestamp = 0;
  uint64_t images = 0;  // number of row images; an update has two
  std::vector<uint32_t> tables;
};

// The definition of rows from `position` on, in the transaction that begins at `begin`.
struct CdcDefinition {
  uint32_t table = 0;
  uint64_t position = 0;
  uint64_t begin = 0;
  std::string definition;  // packed
  std::string gtid;
  uint32_t server = 0;
};

struct CdcStatement {
  uint64_t position = 0;
  std::string schema;  // its default schema
  std::string text;
  std::string tables;  // the tables that it leaves, packed; empty in journals before format 3
  std::string gtid;
  uint32_t server = 0;
};

// Scans the journal transaction by transaction. Throws JournalError (journal_lost if retention has deleted the next
// frames).
class CdcScan {
 public:
  // Begins at `position`, which is between transactions or at the beginning of a segment; 0: with the oldest complete
  // transaction. The journal must outlive the scan.
  CdcScan(JournalReader& journal, uint64_t position);

  // Scans up to `until`, which must be committed, in a step of about `max_bytes`. True if it reached `until` or the
  // transaction given to `find`.
  bool read(uint64_t until, uint64_t max_bytes);
  // Stops at the end of this transaction. `source` is MySQL's uuid and tag, or MariaDB's domain.
  void find(std::string source, uint64_t number);
  bool found() const { return found_; }

  // The results since the last call.
  std::vector<CdcDefinition> definitions() { return std::exchange(definitions_, {}); }
  std::vector<CdcStatement> statements() { return std::exchange(statements_, {}); }
  std::set<uint32_t> touched() { return std::exchange(touched_, {}); }
  std::vector<std::string> sources() { return std::exchange(new_sources_, {}); }

  const std::pair<std::string, std::string>& name(uint32_t table) const { return names_.at(table); }
  const CdcTransaction& last() const { return last_; }
  uint64_t position() const { return begin_; }  // always between transactions

 private:
  void pass(const FrameView& view);
  void end(const FrameView& view);
  void forget();
  uint32_t table_of(uint64_t frame, const FrameView& view);

  JournalReader& journal_;
  bool begun_ = false;  // at_ is between transactions, or after such a position
  uint64_t at_ = 0;     // position of the next frame
  uint64_t begin_ = 0;  // of the transaction that contains at_
  uint64_t segment_ = 0;
  CdcTransaction open_;
  std::set<uint32_t> open_tables_;
  std::vector<CdcDefinition> open_definitions_;
  std::vector<CdcStatement> open_statements_;
  CdcTransaction last_;
  std::unordered_map<uint64_t, uint32_t> frames_;  // TABLE frames of this segment
  std::map<std::pair<std::string, std::string>, uint32_t> tables_;
  std::vector<std::pair<std::string, std::string>> names_;
  std::vector<CdcDefinition> definitions_;
  std::vector<CdcStatement> statements_;
  std::set<uint32_t> touched_;
  std::set<std::string> sources_;
  std::vector<std::string> new_sources_;
  std::string sought_;
  uint64_t sought_number_ = 0;
  bool found_ = false;
};

}  // namespace relay
