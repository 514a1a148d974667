// Finding and reading rows in frames.
#include "journal/cursor.hpp"

namespace relay {

bool RowCursor::seek(JournalReader& journal, uint64_t frame, uint32_t row, std::string* error) {
  if (frame != frame_ || row < row_) {
    frame_ = kNone;
    rows_ = parsed<RowsFrame>(journal.verified(frame));
    definition_ = journal.definition(rows_.table);
    if (!definition_ || !RowsBody::parse(rows_.body, rows_.kind, &body_) ||
        body_.columns != definition_->columns.size()) {
      *error = "the rows at journal position " + std::to_string(frame) + " do not fit their table definition";
      return false;
    }
    sizes_ = RowSizes(*definition_, body_);
    frame_ = frame;
    row_ = 0;
    at_ = body_.images.data;
    next_ = nullptr;
  }
  while (row_ < row) {
    if (!measure()) {
      *error = "row " + std::to_string(row_) + " at journal position " + std::to_string(frame) + " is malformed";
      reset();
      return false;
    }
    if (next_ == at_) row_ = row - 1;  // rows without bytes are all alike
    advance();
  }
  return true;
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
    *error = "row " + std::to_string(row_) + " at journal position " + std::to_string(frame_) + " is malformed";
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
    case EventPosition::sequence: row->position = rows_.sequence + row_; break;
  }
  return true;
}

void RowCursor::advance() {
  at_ = next_;
  next_ = nullptr;
  ++row_;
}

}  // namespace relay
