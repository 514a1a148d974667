// The rows of one table out of the journal, for a client of the CDC protocol.
#pragma once

#include <unordered_map>

#include "cdc_form.hpp"
#include "journal.hpp"

namespace relay {

// Why a reading stopped.
struct CdcReached {
  enum class Why : uint8_t {
    end,      // at the position that was given
    full,     // there are as many bytes as may be
    more,     // much has been looked at: so that the caller may do other things in between
    schema,   // the next rows are of another definition than those before
    gap,      // events were lost here; `text` is the reason
    no_gtid,  // the transaction has none
    domain,   // the number of the domain of `text`, a source of MySQL's and its tag, has to be told
  };
  Why why = Why::end;
  uint64_t position = 0;  // of the frame that it is about
  std::string text;
};

// Reads the journal from one transaction to the next. Throws JournalError: journal_lost if retention has deleted what
// comes next; and StreamError at rows that cannot be sent: schema_unproven, partial_image, unsupported_column. What was
// read before stays.
class CdcReader {
 public:
  // Begins at `position`, which is between transactions; 0: with the oldest transaction that is whole. The journal
  // outlives the reader, and is read by nobody else meanwhile. Rows whose columns' names are not proven are refused
  // unless `positional`.
  CdcReader(JournalReader& journal, uint64_t position, const std::string& schema, const std::string& table,
            CdcForm form, CdcValues values, RenderOptions options, bool positional);

  // Leaves out what comes before the first transaction of the domain whose number is `sequence` or higher.
  void seek(uint64_t domain, uint64_t sequence);
  // Rows of a definition with the same fields as this one are no reason to stop.
  void expect(std::vector<CdcField> fields);
  // Adds rows up to `until`, which is committed, or until there are `max_bytes`.
  CdcReached read(uint64_t until, uint64_t max_bytes);
  // Answers Why::domain.
  void tell_domain(uint64_t domain) { triplets_.tell(domain); }

  // What was added since `clear`, of one definition.
  const char* bytes() const { return out_.chars(); }
  uint64_t size() const { return out_.size(); }
  uint64_t rows() const { return rows_; }
  void clear();

  // Of the transaction that is being read, or the next frame.
  uint64_t position() const { return open_ ? begin_ : at_; }
  bool seeking() const { return seeking_; }
  // The packed definition of the rows that come next, after Why::schema.
  const std::string& definition() const { return packed_; }
  // Of the last transaction that has rows of the table.
  const Triplet& gtid() const { return origin_.gtid; }

 private:
  // How far the end of the transaction at `begin` was looked for.
  struct Ahead {
    uint64_t at = 0;  // 0: there is none
    uint64_t begin = 0;
    uint64_t images = 0;  // so far
    uint64_t first = 0;   // its first rows of the table, 0: none so far
    uint64_t before = 0;  // images before that one
  };

  bool step(uint64_t until, CdcReached* told);
  bool look(const FrameView& view, CdcReached* told);
  bool end_transaction(const FrameView& view, CdcReached* told);
  bool step_within(CdcReached* told);
  bool add_rows(const FrameView& view, CdcReached* told);
  void append_rows(const FrameView& view, const RowsFrame& rows, const CdcTable& table);
  bool take_origin(const CommitFrame& commit, CdcReached* told);
  bool meet(uint64_t table, bool* wanted);

  JournalReader& journal_;
  const uint32_t table_;  // its number
  const CdcForm form_;
  const CdcValues values_;
  const RenderOptions options_;
  const bool positional_;
  Output out_;
  uint64_t rows_ = 0;

  bool begun_ = false;  // at_ is between transactions, or beyond
  uint64_t at_ = 0;     // of the next frame
  Ahead ahead_;
  uint64_t scanned_ = 0;  // bytes of the journal in this `read`
  bool open_ = false;     // a transaction, whose end is known; and of that:
  uint64_t begin_ = 0;
  uint64_t images_ = 0;  // before at_
  CdcOrigin origin_;

  bool seeking_ = false;
  uint64_t sought_domain_ = 0;
  uint64_t sought_sequence_ = 0;

  std::unordered_map<uint64_t, std::unique_ptr<CdcTable>> tables_;  // by TABLE frame
  uint64_t met_ = 0;  // the last one,
  bool wanted_ = false;  // and whether it is the table's
  uint64_t segment_ = 0;  // of these
  std::vector<CdcField> fields_;  // of the rows before
  uint64_t agreed_ = 0;           // a TABLE frame that has them
  std::string packed_;
  Triplets triplets_;
};

}  // namespace relay
