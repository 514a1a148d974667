// Turns every row of a journal into the payload that a PollV2 reply would carry: decode DIRECTORY COMMITTED.
// Prints rows, bytes of payload and nanoseconds.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "journal/cursor.hpp"
#include "journal/journal.hpp"
#include "values/payload.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const uint64_t committed = std::strtoull(argv[2], nullptr, 10);
  relay::JournalReader journal(argv[1]);
  relay::RowCursor cursor;
  const relay::RenderOptions options;
  relay::Row row;
  relay::Output out;
  std::string error;
  uint64_t rows = 0, bytes = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t at = journal.first(); at < committed;) {
    const relay::FrameView frame = journal.frame(at);
    relay::RowsFrame body;
    if (frame.kind() == relay::FrameKind::rows && relay::RowsFrame::parse(frame.payload, &body)) {
      for (uint32_t i = 0; i < body.rows; i++) {
        if (!cursor.seek(journal, frame.position, i, &error) ||
            !cursor.read(relay::EventPosition::position, &row, &error) ||
            !relay::append_poll(out, 2, row, 0, options, &error)) {
          std::fprintf(stderr, "decode: %s\n", error.c_str());
          return 1;
        }
        cursor.advance();
        rows++;
      }
      if (out.size() > 1 << 18) {  // as much as a server would send at a time
        bytes += out.size();
        out.clear();
      }
    }
    at = frame.next;
  }
  bytes += out.size();
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(rows), static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(took.count()));
  return 0;
}
