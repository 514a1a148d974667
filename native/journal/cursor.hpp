// Reads rows one by one from a frame of the journal.
#pragma once

#include "journal/journal.hpp"
#include "values/payload.hpp"

namespace relay {

// The position of a row as clients see it: the end of its event in the binlog file; the same with the event's time in
// the upper half; or the number of the row in the journal.
enum class EventPosition : uint8_t { position, timestamped, sequence };

// A cursor on the rows of a run: a ROWS frame, and those of its table after it. It remembers its position, so that
// reading a run row by row takes linear time. Its frame must stay mapped: see `before`.
class RowCursor {
 public:
  // Goes to a row of the run that begins with the ROWS frame at `run`, which may be the current one. False, with the
  // reason in `error`, if there is no such row. Throws JournalError if the journal lacks a frame of it.
  bool seek(JournalReader& journal, uint64_t run, uint32_t row, std::string* error);
  // Reads the row. False, with the reason in `error`, if its images cannot be read.
  bool read(EventPosition event_position, Row* row, std::string* error);
  // The frame of the row, or the last one that was tried.
  uint64_t frame() const { return frame_; }
  // Whether the last row of the frame was passed: the next one needs a `seek`.
  bool at_end() const { return row_ == first_ + rows_.rows; }
  // The definition of the rows in the current frame.
  const std::shared_ptr<const Definition>& definition() const { return definition_; }
  RowKind kind() const { return rows_.kind; }
  // Goes to the next row, after a `read`.
  void advance();
  bool before(uint64_t position) const { return frame_ < position; }
  void reset() { run_ = kNone; }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  bool open(JournalReader& journal, const FrameView& view, const RowsFrame& rows, std::string* error);
  bool open_next(JournalReader& journal, std::string* error);
  bool measure();
  std::string where() const;

  uint64_t run_ = kNone;
  uint64_t frame_ = kNone;
  uint64_t after_ = 0;  // position of the frame after it
  uint32_t first_ = 0;  // of the run's rows, the first in the frame
  uint32_t row_ = 0;    // of the run's rows
  RowsFrame rows_;
  RowsBody body_;
  std::shared_ptr<const Definition> definition_;
  RowSizes sizes_;
  const uint8_t* at_ = nullptr;      // start of the row's first image
  const uint8_t* middle_ = nullptr;  // end of the first image
  const uint8_t* next_ = nullptr;    // end of the row; nullptr until measured
};

}  // namespace relay
