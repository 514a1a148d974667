// Reads the journal's transactions as columns, for the lake.
#pragma once

#include <deque>
#include <mutex>

#include "formats/columns.hpp"
#include "journal/journal.hpp"

namespace relay {

// Rows of one table on one day, from tables with equal definitions.
struct ChangeBatch {
  std::shared_ptr<ColumnBatch> columns;
  std::string definition;  // packed
  int64_t day = 0;         // day of the commits, UTC, since 1970-01-01
  uint64_t first = 0;      // numbers of the first and last change
  uint64_t last = 0;
};

// Why a read stopped.
struct Reached {
  enum class Why : uint8_t {
    end,     // at the given position
    full,    // the columns have their maximum size
    more,    // much was scanned: lets the caller do other work in between
    ddl,     // at the end of a transaction with a statement, `text`, whose number is `seq`
    gap,     // events were lost here; `text` is the reason
    source,  // from here on the source is another one, `text`
    table,   // the caller must decide whether rows of `schema`.`text` are wanted
  };
  Why why = Why::end;
  uint64_t seq = 0;        // of the last change that was read, or of the statement
  uint32_t timestamp = 0;  // of the last transaction, or of the statement; Unix seconds
  std::string schema;
  std::string text;
  std::string dialect;    // of a statement: how it was read,
  std::string tables;     // and the tables that it leaves, both packed; and
  uint64_t position = 0;  // the journal position of its frame
};

// Batches that their users, in any thread, have released: new ones take their memory, whose pages are mapped and cleared
// already. Of more than kCount, or with more than kBytes, the oldest are given back.
class SpareBatches {
 public:
  SpareBatches() { batches_.reserve(kCount); }

  void put(std::unique_ptr<ColumnBatch> batch);
  // The newest one with the columns of the definition; nullptr: none.
  std::unique_ptr<ColumnBatch> take(const Definition& definition);

 private:
  static constexpr size_t kCount = 8;
  static constexpr size_t kBytes = 64 << 20;

  std::mutex mutex_;
  std::vector<std::unique_ptr<ColumnBatch>> batches_;
  size_t bytes_ = 0;
};

// Reads a journal transaction by transaction and collects its rows in columns. All sequence numbers are the journal's
// plus `base`. Throws JournalError (journal_lost if retention has deleted the next frames) and StreamError
// (partial_image at rows without all columns, unsupported_column at rows that cannot be decoded).
class ChangeReader {
 public:
  // Begins at `position`, which is between transactions; 0: with the oldest complete transaction. Unless `choose`, the
  // rows of all tables are wanted.
  ChangeReader(std::string directory, uint64_t position, uint64_t base, Form form, bool choose);

  // Collects rows up to `until`, which must be flushed, or until the columns have `max_bytes` at the end of a
  // transaction, or `max_within` inside one.
  Reached read(uint64_t until, uint64_t max_bytes, uint64_t max_within);
  // Replies to Why::table.
  void decide(bool wanted);
  // The collected batches, in the order of their first rows.
  std::vector<ChangeBatch> take();

  // The position after the last transaction that was read completely.
  uint64_t position() const { return position_; }
  const std::string& file() const { return file_; }
  uint64_t offset() const { return offset_; }
  const std::string& gtid() const { return gtid_; }  // of the last transaction; empty: none, or not known yet
  uint32_t timestamp() const { return timestamp_; }  // 0: not known yet
  const std::string& identity() const { return identity_; }
  // Number of the last change that was read, also within a transaction.
  uint64_t seq() const { return base_ + sequence_ - 1; }
  bool in_transaction() const { return open_; }
  uint64_t generation() { return journal_.generation(); }

 private:
  struct Table {
    std::shared_ptr<const Definition> definition;
    std::string packed;
    bool wanted = true;
    size_t batch = 0;     // batch of its last rows,
    int64_t day = 0;      // their day,
    uint64_t taken = 0;   // and the number of `take` calls before them
    uint64_t ahead = 0;   // rows of the transaction that are still to come,
    uint64_t search = 0;  // and the search for its end that counted them
  };
  // Rows of a frame that are still to be collected.
  struct Pending {
    uint64_t position = 0;
    RowsFrame frame;
    RowsBody body;
    Table* table = nullptr;  // nullptr: none
    const uint8_t* at = nullptr;
    uint32_t row = 0;
  };

  static constexpr uint64_t kMostScanned = 64 << 20;  // bytes of the journal in one `read`

  [[noreturn]] static void refuse(const char* code, uint64_t position, const std::string& cause, const char* hint);
  const FrameView& here();
  void start_at(uint64_t segment);
  bool pass_over(const FrameView& view, Reached* result);
  void pass_within(const FrameView& view);
  void finish(const CommitFrame& commit, uint64_t next);
  bool look_ahead(uint64_t until, Reached* result);
  void open(const FrameView& view);
  bool scanned_enough() const;
  bool load_table(uint64_t position, Reached* result);
  void forget_before(uint64_t position);
  void begin_rows(const FrameView& view);
  bool collect(uint64_t most_bytes);
  ChangeBatch& batch_of(Table& table);
  std::shared_ptr<ColumnBatch> made_batch(const std::shared_ptr<const Definition>& definition);
  Reached reached(Reached::Why why, std::string text = {}) const;

  JournalReader journal_;
  const uint64_t base_;
  const Form form_;
  const bool choose_;
  uint64_t position_ = 0;
  uint64_t at_ = 0;        // position of the next frame,
  FrameView here_;         // and that frame, verified, if it has this position
  uint64_t sequence_ = 1;  // number of the next change, as in the journal
  std::string file_;
  uint64_t offset_ = 0;
  std::string gtid_;
  std::string identity_;
  uint32_t timestamp_ = 0;

  // How far the end of the transaction at at_ was searched for, and the number of the change there.
  struct Ahead {
    uint64_t at = 0;  // 0: not yet
    uint64_t next = 0;
  };
  Ahead ahead_;
  uint64_t search_ = 0;      // number of such searches
  uint64_t scanned_ = 0;     // bytes of the journal in this `read`
  uint64_t last_table_ = 0;  // the last table that was found,
  Table* last_ = nullptr;    // and what is known of it

  bool open_ = false;  // within a transaction, of which:
  FrameView end_;      // its COMMIT frame, verified,
  CommitFrame commit_;
  Origin origin_;
  Pending pending_;
  std::deque<Reached> statements_;  // reported at its end

  std::map<uint64_t, Table> tables_;  // by TABLE frame
  std::map<std::pair<std::string, std::string>, bool> wanted_;
  std::pair<std::string, std::string> undecided_;
  std::vector<ChangeBatch> batches_;
  const std::shared_ptr<SpareBatches> spares_ = std::make_shared<SpareBatches>();
  uint64_t taken_ = 1;
  uint64_t bytes_ = 0;  // of all batches
  uint64_t rows_ = 0;
};

}  // namespace relay
