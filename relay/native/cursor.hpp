// Row after row out of a frame of the journal.
#pragma once

#include "journal.hpp"
#include "payload.hpp"

namespace relay {

// What a client sees as the position of a row: the end of its event in the binlog file; that with the time of the event in
// the upper half; or the number of the row in the journal.
enum class EventPosition : uint8_t { position, timestamped, sequence };

// Remembers where it is, so that reading an event row by row is linear. Its frame must not be unmapped: see `before`.
class RowCursor {
 public:
  // Goes to a row of the rows frame at `frame`, which may be the one where it is. False, with the reason in `error`, if there
  // is none. Throws JournalError if the journal has no such frame.
  bool seek(JournalReader& journal, uint64_t frame, uint32_t row, std::string* error);
  // The row; false, with the reason in `error`, if its images cannot be read.
  bool read(EventPosition event_position, Row* row, std::string* error);
  // Of the rows in the frame where it is.
  const std::shared_ptr<const Definition>& definition() const { return definition_; }
  RowKind kind() const { return rows_.kind; }
  // To the next row, after a `read`.
  void advance();
  bool before(uint64_t position) const { return frame_ < position; }
  void reset() { frame_ = kNone; }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  bool measure();

  uint64_t frame_ = kNone;
  uint32_t row_ = 0;
  RowsFrame rows_;
  RowsBody body_;
  std::shared_ptr<const Definition> definition_;
  const uint8_t* at_ = nullptr;      // the row's first image,
  const uint8_t* middle_ = nullptr;  // its end,
  const uint8_t* next_ = nullptr;    // and the end of the row; nullptr until measured
};

}  // namespace relay
