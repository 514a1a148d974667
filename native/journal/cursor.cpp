// Finding and reading rows in frames.
#include "journal/cursor.hpp"

#include <utility>

#include "journal/runs.hpp"

namespace relay {

bool RowCursor::seek(JournalReader& journal, uint64_t run, uint32_t row, std::string* error) {
  if (run != run_ || row < row_) {
    run_ = kNone;
    frame_ = run;
    first_ = 0;
    definition_.reset();
    const FrameView view = journal.verified(run);
    if (!open(journal, view, parsed<RowsFrame>(view), error)) return false;
    run_ = run;
  }
  while (row - first_ >= rows_.rows)
    if (!open_next(journal, error)) return false;
  while (row_ < row) {
    if (!measure()) {
      *error = "row " + std::to_string(row_ - first_) + where() + " is malformed";
      reset();
      return false;
    }
    if (next_ == at_) row_ = row - 1;  // rows without bytes are all alike
    advance();
  }
  return true;
}

std::string RowCursor::where() const { return " at journal position " + std::to_string(frame_); }

// Goes to the first row of a frame, which is row first_ of its run. A run has one definition.
bool RowCursor::open(JournalReader& journal, const FrameView& view, const RowsFrame& rows, std::string* error) {
  frame_ = view.position;
  if (!definition_) definition_ = journal.definition(rows.table);
  if (!definition_ || !RowsBody::parse(rows.body, rows.kind, &body_) || body_.columns != definition_->columns.size()) {
    *error = "the rows" + where() + " do not fit their table definition";
    return false;
  }
  rows_ = rows;
  sizes_ = RowSizes(*definition_, body_);
  after_ = view.next;
  row_ = first_;
  at_ = body_.images.data;
  next_ = nullptr;
  return true;
}

// Goes to the first row of the run's next frame.
bool RowCursor::open_next(JournalReader& journal, std::string* error) {
  const uint64_t run = std::exchange(run_, kNone);  // until the frame is open
  for (uint64_t position = after_; in_one_block(run, position);) {
    const FrameView view = journal.verified(position);  // a damaged one must not look like another kind, and be passed
    position = view.next;
    if (view.kind() != FrameKind::rows) continue;
    const auto rows = parsed<RowsFrame>(view);
    if (rows.table != rows_.table) continue;
    first_ += rows_.rows;
    if (!open(journal, view, rows, error)) return false;
    run_ = run;
    return true;
  }
  *error = "the frame" + where() + " has " + std::to_string(rows_.rows) + " rows, and no frame of its run follows";
  return false;
}

bool RowCursor::measure() {
  if (next_) return true;
  const uint8_t* end = body_.images.end();
  if (!sizes_.measure(at_, end, &middle_, &next_)) return false;
  // A minimal image of nothing but defaults has no columns, and so no bytes.
  if (next_ == at_ && body_.images.size) next_ = nullptr;
  return next_ != nullptr;
}

bool RowCursor::read(EventPosition event_position, Row* row, std::string* error) {
  if (!measure()) {
    *error = "row " + std::to_string(row_ - first_) + where() + " is malformed";
    return false;
  }
  row->definition = definition_.get();
  row->kind = rows_.kind;
  row->before_present = body_.before;
  row->after_present = body_.after;
  row->before = Bytes(at_, static_cast<size_t>(middle_ - at_));
  row->after = body_.after ? Bytes(middle_, static_cast<size_t>(next_ - middle_)) : Bytes();
  switch (event_position) {
    case EventPosition::position: row->position = rows_.end_position; break;
    case EventPosition::timestamped: row->position = (uint64_t{rows_.timestamp} << 32) + rows_.end_position; break;
    case EventPosition::sequence: row->position = rows_.sequence + row_ - first_; break;
  }
  return true;
}

void RowCursor::advance() {
  at_ = next_;
  next_ = nullptr;
  ++row_;
}

}  // namespace relay
