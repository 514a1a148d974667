// Reading of transactions, statements and gaps for the lake.
#include "formats/changes.hpp"

#include <algorithm>
#include <utility>

#include "base/failure.hpp"
#include "journal/segment.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

// Whether a transaction can begin with the frame.
bool begins(const FrameView& view) { return view.kind() == FrameKind::rows || view.kind() == FrameKind::ddl; }

constexpr const char* kLeaveOut = "leave the table out of the export, and report this with the table's definition";
constexpr const char* kFullImages =
    "set binlog_row_image = FULL on the source; what is in the journal can be left out of the export with its table";

}  // namespace

void ChangeReader::refuse(const char* code, uint64_t position, const std::string& cause, const char* hint) {
  throw StreamError(code, "read the journal's rows", position, cause, hint);
}

void SpareBatches::put(std::unique_ptr<ColumnBatch> batch) {
  const size_t bytes = batch->room();
  if (bytes > kBytes) return;
  const std::lock_guard<std::mutex> locked(mutex_);
  while (batches_.size() == kCount || bytes_ + bytes > kBytes) {
    bytes_ -= batches_.front()->room();
    batches_.erase(batches_.begin());
  }
  bytes_ += bytes;
  batches_.push_back(std::move(batch));
}

std::unique_ptr<ColumnBatch> SpareBatches::take(const Definition& definition) {
  const std::lock_guard<std::mutex> locked(mutex_);
  const auto found = std::find_if(batches_.rbegin(), batches_.rend(), [&](const std::unique_ptr<ColumnBatch>& batch) {
    return same_columns(batch->definition(), definition);
  });
  if (found == batches_.rend()) return nullptr;
  std::unique_ptr<ColumnBatch> batch = std::move(*found);
  batches_.erase(std::next(found).base());
  bytes_ -= batch->room();
  return batch;
}

ChangeReader::ChangeReader(std::string directory, uint64_t position, uint64_t base, Form form, bool choose)
    : journal_(std::move(directory)), base_(base), form_(form), choose_(choose) {
  uint64_t segment = position ? journal_.segment(position) : journal_.first();
  start_at(segment);
  bool within = false;
  while (at_ < position) {
    FrameView view = journal_.frame(at_);
    if (view.kind() != FrameKind::table) within = begins(view);
    Reached ignored;
    pass_over(view, &ignored);
  }
  if (position > segment && (within || at_ != position))
    throw JournalError("journal_lost",
                       "read journal: position " + std::to_string(position) + " is not between transactions");
  position_ = at_;
}

// Goes to the first transaction that begins in the segment, which may start with the rest of another one.
void ChangeReader::start_at(uint64_t segment) {
  FrameView view = journal_.frame(segment);
  SourceFrame source = parsed<SourceFrame>(view);
  Reached ignored;
  pass_over(view, &ignored);
  sequence_ = source.sequence;
  if (journal_.torn(segment, journal_.flushed(), &view)) finish(parsed<CommitFrame>(view), view.next);
}

// The next frame. A transaction's first and last are read and verified once, when its end is looked for.
const FrameView& ChangeReader::here() {
  if (here_.position != at_) here_ = at_ == end_.position ? end_ : journal_.frame(at_, true);
  return here_;
}

Reached ChangeReader::read(uint64_t until, uint64_t max_bytes, uint64_t max_within) {
  Reached result;
  scanned_ = 0;
  for (;;) {
    const bool full = rows_ > 0 && bytes_ >= (open_ ? max_within : max_bytes);
    if (!pending_.table && scanned_enough()) return reached(Reached::Why::more);
    if (pending_.table) {
      if (full || !collect(max_within)) return reached(Reached::Why::full);
    } else if (open_) {
      const FrameView& view = here();
      const bool ends = view.kind() == FrameKind::commit;
      if (ends && !statements_.empty()) {
        result = std::move(statements_.front());
        statements_.pop_front();
        if (statements_.empty()) pass_within(view);
        return result;
      }
      if (full && !ends) return reached(Reached::Why::full);
      scanned_ += view.next - view.position;
      pass_within(view);
    } else if (at_ >= until) {
      position_ = at_;  // also after a definition that was proven last
      return reached(Reached::Why::end);
    } else if (full) {
      return reached(Reached::Why::full);
    } else {
      const FrameView& view = here();
      const bool transaction = begins(view) || view.kind() == FrameKind::commit;
      if (transaction ? !look_ahead(until, &result) : pass_over(view, &result)) return result;
    }
  }
}

// Handles a frame between transactions. True if it must be reported.
bool ChangeReader::pass_over(const FrameView& view, Reached* result) {
  switch (view.kind()) {
    case FrameKind::source: {
      auto source = parsed<SourceFrame>(view);
      bool other = !identity_.empty() && identity_ != source.identity;
      forget_before(view.position);
      file_ = source.file;
      offset_ = source.position;
      identity_ = source.identity;
      position_ = at_ = view.next;
      if (other) *result = reached(Reached::Why::source, identity_);
      return other;
    }
    case FrameKind::file: {
      auto rotated = parsed<FileFrame>(view);
      file_ = rotated.file;
      offset_ = rotated.position;
      position_ = at_ = view.next;
      return false;
    }
    case FrameKind::gap: {
      auto gap = parsed<GapFrame>(view);
      file_ = gap.file;
      offset_ = gap.position;
      position_ = at_ = view.next;
      *result = reached(Reached::Why::gap, std::string(gap.reason));
      return true;
    }
    case FrameKind::commit: finish(parsed<CommitFrame>(view), view.next); return false;
    case FrameKind::table:
      if (position_ == at_) position_ = view.next;  // a definition that was proven after its rows were committed
      at_ = view.next;
      return false;
    default: at_ = view.next; return false;
  }
}

void ChangeReader::pass_within(const FrameView& view) {
  switch (view.kind()) {
    case FrameKind::commit: finish(commit_, view.next); return;
    case FrameKind::rows: begin_rows(view); break;
    case FrameKind::ddl: {
      auto ddl = parsed<DdlFrame>(view);
      ++sequence_;
      statements_.push_back({Reached::Why::ddl, seq(), ddl.timestamp, std::string(ddl.schema),
                             std::string(ddl.statement), std::string(ddl.dialect.text()),
                             std::string(ddl.tables.text()), view.position});
      break;
    }
    case FrameKind::source: forget_before(view.position); break;
    default: break;
  }
  at_ = view.next;
}

// Forgets tables of earlier segments, which no later rows name.
void ChangeReader::forget_before(uint64_t position) {
  tables_.erase(tables_.begin(), tables_.lower_bound(journal_.segment(position)));
  last_table_ = 0;
}

void ChangeReader::finish(const CommitFrame& commit, uint64_t next) {
  offset_ = commit.position;
  gtid_ = commit.gtid;
  timestamp_ = commit.timestamp;
  sequence_ = commit.sequence;
  position_ = at_ = next;
  open_ = false;
  journal_.release_before(position_);
}

// Finds the end of the transaction that begins here, which has the origin of its rows, and opens it. False, with the
// reason, if it does not end before `until`, if the proof of a definition is pending, or if a table has to be decided.
bool ChangeReader::look_ahead(uint64_t until, Reached* result) {
  if (!ahead_.at) {
    ahead_ = {at_, sequence_};
    ++search_;
  }
  while (ahead_.at < until) {
    if (scanned_enough()) {
      *result = reached(Reached::Why::more);
      return false;
    }
    const FrameView view = ahead_.at == at_ ? here() : journal_.frame(ahead_.at);
    if (view.kind() == FrameKind::rows) {
      auto rows = parsed<RowsFrame>(view);
      if (!load_table(rows.table, result)) return false;
      if (std::exchange(last_->search, search_) != search_) last_->ahead = 0;
      last_->ahead += rows.rows;
      ahead_.next += rows.rows;
    } else if (view.kind() == FrameKind::ddl) {
      ++ahead_.next;
    } else if (view.kind() == FrameKind::commit) {
      open(journal_.frame(view.position, true));
      return true;
    }
    scanned_ += view.next - ahead_.at;
    ahead_.at = view.next;
  }
  ahead_ = {};
  *result = reached(Reached::Why::end);
  return false;
}

void ChangeReader::open(const FrameView& view) {
  end_ = view;
  commit_ = parsed<CommitFrame>(view);
  if (commit_.sequence != ahead_.next) throw_corrupt(view, "counts other changes than its transaction has");
  ahead_ = {};
  origin_ = {base_ + commit_.sequence - 1, commit_.timestamp, file_, commit_.gtid};
  open_ = true;
}

// Loads the table of a TABLE frame.
bool ChangeReader::load_table(uint64_t position, Reached* result) {
  if (position == last_table_) return true;
  if (const auto known = tables_.find(position); known != tables_.end()) {
    last_table_ = position;
    last_ = &known->second;
    return true;
  }
  TableFrame frame = journal_.table(position);
  if (frame.link) {
    *result = reached(Reached::Why::end);
    return false;
  }
  std::shared_ptr<const Definition> definition = journal_.definition(position);
  auto decided = wanted_.find({definition->schema, definition->table});
  if (choose_ && decided == wanted_.end()) {
    undecided_ = {definition->schema, definition->table};
    *result = reached(Reached::Why::table, definition->table);
    result->schema = definition->schema;
    return false;
  }
  Table table;
  table.definition = std::move(definition);
  table.packed = frame.definition.text();
  table.wanted = !choose_ || decided->second;
  last_table_ = position;
  last_ = &tables_.emplace(position, std::move(table)).first->second;
  return true;
}

bool ChangeReader::scanned_enough() const { return scanned_ >= kMostScanned; }

void ChangeReader::decide(bool wanted) { wanted_[undecided_] = wanted; }

void ChangeReader::begin_rows(const FrameView& view) {
  auto rows = parsed<RowsFrame>(view);
  const auto found = tables_.find(rows.table);
  if (found == tables_.end()) throw_corrupt(view, "has changed since the end of its transaction was found");
  Table& table = found->second;
  if (!table.wanted) {
    sequence_ += rows.rows;
    return;
  }
  RowsBody body;
  const Definition& d = *table.definition;
  if (!RowsBody::parse(rows.body, rows.kind, &body) || body.columns != d.columns.size())
    refuse("unsupported_column", view.position, "rows of " + d.name() + " do not fit its definition", kLeaveOut);
  if (!body.full)
    refuse("partial_image", view.position, "rows of " + d.name() + " do not hold all columns", kFullImages);
  pending_ = {view.position, rows, body, &table, body.images.data, 0};
}

// Adds rows of the frame. False if there are more and no room for them.
bool ChangeReader::collect(uint64_t most_bytes) {
  Pending& p = pending_;
  const Definition& d = *p.table->definition;
  const uint8_t* end = p.body.images.end();
  ChangeBatch& batch = batch_of(*p.table);
  ColumnBatch& columns = *batch.columns;
  Row row;
  row.definition = &d;
  row.kind = p.frame.kind;
  row.before_present = p.body.before;
  row.after_present = p.body.after;
  row.position = p.frame.end_position;
  std::string error;
  size_t bytes = columns.stream_bytes();
  columns.begin(origin_);
  columns.expect(p.table->ahead * (p.frame.kind == RowKind::update ? 2 : 1), most_bytes);
  const RowSizes sizes(d, p.body);
  while (p.row < p.frame.rows) {
    const uint8_t *middle, *next;
    if (!sizes.measure(p.at, end, &middle, &next) || next == p.at)
      refuse("unsupported_column", p.position, "a row of " + d.name() + " is cut short", kLeaveOut);
    row.before = Bytes(p.at, static_cast<size_t>(middle - p.at));
    row.after = Bytes(middle, static_cast<size_t>(next - middle));
    ColumnBatch::Added added = columns.add(row, base_ + sequence_, &error);
    if (added == ColumnBatch::Added::full && columns.rows() > 0) return false;
    if (added != ColumnBatch::Added::yes) refuse("unsupported_column", p.position, error, kLeaveOut);
    if (batch.first == 0) batch.first = base_ + sequence_;
    batch.last = base_ + sequence_;
    bytes_ += columns.stream_bytes() - bytes;
    bytes = columns.stream_bytes();
    p.at = next;
    ++p.row;
    ++sequence_;
    ++rows_;
    if (bytes_ >= most_bytes && p.row < p.frame.rows) return false;
  }
  p.table->ahead -= p.frame.rows;
  p.table = nullptr;
  return true;
}

ChangeBatch& ChangeReader::batch_of(Table& table) {
  const int64_t day = day_of(origin_.timestamp);
  if (table.taken == taken_ && table.day == day) return batches_[table.batch];
  size_t i = 0;
  while (i < batches_.size() &&
         (batches_[i].day != day || !same_columns(batches_[i].columns->definition(), *table.definition)))
    ++i;
  if (i == batches_.size()) {
    batches_.push_back({made_batch(table.definition), table.packed, day, 0, 0});
    bytes_ += batches_.back().columns->stream_bytes();
  }
  table.batch = i;
  table.day = day;
  table.taken = taken_;
  return batches_[i];
}

std::shared_ptr<ColumnBatch> ChangeReader::made_batch(const std::shared_ptr<const Definition>& definition) {
  auto made = std::make_unique<ColumnBatch>(definition, form_);
  if (auto spare = spares_->take(*definition)) made->take_memory(spare.get());
  const auto released = [spares = spares_](ColumnBatch* batch) { spares->put(std::unique_ptr<ColumnBatch>(batch)); };
  return {made.release(), released};
}

std::vector<ChangeBatch> ChangeReader::take() {
  std::vector<ChangeBatch> taken;
  for (ChangeBatch& batch : batches_)
    if (batch.first) taken.push_back(std::move(batch));
  batches_.clear();
  ++taken_;
  bytes_ = rows_ = 0;
  return taken;
}

Reached ChangeReader::reached(Reached::Why why, std::string text) const {
  return {why, seq(), timestamp_, "", std::move(text), {}, {}, 0};
}

}  // namespace relay
