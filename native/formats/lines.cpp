// Reading of the journal for the log.
#include "formats/lines.hpp"

#include <algorithm>

#include "base/failure.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

constexpr const char* kExclude = "leave the table out with Excludes in [Logger], and report this with its definition";
constexpr const char* kUnproven =
    "set binlog_row_metadata = FULL on the source, set `OnUnproven = positional` in [Relay], or leave the table out with"
    " Excludes in [Logger]";

}  // namespace

void LineReader::refuse(const char* code, uint64_t position, const std::string& cause, const char* hint) {
  throw StreamError(code, "log the journal's rows", position, cause, hint);
}

LineReader::LineReader(std::string directory, uint64_t position, LineForm form, RenderOptions options, bool positional)
    : journal_(std::move(directory)), form_(form), options_(std::move(options)), positional_(positional) {
  const uint64_t segment = position ? journal_.segment(position) : journal_.first();
  at_ = segment;
  do pass(journal_.frame(at_));
  while (at_ < position);
  if (position > segment && at_ != position)
    throw JournalError("journal_lost", "read journal: no frame begins at position " + std::to_string(position));
}

LinesReached LineReader::read(uint64_t until, uint64_t max_bytes, int64_t day, int64_t latest) {
  LinesReached result;
  const uint64_t began = at_;
  until_ = until;
  while (at_ < until) {
    if (lines_.size() > 0 && lines_.size() >= max_bytes) {
      result.why = LinesReached::Why::full;
      return result;
    }
    if (at_ - began >= kMostScanned) {
      result.why = LinesReached::Why::more;
      return result;
    }
    const FrameView view = journal_.frame(at_, true);
    if (view.kind() == FrameKind::gap && lines_.size() > 0) {
      result.why = LinesReached::Why::full;  // lines before a gap are reported separately
      return result;
    }
    if (view.kind() == FrameKind::rows && !log_rows(view, day, latest, &result)) return result;
    pass(view);
    if (view.kind() == FrameKind::gap) {
      result.why = LinesReached::Why::gap;
      result.text = parsed<GapFrame>(view).reason;
      return result;
    }
  }
  return result;
}

// Follows a frame without rows.
void LineReader::pass(const FrameView& view) {
  switch (view.kind()) {
    case FrameKind::source: {
      const auto source = parsed<SourceFrame>(view);
      file_ = source.file;
      offset_ = source.position;
      tables_.clear();  // no later rows name a TABLE frame of an earlier segment
      break;
    }
    case FrameKind::file: {
      const auto rotated = parsed<FileFrame>(view);
      file_ = rotated.file;
      offset_ = rotated.position;
      break;
    }
    case FrameKind::gap: {
      const auto gap = parsed<GapFrame>(view);
      file_ = gap.file;
      offset_ = gap.position;
      break;
    }
    case FrameKind::rows: {
      const auto rows = parsed<RowsFrame>(view);
      offset_ = rows.end_position;
      timestamp_ = rows.timestamp;
      sequence_ = rows.sequence + rows.rows;
      break;
    }
    case FrameKind::ddl:
      if (sequence_) ++sequence_;
      break;
    case FrameKind::commit: {
      const auto commit = parsed<CommitFrame>(view);
      offset_ = commit.position;
      timestamp_ = commit.timestamp;
      sequence_ = commit.sequence;
      gtid_known_ = false;
      journal_.release_before(view.next);
      break;
    }
    case FrameKind::table: break;
  }
  at_ = view.next;
}

// False, with the reason, if the event cannot be logged yet.
bool LineReader::log_rows(const FrameView& view, int64_t day, int64_t latest, LinesReached* result) {
  const auto rows = parsed<RowsFrame>(view);
  const Table* table = load_table(rows.table, result);
  if (!table) return false;
  if (table->lines) {
    if (rows.timestamp < zone_from_ || rows.timestamp >= zone_until_) {
      result->why = LinesReached::Why::offset;
      result->timestamp = rows.timestamp;
      return false;
    }
    const int64_t of_event = std::min(day_of(int64_t{rows.timestamp} + zone_), latest);
    if (of_event > day) {
      result->why = LinesReached::Why::day;
      result->day = of_event;
      return false;
    }
    append_rows(view, rows, *table->lines);
  }
  return true;
}

void LineReader::append_rows(const FrameView& view, const RowsFrame& rows, const LineTable& table) {
  const Definition& d = table.definition();
  if (!d.proven && !positional_)
    refuse("schema_unproven", view.position, "the names of the columns of " + d.name() + " cannot be proven",
           kUnproven);
  RowsBody body;
  if (!RowsBody::parse(rows.body, rows.kind, &body) || body.columns != d.columns.size())
    refuse("unsupported_column", view.position, "rows of " + d.name() + " do not fit its definition", kExclude);
  if (form_ == LineForm::json && !gtid_known_) {
    gtid_ = gtid_after(view);
    gtid_known_ = true;
  }
  const std::string head = table.head(rows.kind, {rows.timestamp, zone_, file_, rows.end_position, gtid_});
  Row row;
  row.definition = &d;
  row.kind = rows.kind;
  row.before_present = body.before;
  row.after_present = body.after;
  const size_t before = lines_.size();
  const RowSizes sizes(d, body);
  const uint8_t* at = body.images.data;
  std::string error;
  for (uint32_t i = 0; i < rows.rows; ++i) {
    const uint8_t *middle, *next;
    bool made = sizes.measure(at, body.images.end(), &middle, &next);
    made = made && (next != at || (rows.rows == 1 && !body.images.size));  // or a row of nothing but defaults
    if (made) {
      row.before = Bytes(at, static_cast<size_t>(middle - at));
      row.after = Bytes(middle, static_cast<size_t>(next - middle));
      made = table.append(lines_, row, head, options_, &error);
    }
    if (!made) {
      lines_.p = lines_.at(before);  // an event is logged completely or not at all
      if (error.empty()) cut_short(d, &error);
      refuse("unsupported_column", view.position, error, kExclude);
    }
    at = next;
  }
  count_ += rows.rows;
}

// Reads the GTID at the end of the transaction with these rows.
std::string LineReader::gtid_after(const FrameView& rows) {
  for (uint64_t at = rows.next; at < until_;) {
    const FrameView view = journal_.frame(at);
    if (view.kind() == FrameKind::commit) return std::string(parsed<CommitFrame>(view).gtid);
    at = view.next;
  }
  throw_corrupt(rows, "has rows of a transaction without an end");
}

// Finds the table of a TABLE frame. nullptr if the caller must first decide whether its rows are wanted.
const LineReader::Table* LineReader::load_table(uint64_t position, LinesReached* result) {
  if (const auto known = tables_.find(position); known != tables_.end()) return &known->second;
  if (journal_.table(position).link) return nullptr;  // its proof is pending
  std::shared_ptr<const Definition> definition = journal_.definition(position);
  undecided_ = {definition->schema, definition->table};
  const auto decided = wanted_.find(undecided_);
  if (decided == wanted_.end()) {
    result->why = LinesReached::Why::table;
    result->schema = undecided_.first;
    result->text = undecided_.second;
    return nullptr;
  }
  Table table;
  if (decided->second) table.lines = std::make_unique<LineTable>(std::move(definition), form_);
  return &tables_.emplace(position, std::move(table)).first->second;
}

void LineReader::decide(bool wanted) { wanted_[undecided_] = wanted; }

void LineReader::set_offset(int32_t offset, int64_t from, int64_t until) {
  zone_ = offset;
  zone_from_ = from;
  zone_until_ = until;
}

}  // namespace relay
