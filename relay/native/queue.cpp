#include "queue.hpp"

#include <algorithm>

namespace relay {

namespace {

// Each retry is one more publish of the broker during a copy of nanoseconds: this many mean damage.
constexpr int kAttempts = 100000;

}  // namespace

Peek QueueServer::peek(Range* out, size_t max_ranges, uint64_t max_rows) const {
  const ServerRecord s = block_.server.read();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    uint64_t version = 0;
    const BrokerRecord b = block_.broker.read(&version);
    Peek p;
    p.number = std::max(s.hi, b.floor());
    p.queued = b.queued;
    p.passed = FloorDrops::between(s.hi, b);
    const Slot* ring = arena_.ring(b.ring_offset);
    uint64_t index = find_slot(ring, b, s.hint, p.number);
    p.hint = index;
    SlotCopy slot;
    while (index < b.tail && p.ranges < max_ranges && p.rows < max_rows) {
      uint64_t at = p.number + p.rows;
      if (!slot.load(ring, b.ring_slots, index) || slot.number > at || slot.end() <= at) break;
      uint64_t skipped = at - slot.number;
      uint64_t rows = std::min(slot.end() - at, max_rows - p.rows);
      out[p.ranges].frame = slot.frame;
      out[p.ranges].first = Slot::first_of(slot.span) + static_cast<uint32_t>(skipped);
      out[p.ranges].rows = static_cast<uint32_t>(rows);
      ++p.ranges;
      p.rows += rows;
      ++index;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (block_.broker.version() == version) {
      if (p.rows || index == b.tail || !max_ranges || !max_rows) return p;
      break;  // nothing moved, and yet a published slot is not there
    }
    // Slots that kept their tags are right whatever was published since, unless the ring was replaced under the copy.
    if (p.rows && block_.broker.read().ring_epoch == b.ring_epoch) return p;
  }
  throw ArenaError("queue of client '" + arena_.name(slot_) + "' is damaged: a published slot does not hold its range");
}

void QueueServer::require_idle(const ServerRecord& s, const Peek& peek) const {
  if (s.lo != s.hi) throw ArenaError("client '" + arena_.name(slot_) + "' already has rows in flight");
  if (peek.number < s.hi) throw ArenaError("rows of client '" + arena_.name(slot_) + "' were handed out before");
}

// Notes how long the queue was, and what was dropped from it, before rows are taken.
void QueueServer::shorten(ServerRecord* s, const Peek& peek) {
  s->most_waiting = std::max(s->most_waiting, peek.waiting());
  s->dropped_cut += peek.passed.cut;
  s->dropped_flush += peek.passed.flush;
  s->dropped_limit += peek.passed.limit;
}

void QueueServer::publish(const Peek& peek, const Range* ranges, size_t count, uint64_t rows, bool at_most_once) {
  ServerRecord s = block_.server.read();
  require_idle(s, peek);
  if (count > kInFlightRanges || rows > peek.rows) throw ArenaError("more rows than can be in flight");
  std::atomic_thread_fence(std::memory_order_release);  // the area is rewritten after the flip that emptied it
  for (size_t i = 0; i < count; ++i) {
    block_.in_flight.frame[i].put(ranges[i].frame);
    block_.in_flight.span[i].put(Slot::pack(ranges[i].first, ranges[i].rows));
  }
  shorten(&s, peek);
  s.base = peek.number;
  s.ranges = count;
  s.hi = peek.number + rows;
  s.lo = at_most_once ? s.hi : peek.number;
  s.hint = peek.hint + (count ? count - 1 : 0);  // the last range's slot may have rows left
  s.served += rows;
  if (at_most_once) s.confirmed += rows;
  block_.server.publish(s);
}

void QueueServer::skip(const Peek& peek, uint64_t frame) {
  ServerRecord s = block_.server.read();
  require_idle(s, peek);
  if (!peek.rows) throw ArenaError("no row to skip");
  shorten(&s, peek);
  s.lo = s.hi = s.base = peek.number + 1;
  s.ranges = 0;
  s.hint = peek.hint;
  s.undecodable += 1;
  s.undecodable_at = frame;
  block_.server.publish(s);
}

uint64_t QueueServer::repeats() const {
  const ServerRecord s = block_.server.read();
  return s.repeats + (s.lo < s.hi && block_.line.taken.relaxed() > s.lo);
}

void QueueServer::repeat(uint64_t rows) {
  ServerRecord s = block_.server.read();
  s.served += rows;
  s.repeats = repeats();
  block_.server.publish(s);
  block_.line.taken.put(0);
}

void QueueServer::skip_in_flight(uint64_t frame) {
  ServerRecord s = block_.server.read();
  if (s.lo == s.hi) throw ArenaError("client '" + arena_.name(slot_) + "' has no row in flight to skip");
  s.lo += 1;
  s.repeats = 0;
  s.skipped += 1;
  s.skipped_at = frame;
  block_.server.publish(s);
}

void QueueServer::leave_out(uint64_t number) {
  ServerRecord s = block_.server.read();
  Range first[kInFlightRanges];
  if (s.lo != s.hi) {
    if (s.lo == number && copy_in_flight(block_, s, first)) skip_in_flight(first[0].frame);
    return;
  }
  const Peek next = peek(first, 1, 1);
  if (!next.rows || next.number != number) return;
  shorten(&s, next);
  s.lo = s.hi = s.base = number + 1;
  s.ranges = 0;
  s.hint = next.hint;
  s.skipped += 1;
  s.skipped_at = first[0].frame;
  block_.server.publish(s);
}

uint64_t QueueServer::confirm(uint64_t through) {
  ServerRecord s = block_.server.read();
  uint64_t to = std::min(through, s.hi);
  if (to <= s.lo) return 0;
  uint64_t rows = to - s.lo;
  s.lo = to;
  s.repeats = 0;
  s.confirmed += rows;
  block_.server.publish(s);
  return rows;
}

uint64_t QueueServer::forfeit(uint64_t through) {
  ServerRecord s = block_.server.read();
  uint64_t to = std::min(through, s.hi);
  if (to <= s.lo) return 0;
  uint64_t rows = to - s.lo;
  s.lo = to;
  s.repeats = 0;
  s.dropped_cut += rows;
  block_.server.publish(s);
  return rows;
}

size_t copy_in_flight(const ClientBlock& block, const ServerRecord& s, Range* out) {
  size_t n = 0;
  uint64_t at = s.base;
  for (size_t i = 0; i < s.ranges && at < s.hi; ++i) {
    uint64_t span = block.in_flight.span[i].relaxed();
    uint64_t end = at + Slot::rows_of(span);
    if (end > s.lo) {
      uint64_t skipped = s.lo > at ? s.lo - at : 0;
      out[n].frame = block.in_flight.frame[i].relaxed();
      out[n].first = Slot::first_of(span) + static_cast<uint32_t>(skipped);
      out[n].rows = static_cast<uint32_t>(end - at - skipped);
      ++n;
    }
    at = end;
  }
  return n;
}

uint64_t QueueServer::in_flight(Range* out, size_t* count) const {
  ServerRecord s = block_.server.read();
  *count = s.lo == s.hi ? 0 : copy_in_flight(block_, s, out);
  return s.lo;
}

bool QueueServer::wait() {
  block_.line.waiting.set(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // either the broker sees the flag, or we see its rows
  Range first;
  return peek(&first, 1, 1).rows > 0;
}

bool QueueServer::broker_must_wake() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // either the broker sees the room, or we see that it sleeps
  if (!arena_.control().broker.waiting.get()) return false;
  const ClientView v = view();
  if (!v.broker.lag) return false;
  uint64_t index = find_slot(arena_.ring(v.broker.ring_offset), v.broker, v.server.hint, v.head());
  return v.broker.tail - index <= v.broker.ring_slots / 2;
}

}  // namespace relay
