// The last replies with rows that a client got, for monitoring.
#pragma once

#include "base/words.hpp"

namespace relay {

// A reply with rows.
struct Delivery {
  uint64_t at = 0;     // monotonic clock, ns
  uint64_t frame = 0;  // journal position of the ROWS frame of its first row
  uint32_t kind = 0;   // RowKind of that row
  uint32_t rows = 0;
};

// A ring of deliveries, written by the server that owns the client. An entry is written before it is counted. A reader
// copies entries, then checks whether the count has since advanced so far that they may have been overwritten.
class Deliveries {
 public:
  static constexpr size_t kShown = 10;

  void add(const Delivery& d, int site = __builtin_LINE()) {
    const uint64_t n = count_.relaxed();
    fence(std::memory_order_release);  // an entry is overwritten after the count has passed it
    Entry& entry = ring_[n % kSlots];
    entry.at.put(d.at, site);
    entry.frame.put(d.frame, site);
    entry.what.put(uint64_t{d.rows} << 32 | d.kind, site);
    count_.set(n + 1, site);
  }

  // Copies the last kShown of them to `out`, oldest first; returns their number.
  size_t last(Delivery* out) const {
    for (;;) {
      const uint64_t end = count_.get();
      const uint64_t begin = end > kShown ? end - kShown : 0;
      for (uint64_t i = begin; i < end; ++i) {
        const Entry& entry = ring_[i % kSlots];
        const uint64_t what = entry.what.relaxed();
        out[i - begin] = {entry.at.relaxed(), entry.frame.relaxed(), static_cast<uint32_t>(what),
                          static_cast<uint32_t>(what >> 32)};
      }
      fence(std::memory_order_acquire);
      // While the count is n, entry n is being written, in the slot of entry n - kSlots.
      if (count_.relaxed() < begin + kSlots) return end - begin;
    }
  }

  // For a client without an owner.
  void clear() { count_.put(0); }

 private:
  static constexpr size_t kSlots = 16;  // more than are shown, so that a writer seldom overtakes a reader
  struct Entry {
    Word at;
    Word frame;
    Word what;  // kind, and the number of rows above it
  };

  Word count_;
  Entry ring_[kSlots];
};

}  // namespace relay
