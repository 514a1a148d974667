// Rows that this process encoded a moment ago. Another client that wants them gets a copy, with its own sequences and
// queue sizes. Not thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/output.hpp"
#include "queue/queue.hpp"
#include "values/rows.hpp"

namespace relay {

enum class RowFormat : uint8_t { text = 0, msgpack = 1, arrow = 2, extended = 3 };

// Numbers of a row that differ from client to client.
struct RowNumbers {
  uint64_t sequence = 0;
  uint64_t waiting = 0;  // rows that wait after this one
};

// Where a row comes from.
struct RowOrigin {
  uint64_t frame = 0;
  RowKind kind = RowKind::insert;
};

// A ring of bytes with the newest rows, and a table that finds them by frame. It uses memory only while it helps.
class RowCache {
 public:
  // Rows of one range, one behind the other. starts[count] is their end.
  struct Rows {
    const uint8_t* bytes = nullptr;
    const uint32_t* starts = nullptr;
    uint32_t count = 0;
    RowOrigin origin;  // of the first
    uint32_t sum = 0;  // of all their bytes but those of RowNumbers, modulo 2^32
  };

  // Whether a reply to this client should use the cache: several clients poll, and have had rows in common.
  bool use(uint32_t slot);
  // Finds at least `count` rows from range.first on. nullptr without them; else valid until the next `keep`.
  const Rows* find(RowFormat format, const Range& range, uint32_t count);
  // Keeps rows of a range. It keeps none that take too much of the ring.
  void keep(RowFormat format, const Range& range, const Rows& rows);

 private:
  static constexpr uint64_t kRing = 8 << 20, kLargest = kRing / 4;  // bytes
  static constexpr size_t kEntries = 1 << 14;                       // a power of two
  static constexpr uint32_t kAlone = 64;    // polls of one client in a row after which there is no other
  static constexpr uint32_t kTrial = 4096;  // ranges in which an eighth must be found, else the cache pauses
  static constexpr uint32_t kPause = 4096;  // polls

  static constexpr uint32_t kNobody = ~uint32_t{0};

  struct Entry {
    uint64_t frame = 0;
    uint64_t at = 0;  // its bytes: starts, then rows
    uint32_t first = 0;
    uint32_t count = 0;  // 0: an empty entry
    uint32_t into = 0;   // from `frame` to the frame of the first row, which is in the same block
    uint32_t sum = 0;    // as in Rows
    RowFormat format = RowFormat::text;
    RowKind kind = RowKind::insert;
  };

  static size_t place(const Range& range) { return (range.frame + range.first) * 0x9e3779b97f4a7c15 >> 50; }
  void release();

  std::unique_ptr<uint8_t[]> ring_;
  std::vector<Entry> entries_;
  uint64_t end_ = 0;  // bytes written so far; the last kRing of them exist
  Rows found_;
  uint32_t last_ = kNobody;  // who polled last
  uint32_t alone_ = 0;       // polls in a row by that client
  uint32_t pause_ = 0;
  uint32_t looks_ = 0;
  uint32_t hits_ = 0;
};

// The QueueSize of a reply.
inline uint32_t queue_size(uint64_t waiting) { return static_cast<uint32_t>(std::min<uint64_t>(waiting, UINT32_MAX)); }

// Puts the numbers of a client into rows of PollMany; `numbers` are those of the first.
void renumber(uint8_t* rows, const uint32_t* starts, uint64_t count, RowFormat format, RowNumbers numbers);
// The sum of the bytes that renumber() writes, modulo 2^32.
uint32_t numbers_sum(uint64_t count, RowFormat format, RowNumbers numbers);

}  // namespace relay
