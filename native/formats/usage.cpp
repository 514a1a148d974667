// Counting of rows.
#include "formats/usage.hpp"

#include <utility>

namespace relay {

namespace {

constexpr uint32_t kMinute = 60;

// Index in Tally::rows.
size_t column_of(RowKind kind) { return kind == RowKind::insert ? 0 : kind == RowKind::update ? 1 : 2; }

}  // namespace

UsageReader::UsageReader(std::string directory, uint64_t position, uint64_t number)
    : journal_(std::move(directory)), position_(position ? position : journal_.first()), number_(number) {}

bool UsageReader::read(uint64_t until, uint64_t max_bytes) {
  const uint64_t begin = position_;
  // Does not stop between a statement and the frame that gives its number: a reader that begins there would count it as
  // missed.
  while (position_ < until && (position_ - begin < max_bytes || statements_)) {
    const FrameView view = journal_.frame(position_);
    pass(view);
    position_ = view.next;
  }
  journal_.release_before(position_);
  return position_ >= until;
}

void UsageReader::pass(const FrameView& view) {
  switch (view.kind()) {
    case FrameKind::rows: {
      const auto rows = parsed<RowsFrame>(view);
      advance_to(rows.sequence);
      const uint64_t end = rows.sequence + rows.rows;
      if (end <= number_) return;
      count(rows, end - number_);
      number_ = end;
      return;
    }
    case FrameKind::commit: advance_to(parsed<CommitFrame>(view).sequence); return;
    case FrameKind::ddl: ++statements_; return;
    case FrameKind::source: forget_before(view.position); return;
    default: return;
  }
}

// The next change has this number: those in between are gone, except for statements that were read.
void UsageReader::advance_to(uint64_t number) {
  if (number_ && number > number_ + statements_) missed_ += number - number_ - statements_;
  statements_ = 0;
  number_ = std::max(number_, number);
}

void UsageReader::count(const RowsFrame& rows, uint64_t fresh) {
  Entry& entry = entry_of(rows.table);
  const uint32_t minute = rows.timestamp / kMinute;
  if (entry.taken != taken_ || entry.minute != minute) {
    const auto [found, added] = indices_.try_emplace(uint64_t{entry.table} << 32 | minute, tallies_.size());
    if (added) {
      Tally tally;
      tally.table = entry.table;
      tally.minute = minute;
      tallies_.push_back(tally);
    }
    entry.taken = taken_;
    entry.minute = minute;
    entry.tally = found->second;
  }
  Tally& tally = tallies_[entry.tally];
  tally.rows[column_of(rows.kind)] += fresh;
  if (!entry.proven) tally.unproven += fresh;
  tally.last = rows.timestamp;
}

UsageReader::Entry& UsageReader::entry_of(uint64_t table) {
  auto& [frame, entry] = recent_[table / 8 % recent_.size()];
  if (!entry || frame != table) {
    auto known = entries_.find(table);
    if (known == entries_.end()) known = entries_.emplace(table, load_table(table)).first;
    frame = table;
    entry = &known->second;
  }
  return *entry;
}

// Reads only the names, so that rows which cannot be decoded here are counted too.
UsageReader::Entry UsageReader::load_table(uint64_t table) {
  const TableFrame frame = journal_.table(table);
  const auto name = journal_.table_name(table);
  const auto found = tables_.try_emplace(name, static_cast<uint32_t>(tables_.size())).first;
  definitions_.push_back({found->second, name.first, name.second, std::string(frame.definition.text())});
  Entry entry;
  entry.table = found->second;
  entry.proven = Definition::proven_in(frame.definition);
  return entry;
}

// Forgets TABLE frames of earlier segments, which no later rows name.
void UsageReader::forget_before(uint64_t position) {
  const uint64_t first = journal_.segment(position);
  for (auto each = entries_.begin(); each != entries_.end();) {
    each = each->first < first ? entries_.erase(each) : std::next(each);
  }
  recent_.fill({});
}

std::vector<Tally> UsageReader::take() {
  indices_.clear();
  ++taken_;
  return std::exchange(tallies_, {});
}

std::vector<TableDefinition> UsageReader::definitions() { return std::exchange(definitions_, {}); }

}  // namespace relay
