#include "lines.hpp"

#include <algorithm>

#include "failure.hpp"

namespace relay {

namespace {

constexpr int64_t kDay = 86400;
constexpr uint64_t kMostScanned = 64 << 20;
constexpr const char* kExclude = "leave the table out with Excludes in [Logger], and report this with its definition";
constexpr const char* kUnproven =
    "set binlog_row_metadata = FULL on the source, set `OnUnproven = positional` in [Relay], or leave the table out with"
    " Excludes in [Logger]";

[[noreturn]] void refuse(const char* code, uint64_t position, const std::string& cause, const char* hint) {
  throw StreamError(code, "log the journal's rows", "journal position " + std::to_string(position), cause, hint);
}

std::string name_of(const Definition& d) { return d.schema + "." + d.table; }

int64_t day_of(int64_t second) { return (second - (second % kDay + kDay) % kDay) / kDay; }

}  // namespace

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
  LinesReached told;
  const uint64_t began = at_;
  while (at_ < until) {
    if (lines_.size() > 0 && lines_.size() >= max_bytes) {
      told.why = LinesReached::Why::full;
      return told;
    }
    if (at_ - began >= kMostScanned) {
      told.why = LinesReached::Why::more;
      return told;
    }
    const FrameView view = journal_.frame(at_, true);
    if (view.kind() == FrameKind::gap && lines_.size() > 0) {
      told.why = LinesReached::Why::full;  // the lines before a gap are apart from it
      return told;
    }
    if (view.kind() == FrameKind::rows && !log_rows(view, day, latest, &told)) return told;
    pass(view);
    if (view.kind() == FrameKind::gap) {
      told.why = LinesReached::Why::gap;
      told.text = parsed<GapFrame>(view).reason;
      return told;
    }
  }
  return told;
}

// Takes note of where the frame leads to.
void LineReader::pass(const FrameView& view) {
  switch (view.kind()) {
    case FrameKind::source: {
      const auto source = parsed<SourceFrame>(view);
      file_ = source.file;
      offset_ = source.position;
      tables_.clear();  // rows name a TABLE frame of their own segment
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
    case FrameKind::table:
      break;
  }
  at_ = view.next;
}

// False, with the reason, if the event cannot be logged yet.
bool LineReader::log_rows(const FrameView& view, int64_t day, int64_t latest, LinesReached* told) {
  const auto rows = parsed<RowsFrame>(view);
  if (!meet(rows.table, told)) return false;
  const Table& table = tables_.at(rows.table);
  if (table.lines) {
    if (rows.timestamp < zone_from_ || rows.timestamp >= zone_until_) {
      told->why = LinesReached::Why::offset;
      told->timestamp = rows.timestamp;
      return false;
    }
    const int64_t of_event = std::min(day_of(int64_t{rows.timestamp} + zone_), latest);
    if (of_event > day) {
      told->why = LinesReached::Why::day;
      told->day = of_event;
      return false;
    }
    append_rows(view, rows, *table.lines);
  }
  return true;
}

void LineReader::append_rows(const FrameView& view, const RowsFrame& rows, const LineTable& table) {
  const Definition& d = table.definition();
  if (!d.proven && !positional_)
    refuse("schema_unproven", view.position, "the names of the columns of " + name_of(d) + " cannot be proven",
           kUnproven);
  RowsBody body;
  if (!RowsBody::parse(rows.body, rows.kind, &body) || body.columns != d.columns.size())
    refuse("unsupported_column", view.position, "rows of " + name_of(d) + " do not fit its definition", kExclude);
  if (form_ == LineForm::json && !gtid_known_) {
    gtid_ = gtid_at(view.next);
    gtid_known_ = true;
  }
  const std::string head = table.head(rows.kind, {rows.timestamp, zone_, file_, rows.end_position, gtid_});
  Row row;
  row.definition = &d;
  row.kind = rows.kind;
  row.before_present = body.before;
  row.after_present = body.after;
  const size_t before = lines_.size();
  const uint8_t* at = body.images.data;
  for (uint32_t i = 0; i < rows.rows; ++i) {
    const uint8_t* middle = skip_image(d, row.before_present, at, body.images.end());
    const uint8_t* next = middle && body.after ? skip_image(d, row.after_present, middle, body.images.end()) : middle;
    std::string error = "a row of " + name_of(d) + " is cut short";
    bool made = next && next != at;
    if (made) {
      row.before = Bytes(at, static_cast<size_t>(middle - at));
      row.after = Bytes(middle, static_cast<size_t>(next - middle));
      made = table.append(lines_, row, head, options_, &error);
    }
    if (!made) {
      lines_.p = lines_.at(before);  // an event is logged whole or not at all
      refuse("unsupported_column", view.position, error, kExclude);
    }
    at = next;
  }
  count_ += rows.rows;
}

// Of the transaction that goes on at `position`: it stands at its end.
std::string LineReader::gtid_at(uint64_t position) {
  for (;;) {
    const FrameView view = journal_.frame(position);
    if (view.kind() == FrameKind::commit) return std::string(parsed<CommitFrame>(view).gtid);
    position = view.next;
  }
}

// Makes the table of a TABLE frame known. False if it has to be decided first whether its rows are wanted.
bool LineReader::meet(uint64_t position, LinesReached* told) {
  if (tables_.count(position)) return true;
  if (journal_.table(position).link) return false;  // it waits for its proof
  std::shared_ptr<const Definition> definition = journal_.definition(position);
  asked_ = {definition->schema, definition->table};
  const auto decided = wanted_.find(asked_);
  if (decided == wanted_.end()) {
    told->why = LinesReached::Why::table;
    told->schema = asked_.first;
    told->text = asked_.second;
    return false;
  }
  Table table;
  if (decided->second) table.lines = std::make_unique<LineTable>(std::move(definition), form_);
  tables_.emplace(position, std::move(table));
  return true;
}

void LineReader::decide(bool wanted) { wanted_[asked_] = wanted; }

void LineReader::set_offset(int32_t offset, int64_t from, int64_t until) {
  zone_ = offset;
  zone_from_ = from;
  zone_until_ = until;
}

}  // namespace relay
