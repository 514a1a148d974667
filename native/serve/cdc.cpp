// Reading of transactions and rows for CDC clients.
#include "serve/cdc.hpp"

#include "base/failure.hpp"

namespace relay {

namespace {

constexpr const char* kUnproven =
    "set binlog_row_metadata = FULL on the source, or set `OnUnproven = positional` in [Relay]";
constexpr const char* kFullImages = "set binlog_row_image = FULL on the source";
constexpr const char* kReport = "report this with the table's definition";

// The output memory that the readers of a thread share: there are thousands of readers, and only one reads at a time. A
// new allocation for each read would cost as much as the rows.
thread_local Output spare;

uint64_t images_of(const RowsFrame& rows) { return rows.kind == RowKind::update ? 2 * uint64_t{rows.rows} : rows.rows; }

}  // namespace

void CdcReader::refuse(const char* code, uint64_t position, const std::string& cause, const char* hint) {
  throw StreamError(code, "read rows for CDC", position, cause, hint);
}

CdcReader::CdcReader(JournalReader& journal, uint64_t position, const std::string& schema, const std::string& table,
                     CdcForm form, CdcValues values, RenderOptions options, bool positional)
    : journal_(journal),
      table_(journal.table_number(schema, table)),
      form_(form),
      values_(values),
      options_(std::move(options)),
      positional_(positional),
      at_(position) {
  if (!position) at_ = journal_.first();
  begun_ = position;
}

void CdcReader::seek(uint64_t domain, uint64_t sequence) {
  seeking_ = true;
  sought_domain_ = domain;
  sought_sequence_ = sequence;
}

void CdcReader::expect(std::vector<CdcField> fields) {
  fields_ = std::move(fields);
  agreed_ = 0;
}

void CdcReader::clear() {
  out_.clear();
  out_.swap(spare);
  Output().swap(out_);
  rows_ = 0;
}

CdcReached CdcReader::read(uint64_t until, uint64_t max_bytes) {
  CdcReached result;
  if (!out_.has_block()) out_.swap(spare);
  scanned_ = 0;
  if (!begun_ && at_ < until) {
    FrameView commit;
    if (journal_.torn(at_, until, &commit)) at_ = commit.next;
    begun_ = true;
  }
  for (;;) {
    if (out_.size() > 0 && out_.size() >= max_bytes) {
      result.why = CdcReached::Why::full;
      return result;
    }
    if (scanned_ >= kMostScanned) {
      result.why = CdcReached::Why::more;
      return result;
    }
    if (!(open_ ? step_within(&result) : step(until, &result))) return result;
  }
}

// Processes a frame outside of a transaction, or while its end is searched for. False if the read stops.
bool CdcReader::step(uint64_t until, CdcReached* result) {
  const uint64_t from = ahead_.at ? ahead_.at : at_;
  if (from >= until) return false;
  const FrameView view = journal_.frame(from);
  scanned_ += view.next - from;
  switch (view.kind()) {
    case FrameKind::rows:
    case FrameKind::ddl: return find_rows(view, result);
    case FrameKind::commit: return end_transaction(view, result);
    case FrameKind::gap:
      ahead_ = {};  // what came before it has no end
      at_ = view.next;
      result->why = CdcReached::Why::gap;
      result->position = view.position;
      result->text = parsed<GapFrame>(view).reason;
      return false;
    default: break;
  }
  (ahead_.at ? ahead_.at : at_) = view.next;
  return true;
}

bool CdcReader::find_rows(const FrameView& view, CdcReached* result) {
  if (!ahead_.at) ahead_ = {view.position, view.position, 0, 0, 0};
  if (view.kind() == FrameKind::rows) {
    const auto rows = parsed<RowsFrame>(view);
    const CdcTable* table = nullptr;
    if (!load_table(view, rows.table, &table)) {
      result->why = CdcReached::Why::end;  // the proof of its definition is pending
      return false;
    }
    if (table && !ahead_.first) {
      ahead_.first = view.position;
      ahead_.before = ahead_.images;
    }
    ahead_.images += images_of(rows);
  }
  ahead_.at = view.next;
  return true;
}

// Processes the COMMIT of a transaction: opens the transaction if it has rows of the table.
bool CdcReader::end_transaction(const FrameView& view, CdcReached* result) {
  if (ahead_.first || seeking_) {
    const auto commit = parsed<CommitFrame>(view);
    const CdcOrigin before = origin_;
    const bool nameless = seeking_ && commit.gtid.empty();  // no position can name it
    if (!nameless && !take_origin(commit, result)) {
      result->position = view.position;
      return false;
    }
    const bool reached = origin_.gtid.domain == sought_domain_ && origin_.gtid.sequence >= sought_sequence_;
    if (reached && !nameless) seeking_ = false;
    if (seeking_ || !ahead_.first) {
      origin_ = before;
      ahead_.first = 0;
    }
  }
  if (ahead_.first) {
    open_ = true;
    begin_ = ahead_.begin;
    at_ = ahead_.first;
    images_ = ahead_.before;
  } else {
    at_ = view.next;
  }
  ahead_ = {};
  return true;
}

// Sets the transaction's triplet. False if it has none, or its domain has no number yet.
bool CdcReader::take_origin(const CommitFrame& commit, CdcReached* result) {
  switch (triplets_.make(commit, &origin_.gtid)) {
    case Triplets::Made::yes: return true;
    case Triplets::Made::no_gtid: result->why = CdcReached::Why::no_gtid; return false;
    case Triplets::Made::unknown:
      result->why = CdcReached::Why::domain;
      result->text = triplets_.unknown_source();
      return false;
  }
  return false;
}

// Processes the next frame of the open transaction.
bool CdcReader::step_within(CdcReached* result) {
  const FrameView view = journal_.frame(at_, true);
  scanned_ += view.next - at_;
  switch (view.kind()) {
    case FrameKind::rows:
      if (!add_rows(view, result)) return false;
      break;
    case FrameKind::commit: open_ = false; break;
    default: break;
  }
  at_ = view.next;
  return true;
}

bool CdcReader::add_rows(const FrameView& view, CdcReached* result) {
  const auto rows = parsed<RowsFrame>(view);
  const CdcTable* table = nullptr;
  if (!load_table(view, rows.table, &table)) return false;
  if (!table) {
    images_ += images_of(rows);
    return true;
  }
  const Definition& d = table->definition();
  if (!d.proven && !positional_)
    refuse("schema_unproven", view.position, "the names of the columns of " + d.name() + " cannot be proven",
           kUnproven);
  const bool agreed = rows.table == agreed_ || table->fields() == fields_;
  agreed_ = rows.table;
  if (!agreed) {
    fields_ = table->fields();
    packed_ = journal_.table(rows.table).definition.text();
    result->why = CdcReached::Why::schema;
    result->position = view.position;
    return false;
  }
  append_rows(view, rows, *table);
  return true;
}

void CdcReader::append_rows(const FrameView& view, const RowsFrame& rows, const CdcTable& table) {
  const Definition& d = table.definition();
  RowsBody body;
  if (!RowsBody::parse(rows.body, rows.kind, &body) || body.columns != d.columns.size())
    refuse("unsupported_column", view.position, "rows of " + d.name() + " do not fit its definition", kReport);
  if (!body.full)
    refuse("partial_image", view.position, "rows of " + d.name() + " do not hold all columns", kFullImages);
  const bool two = rows.kind == RowKind::update;
  const CdcImage kind = two                            ? CdcImage::update_before
                        : rows.kind == RowKind::remove ? CdcImage::remove
                                                       : CdcImage::insert;
  origin_.timestamp = rows.timestamp;
  const uint64_t images = images_of(rows);
  const size_t before = out_.size();
  const uint8_t* at = body.images.data;
  const Images sizes(d, body.before);  // all images have all columns
  std::string error;
  for (uint64_t i = 0; i < images; ++i) {
    const bool second = two && i % 2;
    const uint8_t* present = second ? body.after : body.before;
    const uint8_t* next = sizes.skip(at, body.images.end());
    const bool made = next && next != at &&
                      table.append(out_, origin_, images_ + i + 1, second ? CdcImage::update_after : kind, present,
                                   Bytes(at, static_cast<size_t>(next - at)), options_, &error);
    if (!made) {
      out_.p = out_.at(before);  // an event is sent completely or not at all
      if (error.empty()) cut_short(d, &error);
      refuse("unsupported_column", view.position, error, kReport);
    }
    at = next;
  }
  images_ += images;
  rows_ += images;
}

// Finds the table of the rows in `view`, which name the TABLE frame at `position`; nullptr if the rows are not wanted.
// False if the proof of its definition is pending.
bool CdcReader::load_table(const FrameView& view, uint64_t position, const CdcTable** table) {
  if (position != last_table_) {
    const uint32_t number = journal_.table_number(position);
    if (number == 0) return false;
    const CdcTable* found = nullptr;
    if (number == table_) {
      if (view.segment != segment_) {
        tables_.clear();
        last_table_ = 0;
      }
      segment_ = view.segment;
      std::unique_ptr<CdcTable>& known = tables_[position];
      if (!known) known = std::make_unique<CdcTable>(journal_.definition(position), form_, values_);
      found = known.get();
    }
    last_table_ = position;
    last_ = found;
  }
  *table = last_;
  return true;
}

}  // namespace relay
