// Reads the rows of one table from the journal, for a client of the CDC protocol.
#pragma once

#include <unordered_map>

#include "journal/journal.hpp"
#include "serve/cdc_form.hpp"

namespace relay {

// Why a read stopped.
struct CdcReached {
  enum class Why : uint8_t {
    end,      // at the given position
    full,     // the rows have their maximum size
    more,     // much was scanned: lets the caller do other work in between
    schema,   // the next rows have another definition
    gap,      // events were lost here; `text` is the reason
    no_gtid,  // the transaction has no GTID
    domain,   // the caller must supply the domain number of `text`, a source of MySQL and its tag
  };
  Why why = Why::end;
  uint64_t position = 0;  // of the frame concerned
  std::string text;
};

// Reads the journal transaction by transaction. Throws JournalError (journal_lost if retention has deleted the next
// frames) and StreamError at rows that cannot be sent (schema_unproven, partial_image, unsupported_column). Rows of
// earlier events are kept.
class CdcReader {
 public:
  // Begins at `position`, which is between transactions; 0: with the oldest complete transaction. The journal must
  // outlive the reader, and have no other user meanwhile. Unless `positional`, rows with unproven column names are
  // refused.
  CdcReader(JournalReader& journal, uint64_t position, const std::string& schema, const std::string& table,
            CdcForm form, CdcValues values, RenderOptions options, bool positional);

  // Leaves out everything before the first transaction of the domain with number `sequence` or higher.
  void seek(uint64_t domain, uint64_t sequence);
  // Rows of a definition with these fields do not cause a stop.
  void expect(std::vector<CdcField> fields);
  // Adds rows up to `until`, which must be committed, or until there are `max_bytes`.
  CdcReached read(uint64_t until, uint64_t max_bytes);
  // Replies to Why::domain.
  void set_domain(uint64_t domain) { triplets_.set_domain(domain); }

  // The rows since `clear`, all of one definition.
  const char* bytes() const { return out_.chars(); }
  uint64_t size() const { return out_.size(); }
  uint64_t rows() const { return rows_; }
  void clear();

  // Position of the current transaction, or of the next frame.
  uint64_t position() const { return open_ ? begin_ : at_; }
  bool seeking() const { return seeking_; }
  // The packed definition of the next rows, after Why::schema.
  const std::string& definition() const { return packed_; }
  // GTID of the last transaction with rows of the table.
  const Triplet& gtid() const { return origin_.gtid; }

 private:
  // How far the end of the transaction at `begin` was searched for.
  struct Ahead {
    uint64_t at = 0;  // 0: none
    uint64_t begin = 0;
    uint64_t images = 0;  // found so far
    uint64_t first = 0;   // its first rows of the table; 0: none so far
    uint64_t before = 0;  // images before those rows
  };

  static constexpr uint64_t kMostScanned = 4 << 20;  // bytes of the journal in one `read`

  [[noreturn]] static void refuse(const char* code, uint64_t position, const std::string& cause, const char* hint);
  bool step(uint64_t until, CdcReached* result);
  bool find_rows(const FrameView& view, CdcReached* result);
  bool end_transaction(const FrameView& view, CdcReached* result);
  bool step_within(CdcReached* result);
  bool add_rows(const FrameView& view, CdcReached* result);
  void append_rows(const FrameView& view, const RowsFrame& rows, const CdcTable& table);
  bool take_origin(const CommitFrame& commit, CdcReached* result);
  bool load_table(const FrameView& view, uint64_t position, const CdcTable** table);

  JournalReader& journal_;
  const uint32_t table_;  // number of the table
  const CdcForm form_;
  const CdcValues values_;
  const RenderOptions options_;
  const bool positional_;
  Output out_;
  uint64_t rows_ = 0;

  bool begun_ = false;  // at_ is between transactions, or after such a position
  uint64_t at_ = 0;     // position of the next frame
  Ahead ahead_;
  uint64_t scanned_ = 0;  // bytes of the journal in this `read`
  bool open_ = false;     // within a transaction whose end is known, and of it:
  uint64_t begin_ = 0;
  uint64_t images_ = 0;  // before at_
  CdcOrigin origin_;

  bool seeking_ = false;
  uint64_t sought_domain_ = 0;
  uint64_t sought_sequence_ = 0;

  std::unordered_map<uint64_t, std::unique_ptr<CdcTable>> tables_;  // by TABLE frame
  uint64_t last_table_ = 0;                                         // the last TABLE frame,
  const CdcTable* last_ = nullptr;                                  // and its table; nullptr: another one
  uint64_t segment_ = 0;                                            // of these TABLE frames
  std::vector<CdcField> fields_;                                    // of the rows before
  uint64_t agreed_ = 0;                                             // a TABLE frame with these fields
  std::string packed_;
  Triplets triplets_;
};

}  // namespace relay
