// The journal's transactions as columns, for the lake.
#pragma once

#include <deque>

#include "columns.hpp"
#include "journal.hpp"

namespace relay {

// Rows of one table on one day, from tables whose definitions are the same.
struct ChangeBatch {
  std::shared_ptr<ColumnBatch> columns;
  std::string definition;  // packed
  int64_t day = 0;         // of the commits, UTC, since 1970-01-01
  uint64_t first = 0;      // numbers of the first and the last change
  uint64_t last = 0;
};

// Why a reading stopped.
struct Reached {
  enum class Why : uint8_t {
    end,     // at the position that was given
    full,    // the columns have as many bytes as they may
    more,    // much has been looked at: so that the caller may do other things in between
    ddl,     // at the end of a transaction with a statement, `text`, whose number is `seq`
    gap,     // events were lost here; `text` is the reason
    source,  // the source is another one from here on, `text`
    table,   // whether rows of `schema`.`text` are wanted has to be decided
  };
  Why why = Why::end;
  uint64_t seq = 0;        // of the last change that was read, or the statement
  uint32_t timestamp = 0;  // of the last transaction, or the statement; Unix seconds
  std::string schema;
  std::string text;
  std::string dialect;  // of a statement: how it was read,
  std::string tables;   // and what it leaves, both packed
};

// Reads a journal from one transaction to the next, and gathers its rows in columns. All sequence numbers are the
// journal's plus `base`. Throws JournalError: journal_lost if retention has deleted what comes next; and StreamError:
// partial_image at rows that do not hold all columns, and unsupported_column at those that cannot be decoded.
class ChangeReader {
 public:
  // Begins at `position`, which is between transactions; 0: with the oldest transaction that is whole. Unless `choose`,
  // the rows of all tables are wanted.
  ChangeReader(std::string directory, uint64_t position, uint64_t base, Form form, bool choose);

  // Gathers rows up to `until`, which is flushed, or until the columns have `max_bytes`, maybe within a transaction.
  Reached read(uint64_t until, uint64_t max_bytes);
  // Answers Why::table.
  void decide(bool wanted);
  // What was gathered, in the order of the first rows.
  std::vector<ChangeBatch> take();

  // After the last transaction that was read to its end.
  uint64_t position() const { return position_; }
  const std::string& file() const { return file_; }
  uint64_t offset() const { return offset_; }
  const std::string& gtid() const { return gtid_; }  // its own; empty: none, or not known yet
  uint32_t timestamp() const { return timestamp_; }  // 0: not known yet
  const std::string& identity() const { return identity_; }
  // Of the last change that was read, also within a transaction.
  uint64_t seq() const { return base_ + sequence_ - 1; }
  bool in_transaction() const { return open_; }
  uint64_t generation() { return journal_.generation(); }

 private:
  struct Table {
    std::shared_ptr<const Definition> definition;
    std::string packed;
    bool wanted = true;
    size_t batch = 0;    // where its rows went last,
    int64_t day = 0;     // on which day,
    uint64_t taken = 0;  // after how many calls of `take`
  };
  // Rows of a frame that are still to be gathered.
  struct Pending {
    uint64_t position = 0;
    RowsFrame frame;
    RowsBody body;
    Table* table = nullptr;  // nullptr: there are none
    const uint8_t* at = nullptr;
    uint32_t row = 0;
  };

  void start_at(uint64_t segment);
  bool pass_over(const FrameView& view, Reached* told);
  void pass_within(const FrameView& view);
  void finish(const CommitFrame& commit, uint64_t next);
  bool look_ahead(uint64_t until, Reached* told);
  void open(const CommitFrame& commit);
  bool tired() const;
  bool meet(uint64_t position, Reached* told);
  void forget_before(uint64_t position);
  void begin_rows(const FrameView& view);
  bool gather(uint64_t max_bytes);
  ChangeBatch& batch_of(Table& table);
  Reached reached(Reached::Why why, std::string text = {}) const;

  JournalReader journal_;
  const uint64_t base_;
  const Form form_;
  const bool choose_;
  uint64_t position_ = 0;
  uint64_t at_ = 0;        // of the next frame
  uint64_t sequence_ = 1;  // of the next change, the journal's
  std::string file_;
  uint64_t offset_ = 0;
  std::string gtid_;
  std::string identity_;
  uint32_t timestamp_ = 0;

  // How far the end of the transaction at at_ was looked for, and the number of the change there.
  struct Ahead {
    uint64_t at = 0;  // 0: not yet
    uint64_t next = 0;
  };
  Ahead ahead_;
  uint64_t scanned_ = 0;  // bytes of the journal in this `read`
  uint64_t met_ = 0;      // the last table that was met

  bool open_ = false;  // a transaction, and of that:
  Origin origin_;
  std::string own_gtid_;
  Pending pending_;
  std::deque<Reached> statements_;  // told at its end

  std::map<uint64_t, Table> tables_;  // by TABLE frame
  std::map<std::pair<std::string, std::string>, bool> wanted_;
  std::pair<std::string, std::string> asked_;
  std::vector<ChangeBatch> batches_;
  uint64_t taken_ = 1;
  uint64_t bytes_ = 0;  // of all batches
  uint64_t rows_ = 0;
};

}  // namespace relay
