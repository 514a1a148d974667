// The broker's step, the rules by which frames are queued, and what flushes, seeks and retention do to queues.
#include "queue/broker.hpp"

#include <algorithm>
#include <exception>

#include "base/failure.hpp"
#include "queue/queue.hpp"

namespace relay {

namespace {

constexpr size_t kMaxTables = 100000;  // cached TABLE frames; each segment repeats them
constexpr uint64_t kAhead = 15;  // slots of a full ring that are known to be free after a check of the last of them

}  // namespace

// ---- The queue

// Marks the client, so that the end of the step publishes it and wakes its server.
void Broker::touch(size_t slot) {
  if (clients_[slot].touched) return;
  clients_[slot].touched = true;
  touched_.push_back(slot);
}

void Broker::publish(size_t slot, uint64_t scan) {
  Client& c = clients_[slot];
  c.w.scan = scan;
  arena_.client(slot).broker.publish(c.w);
  c.floor = c.w.floor();
}

Counts Broker::taken(size_t slot) const {
  const auto [hi, limited] = arena_.client(slot).server.words<2>(kHiWord);
  return {hi - limited, limited};
}

// Records the queue's length before a floor rises: the queue, which begins after `from`, gets shorter without the
// server.
void Broker::note_length(size_t slot, const Counts& from) {
  BrokerRecord& w = clients_[slot].w;
  w.most_waiting = std::max(w.most_waiting, w.queued.total() - from.total());
}

uint64_t Broker::scan_of(size_t slot) const { return std::max(clients_[slot].w.scan, position_); }

// Whether the next slot may be written. Its old rows must lie below what the server has taken or below the published
// floor: a kill would forget a floor that is not published yet, and with it the rows above the old one.
bool Broker::has_room(size_t slot) {
  Client& c = clients_[slot];
  const uint64_t slots = arena_.ring_slots();
  if (c.w.tail < std::max(c.writable, slots)) return true;
  if (!is_reusable(slot, c.blocked)) return false;               // cached, because a full ring is checked often
  if (is_reusable(slot, c.w.lag ? c.w.lag_rows : c.w.queued)) {  // the end of all that stands in the ring
    c.writable = c.w.tail + slots;
    return true;
  }
  const Slot* ring = arena_.ring(slot);
  const uint64_t next = c.w.tail - slots;
  const bool is_mixed = c.w.queued.kept && c.w.queued.limited;
  Queued old;
  // Within a class rows rise from slot to slot: if a slot ahead may be written, so may all before it.
  if (!is_mixed && load_slot(ring, slots, next + kAhead, &old) && is_reusable(slot, old.reach())) {
    c.writable = c.w.tail + kAhead + 1;
    return true;
  }
  if (!load_slot(ring, slots, next, &old)) return true;
  c.blocked = old.reach();
  return is_reusable(slot, c.blocked);
}

bool Broker::is_reusable(size_t slot, const Counts& reach) {
  Client& c = clients_[slot];
  if (c.reusable.covers(reach)) return true;
  c.reusable = highest(taken(slot), c.floor);
  return c.reusable.covers(reach);
}

// Writes rows to the next slot; the next publish makes it visible. Unless `scan` is 0, it may publish what was decided
// before `scan` to make room. False if the ring is full.
bool Broker::push(size_t slot, const Queued& queued, uint64_t scan) {
  Client& c = clients_[slot];
  if (!has_room(slot)) {
    if (!scan || c.floor.covers(c.w.floor())) return false;
    publish(slot, scan);
    if (!has_room(slot)) return false;
  }
  Slot& s = arena_.ring(slot)[Slot::place(c.w.tail, arena_.ring_slots())];
  s.tag.set(0);  // readers of this tag then see the publish that freed the slot
  fence(std::memory_order_release);
  s.put(queued);
  s.tag.put(c.w.tail + 1);
  c.w.tail += 1;
  return true;
}

// Whether a frame belongs to a run of so many rows, if no frame of the table lies between.
bool Broker::continues_run(const Rows& run, uint64_t rows, uint64_t position, const FrameSource::Frame& frame) const {
  return frames_.has_runs() && frame.table == run.frame.table && in_one_block(run.position, position) &&
         rows + frame.rows <= UINT32_MAX;
}

// Queues all rows of a frame or run.
void Broker::keep(size_t slot, uint64_t position, uint64_t rows, uint64_t scan) {
  BrokerRecord& w = clients_[slot].w;
  const Queued queued{position, w.queued.kept, static_cast<uint32_t>(rows), false, false};
  if (!w.lag && !push(slot, queued, scan)) begin_lag(slot, position);
  w.queued.kept += rows;
  queued_rows_ += rows;
}

void Broker::decide(size_t slot, Verdict v, uint64_t position, const FrameSource::Frame& frame, bool may_publish) {
  if (v.rule == Rule::none) return;
  touch(slot);
  BrokerRecord& w = clients_[slot].w;
  const uint64_t scan = may_publish ? position : 0;
  if (v.rule == Rule::keep) {
    keep(slot, position, frame.rows, scan);
  } else if (v.rule == Rule::newest) {
    let_in(slot, v.limit, position, frame, scan);
  } else {
    queue_limited(slot, v, position, frame, scan);
  }
  w.scan = frame.next;
}

// Accepts as many of a frame's rows as a drop-newest limit has room for.
void Broker::let_in(size_t slot, uint64_t limit, uint64_t position, const FrameSource::Frame& frame, uint64_t scan) {
  BrokerRecord& w = clients_[slot].w;
  const uint64_t taken = arena_.client(slot).server.words<1>(kLimitedWord)[0];
  const uint64_t waiting = w.queued.limited - std::max(taken, w.floor().limited);
  const uint64_t room = waiting < limit ? limit - waiting : 0;
  const uint32_t rows = static_cast<uint32_t>(std::min<uint64_t>(frame.rows, room));
  const Queued queued{position, w.queued.limited, rows, true, true};
  if (rows && !w.lag && !push(slot, queued, scan)) begin_lag(slot, position);
  if (rows && w.lag) accept(slot, queued);
  if (rows < frame.rows) {
    w.dropped_newest += frame.rows - rows;
    w.newest_at = position;
  }
  w.queued.limited += rows;
  queued_rows_ += rows;
}

// Queues all rows of a frame. Each row that finds a drop-oldest limit reached drops the oldest limited row, and no more:
// if more rows wait than the limit, because another filter's limit is higher or this one was lowered, as many still wait
// afterwards.
void Broker::queue_limited(size_t slot, Verdict v, uint64_t position, const FrameSource::Frame& frame, uint64_t scan) {
  BrokerRecord& w = clients_[slot].w;
  const uint64_t end = w.queued.limited + frame.rows;
  uint64_t floor = w.floor_limit;
  if (v.rule == Rule::oldest && end - floor > v.limit) {
    const Counts from = done(slot);
    const uint64_t waiting = w.queued.limited - from.limited;
    if (waiting + frame.rows > v.limit) {
      floor = end - std::max(v.limit, waiting);
      w.oldest_at = position;
      note_length(slot, from);
      uint64_t before = std::min(floor, w.queued.limited);  // only this much may be published before the frame, and
      if (waiting > v.limit) before = w.floor_limit;        // nothing that a successor would drop a second time
      w.floor_limit = before;
    }
  }
  const bool is_in = w.lag || push(slot, {position, w.queued.limited, frame.rows, true, false}, scan);
  if (!is_in) begin_lag(slot, position);
  w.floor_limit = floor;
  w.queued.limited = end;
  queued_rows_ += frame.rows;
}

// ---- The step

Broker::Step Broker::step(uint64_t max_bytes) {
  Step out;
  queued_rows_ = 0;
  Control& control = arena_.control();
  const uint64_t committed = control.reader.committed.get();
  if (!position_) begin(committed);
  const uint64_t first = control.reader.first.relaxed();
  if (first > first_) cut(first);  // if needed frames are gone, the loss is counted
  first_ = first;
  if (tables_.size() >= kMaxTables) forget_audiences();
  std::exception_ptr failure;
  const uint64_t position = walk(committed, max_bytes, &out, &failure);
  publish_touched(position);
  if (position != position_) {
    control.broker.scan.set(position);
    position_ = position;
  }
  if (std::exception_ptr other = refill_all()) failure = other;
  out.wake = wake_mask();
  if (failure && !out.wake) std::rethrow_exception(failure);  // otherwise the next step meets the failure again
  out.rows = queued_rows_;
  out.position = position;
  return out;
}

// Decides the frames from position() on. Returns where it ended, which is where it failed if it did. Works client by
// client on a batch of frames, since loading a client's record and ring costs more than deciding a frame.
uint64_t Broker::walk(uint64_t committed, uint64_t max_bytes, Step* out, std::exception_ptr* failure) {
  uint64_t position = position_;
  batch_.clear();
  try {
    while (position < committed && position - position_ < max_bytes) {
      const FrameSource::Frame frame = frames_.frame(position);
      Audience* who = frame.rows ? &audience(frame.table) : nullptr;
      if (who && !who->interests.empty()) {
        const bool settled = who->from <= position && position < who->to;
        if (who != batch_for_ || !settled || batch_.size() == kBatch) decide_batch();
        if (!settled) settle(who, position);
        batch_for_ = who;
        batch_.push_back({position, frame});
      }
      position = frame.next;
      ++out->frames;
    }
  } catch (...) {
    *failure = std::current_exception();  // decisions before it stand
  }
  try {
    decide_batch();
  } catch (...) {
    *failure = std::current_exception();
  }
  // After a failed batch, each client's own scan says what was decided.
  return batch_.empty() ? position : batch_.front().position;
}

void Broker::publish_touched(uint64_t position) {
  constexpr size_t kFetched = 4;  // records that are prefetched while others are written
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (i + kFetched < touched_.size()) {
      const auto* next = reinterpret_cast<const char*>(&arena_.client(touched_[i + kFetched]).broker);
      for (size_t line = 0; line < sizeof(DoubleBuffered<BrokerRecord>); line += 64) __builtin_prefetch(next + line, 1);
    }
    publish(touched_[i], std::max(clients_[touched_[i]].w.scan, position));
  }
}

uint64_t Broker::wake_mask() {
  fence(std::memory_order_seq_cst);  // either we see that a server waits, or it sees the rows
  uint64_t mask = 0;
  for (size_t slot : touched_) {
    clients_[slot].touched = false;
    if (!arena_.client(slot).line.waiting.relaxed()) continue;
    if (done(slot).total() < clients_[slot].w.queued.total())
      mask |= uint64_t{1} << (clients_[slot].id % arena_.header().workers);
  }
  touched_.clear();
  return mask;
}

bool Broker::pending() {
  fence(std::memory_order_seq_cst);
  if (arena_.control().reader.committed.relaxed() > position_ || !touched_.empty()) return true;
  return std::any_of(lagging_.begin(), lagging_.end(),
                     [this](size_t slot) { return clients_[slot].w.lag && has_room(slot); });
}

// ---- Flush, seek and retention

uint64_t Broker::flush(size_t slot) {
  Client& c = at(slot);
  const Counts from = done(slot);
  note_length(slot, from);
  c.w.floor_flush = c.w.queued;
  c.w.flush_at = scan_of(slot);
  if (c.w.lag) end_lag(slot);
  publish(slot, scan_of(slot));
  return c.w.queued.total() - from.total();
}

void Broker::seek(size_t slot, uint64_t position) {
  flush(slot);
  if (position > arena_.control().reader.committed.relaxed()) {
    throw ArenaError("cannot move a client beyond the journal's end");
  }
  try {
    for (uint64_t p = position; p < position_;) {
      const FrameSource::Frame frame = frames_.frame(p);
      decide(slot, judge_one(slot, p, frame), p, frame, false);
      p = frame.next;
    }
  } catch (...) {
    flush(slot);  // a partial result would not be a valid queue
    throw;
  }
  publish(slot, std::max(position, position_));
}

// If the in-flight area is rewritten meanwhile, all that was in flight is confirmed, and reading the new rows does no
// harm: none lies before the first row that waits after those.
uint64_t Broker::needed(size_t slot) {
  at(slot);
  const ClientBlock& block = arena_.client(slot);
  const BrokerRecord& w = clients_[slot].w;
  const Slot* ring = arena_.ring(slot);
  const uint64_t slots = arena_.ring_slots();
  const ServerRecord s = block.server.read();
  uint64_t lowest = scan_of(slot);
  if (w.lag) lowest = std::min(lowest, w.lag);
  Queued first;
  const uint64_t index = find_slot(ring, slots, w, s.hint, highest(s.taken(), w.floor()));
  if (index < w.tail && load_slot(ring, slots, index, &first)) lowest = std::min(lowest, first.frame);
  Range ranges[kInFlightRanges];
  const size_t n = s.lo < s.hi ? copy_in_flight(block, s, ranges) : 0;
  for (size_t i = 0; i < n; ++i) lowest = std::min(lowest, ranges[i].frame);
  return lowest;
}

uint64_t Broker::needed() {
  uint64_t lowest = position_;
  for (size_t slot : live_) lowest = std::min(lowest, needed(slot));
  return lowest;
}

void Broker::cut(uint64_t position) {
  for (size_t slot : live_) cut_client(slot, std::min(position, position_));
}

void Broker::cut_client(size_t slot, uint64_t position) {
  Client& c = clients_[slot];
  const Slot* ring = arena_.ring(slot);
  const uint64_t slots = arena_.ring_slots();
  const Counts from = done(slot);
  Counts keep = from;  // what stays begins after these
  Queued first;
  for (uint64_t i = find_slot(ring, slots, c.w, 0, from); i < c.w.tail; ++i) {
    if (!load_slot(ring, slots, i, &first) || first.frame >= position) break;
    keep = highest(keep, first.reach());
  }
  const bool lag_moves = c.w.lag && c.w.lag < position;
  if (!lag_moves && from.covers(keep)) return;
  if (lag_moves) {
    cut_lag(slot, position);
    keep = highest(keep, c.w.lag ? c.w.lag_rows : c.w.queued);
  }
  note_length(slot, from);
  c.w.floor_cut = highest(c.w.floor_cut, keep);
  c.w.cut_at = position;
  publish(slot, scan_of(slot));
}

}  // namespace relay
