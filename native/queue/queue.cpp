// The server's side of a client's queue.
#include "queue/queue.hpp"

#include <algorithm>

namespace relay {

namespace {

// A retry means that the broker published during a copy, which takes nanoseconds. More retries mean damage.
constexpr int kAttempts = 100000;

}  // namespace

bool QueueServer::enter(uint64_t id) {
  Word& lease = arena_.lease(id % arena_.workers(), slot_);
  if (arena_.id(slot_).relaxed() == id) {
    if (lease.relaxed() == id) return true;
    lease.put(id);
    fence(std::memory_order_seq_cst);  // either the broker sees our hold, or we see it retired
    if (arena_.id(slot_).relaxed() == id) return true;
  }
  release(id);
  return false;
}

void QueueServer::release(uint64_t id) {
  Word& lease = arena_.lease(id % arena_.workers(), slot_);
  if (lease.relaxed() == id) lease.set(0);
}

void release_forgotten(const Arena& arena, uint64_t worker) {
  const size_t slots = arena.slots();
  for (size_t slot = 0; slot < slots; ++slot) {
    Word& lease = arena.lease(worker, slot);
    const uint64_t id = lease.relaxed();
    if (id && arena.id(slot).relaxed() != id) lease.set(0);
  }
}

void clear_connections(const Arena& arena, uint64_t worker) {
  release_forgotten(arena, worker);
  for (size_t slot = 0; slot < arena.slots(); ++slot) {
    const uint64_t id = arena.id(slot).relaxed();
    QueueServer queue(arena, slot);
    if (!id || id % arena.workers() != worker || !queue.enter(id)) continue;
    queue.line().connected.put(0);
    queue.stop_waiting();
    queue.release(id);
  }
}

Peek QueueServer::peek(Range* out, size_t max_ranges, uint64_t max_rows) const {
  const ServerRecord s = block_.server.read();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    uint64_t version = 0;
    const BrokerRecord b = block_.broker.read(&version);
    Peek p;
    p.done = highest(s.taken(), b.floor());
    p.number = p.done.total();
    p.queued = b.queued.total();
    p.passed = FloorDrops::between(s.taken(), b);
    const Slot* ring = arena_.ring(slot_);
    uint64_t index = find_slot(ring, arena_.ring_slots(), b, s.hint, p.done);
    p.hint = index;
    Counts at = p.done;
    for (Queued q; index < b.tail && p.ranges < max_ranges && p.rows < max_rows; ++index) {
      if (!load_slot(ring, arena_.ring_slots(), index, &q)) break;
      uint64_t& from = at.of(q.is_limited);
      if (q.end() <= from) continue;  // dropped
      if (q.before > from) break;
      const uint64_t rows = std::min(q.end() - from, max_rows - p.rows);
      out[p.ranges].frame = q.frame;
      out[p.ranges].first = static_cast<uint32_t>(from - q.before);
      out[p.ranges].rows = static_cast<uint32_t>(rows);
      if (p.ranges < kInFlightRanges) p.limited[p.ranges] = q.is_limited;
      ++p.ranges;
      p.rows += rows;
      from += rows;
    }
    // Slots that kept their tags are valid whatever was published since.
    if (p.rows || index == b.tail || !max_ranges || !max_rows) return p;
    fence(std::memory_order_acquire);
    if (block_.broker.version() == version) break;  // nothing changed, and yet a published slot is missing
  }
  throw ArenaError("queue of client '" + arena_.name(slot_) + "' is damaged: a published slot does not hold its range");
}

void QueueServer::require_idle(const ServerRecord& s, const Peek& peek) const {
  if (s.lo != s.hi) throw ArenaError("client '" + arena_.name(slot_) + "' already has rows in flight");
  if (peek.number < s.hi) throw ArenaError("rows of client '" + arena_.name(slot_) + "' were handed out before");
}

// Records the queue's length and what was dropped from it, before rows are taken. The caller then sets `hi`.
void QueueServer::shorten(ServerRecord* s, const Peek& peek) {
  s->limited = peek.done.limited;
  s->most_waiting = std::max(s->most_waiting, peek.waiting());
  s->dropped_cut += peek.passed.cut;
  s->dropped_flush += peek.passed.flush;
  s->dropped_limit += peek.passed.limit;
}

void QueueServer::skip_first(ServerRecord* s, const Peek& peek) {
  shorten(s, peek);
  s->lo = s->hi = s->base = peek.number + 1;
  s->limited += peek.limited[0];
  s->ranges = 0;
  s->hint = peek.hint;
}

void QueueServer::publish(const Peek& peek, const Range* ranges, size_t count, uint64_t rows, bool at_most_once) {
  ServerRecord s = block_.server.read();
  require_idle(s, peek);
  if (count > kInFlightRanges || rows > peek.rows) throw ArenaError("more rows than can be in flight");
  fence(std::memory_order_release);  // the area is rewritten after the flip that emptied it
  for (size_t i = 0; i < count; ++i) {
    block_.in_flight.frame[i].put(ranges[i].frame);
    block_.in_flight.span[i].put(RowSpan::pack(ranges[i].first, ranges[i].rows));
  }
  shorten(&s, peek);
  for (size_t i = 0; i < count; ++i) s.limited += peek.limited[i] ? ranges[i].rows : 0;
  s.base = peek.number;
  s.ranges = count;
  s.hi = peek.number + rows;
  s.lo = at_most_once ? s.hi : peek.number;
  s.hint = peek.hint + (count ? count - 1 : 0);  // the last range's slot may have more rows
  s.served += rows;
  if (at_most_once) s.confirmed += rows;
  block_.server.publish(s);
}

void QueueServer::skip(const Peek& peek, uint64_t frame) {
  ServerRecord s = block_.server.read();
  require_idle(s, peek);
  if (!peek.rows) throw ArenaError("no row to skip");
  skip_first(&s, peek);
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

void QueueServer::skip_row(uint64_t number, const std::function<uint64_t(const Range&)>& frame_of) {
  ServerRecord s = block_.server.read();
  Range first[kInFlightRanges];
  if (s.lo != s.hi) {
    if (s.lo == number && copy_in_flight(block_, s, first)) skip_in_flight(frame_of(first[0]));
    return;
  }
  const Peek next = peek(first, 1, 1);
  if (!next.rows || next.number != number) return;
  skip_first(&s, next);
  s.skipped += 1;
  s.skipped_at = frame_of(first[0]);
  block_.server.publish(s);
}

uint64_t QueueServer::confirm(uint64_t through) { return end_flight(through, &ServerRecord::confirmed); }

uint64_t QueueServer::forfeit(uint64_t through) { return end_flight(through, &ServerRecord::dropped_cut); }

uint64_t QueueServer::end_flight(uint64_t through, uint64_t ServerRecord::* count) {
  ServerRecord s = block_.server.read();
  uint64_t to = std::min(through, s.hi);
  if (to <= s.lo) return 0;
  uint64_t rows = to - s.lo;
  s.lo = to;
  s.repeats = 0;
  s.*count += rows;
  block_.server.publish(s);
  return rows;
}

size_t copy_in_flight(const ClientBlock& block, const ServerRecord& s, Range* out) {
  size_t n = 0;
  uint64_t at = s.base;
  for (size_t i = 0; i < s.ranges && at < s.hi; ++i) {
    uint64_t span = block.in_flight.span[i].relaxed();
    uint64_t end = at + RowSpan::rows_of(span);
    if (end > s.lo) {
      uint64_t skipped = s.lo > at ? s.lo - at : 0;
      out[n].frame = block.in_flight.frame[i].relaxed();
      out[n].first = RowSpan::first_of(span) + static_cast<uint32_t>(skipped);
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

bool QueueServer::wait(uint64_t* seen) {
  block_.line.waiting.put(1);
  fence(std::memory_order_seq_cst);  // either the broker sees the flag, or we see its rows
  if (seen) *seen = block_.broker.version();
  Range first;
  return peek(&first, 1, 1).rows > 0;
}

bool QueueServer::broker_must_wake() const {
  if (!arena_.broker_sleeps()) return false;
  const ClientView v = view();
  if (!v.broker.lag) return false;
  const uint64_t slots = arena_.ring_slots();
  return v.broker.tail - find_slot(arena_.ring(slot_), slots, v.broker, v.server.hint, v.done()) <= slots / 2;
}

}  // namespace relay
