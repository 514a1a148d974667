#include "broker.hpp"

#include <algorithm>
#include <exception>

#include "failure.hpp"
#include "queue.hpp"

namespace relay {

namespace {

constexpr size_t kMaxTables = 100000;  // cached TABLE frames; each segment repeats them
constexpr uint64_t kAhead = 15;  // slots of a full ring that are known to be free by a look at the last of them
constexpr size_t kRun = 1024;  // frames; several times what a usual limit keeps, and still in the processor's own cache

}  // namespace

// ---- the queue

bool Broker::queued_in_lag(Rule rule) { return rule == Rule::keep || rule == Rule::oldest; }

// The step's end publishes this client, and wakes its server.
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

// Before a floor rises: the queue, which begins at row `from`, gets shorter without the server's doing.
void Broker::note_length(size_t slot, uint64_t from) {
  BrokerRecord& w = clients_[slot].w;
  w.most_waiting = std::max(w.most_waiting, w.queued - from);
}

uint64_t Broker::scan_of(size_t slot) const { return std::max(clients_[slot].w.scan, position_); }

// Whether the next slot may be written. Its old range must lie below what the server has taken or the published floor:
// a floor that is not published yet would be forgotten by a kill, and the rows above the old one with it.
bool Broker::has_room(size_t slot) {
  Client& c = clients_[slot];
  if (c.w.tail < std::max(c.writable, c.w.ring_slots)) return true;
  if (!is_reusable(slot, c.blocked)) return false;  // known from before: a ring that is full is asked often
  if (is_reusable(slot, c.w.lag ? c.w.lag_number : c.w.queued)) {  // the end of all that stands in the ring
    c.writable = c.w.tail + c.w.ring_slots;
    return true;
  }
  const Slot* ring = arena_.ring(c.w.ring_offset);
  const uint64_t next = c.w.tail - c.w.ring_slots;
  SlotCopy old;
  // Rows rise from slot to slot: where one ahead may be written, so may all before it.
  if (old.load(ring, c.w.ring_slots, next + kAhead) && is_reusable(slot, old.end())) {
    c.writable = c.w.tail + kAhead + 1;
    return true;
  }
  if (!old.load(ring, c.w.ring_slots, next)) return true;
  c.blocked = old.end();
  return is_reusable(slot, c.blocked);
}

bool Broker::is_reusable(size_t slot, uint64_t end) {
  Client& c = clients_[slot];
  if (end <= c.reusable) return true;
  c.reusable = std::max(hi(slot), c.floor);
  return end <= c.reusable;
}

// Writes rows [number, number + rows) to the next slot; the next publish makes it visible. `scan`, if not 0, allows to
// publish what was decided before it, should that make room. False if the ring is full.
bool Broker::push(size_t slot, uint64_t number, uint64_t frame, uint32_t rows, uint64_t scan) {
  Client& c = clients_[slot];
  if (!has_room(slot)) {
    if (!scan || c.w.floor() <= c.floor) return false;
    publish(slot, scan);
    if (!has_room(slot)) return false;
  }
  Slot& s = arena_.ring(c.w.ring_offset)[Slot::place(c.w.tail, c.w.ring_slots)];
  s.tag.put(0);
  std::atomic_thread_fence(std::memory_order_release);
  s.number.put(number);
  s.frame.put(frame);
  s.span.put(Slot::pack(0, rows));
  s.tag.set(c.w.tail + 1);
  c.w.tail += 1;
  return true;
}

void Broker::decide(size_t slot, Verdict v, uint64_t position, const FrameSource::Frame& frame, bool may_publish) {
  Client& c = clients_[slot];
  if (v.rule == Rule::none) return;
  // First of all: it may meet damage, and then nothing of this frame is decided.
  if (v.rule == Rule::newest && c.w.lag && may_publish) refill(slot, position);
  touch(slot);
  uint32_t rows = frame.rows;
  uint64_t floor = c.w.floor_limit;
  if (v.rule == Rule::newest) {
    uint64_t waiting = c.w.queued - head(slot);
    // A ring that is full holds more rows than any limit.
    uint64_t room = c.w.lag || waiting >= v.limit ? 0 : v.limit - waiting;
    rows = static_cast<uint32_t>(std::min<uint64_t>(rows, room));
  } else if (v.rule == Rule::oldest && c.w.queued + rows - floor > v.limit) {
    floor = c.w.queued + rows - v.limit;
    const uint64_t from = head(slot);
    if (floor > from) {
      c.w.oldest_at = position;
      note_length(slot, from);
    }
    c.w.floor_limit = std::min(floor, c.w.queued);  // what may be published before this frame is
  }
  if (rows && !c.w.lag && !push(slot, c.w.queued, position, rows, may_publish ? position : 0)) {
    c.w.lag = position;
    c.w.lag_number = c.w.queued;
    note_lag(slot);
  }
  if (floor > c.w.floor_limit) c.w.floor_limit = floor;
  if (rows < frame.rows) {
    c.w.dropped_newest += frame.rows - rows;
    c.w.newest_at = position;
  }
  c.w.matched += frame.rows;
  c.w.queued += rows;
  c.w.scan = frame.next;
  queued_rows_ += rows;
}

void Broker::note_lag(size_t slot) {
  if (std::find(lagging_.begin(), lagging_.end(), slot) == lagging_.end()) lagging_.push_back(slot);
}

// Moves the rows that are in no slot yet, frames [lag, end), to the ring as far as it has room.
void Broker::refill(size_t slot, uint64_t end) {
  Client& c = clients_[slot];
  while (c.w.lag && c.w.lag < end) {
    const FrameSource::Frame frame = frames_.frame(c.w.lag);
    if (queued_in_lag(judge_one(slot, c.w.lag, frame).rule)) {
      uint64_t rows_end = c.w.lag_number + frame.rows;
      if (rows_end > c.w.floor()) {
        if (!push(slot, c.w.lag_number, c.w.lag, frame.rows, end)) return;
        touch(slot);  // wakes as well
      }
      c.w.lag_number = rows_end;
    }
    c.w.lag = frame.next;
  }
  if (!c.w.lag) return;
  if (c.w.lag_number != c.w.queued) {
    throw ArenaError("the filters of client '" + arena_.name(slot) + "' are not those its rows were counted with (" +
                     std::to_string(c.w.queued) + " queued, " + std::to_string(c.w.lag_number) + " found again)");
  }
  c.w.lag = 0;
  touch(slot);
}

// What fails for one client is told in the end, and keeps nothing from the others.
std::exception_ptr Broker::refill_all() {
  std::exception_ptr failure;
  for (size_t slot : lagging_) {
    if (!clients_[slot].w.lag || !has_room(slot)) continue;
    try {
      refill(slot, scan_of(slot));
    } catch (...) {
      failure = std::current_exception();
    }
    publish(slot, scan_of(slot));
  }
  auto caught_up = [this](size_t slot) { return !clients_[slot].w.lag; };
  lagging_.erase(std::remove_if(lagging_.begin(), lagging_.end(), caught_up), lagging_.end());
  return failure;
}

// ---- the step

Broker::Step Broker::step(uint64_t max_bytes) {
  Step out;
  queued_rows_ = 0;
  Control& control = arena_.control();
  const uint64_t committed = control.reader.committed.get();
  if (!position_) begin(committed);
  const uint64_t first = control.reader.first.get();
  if (first > first_) cut(first);  // should frames be gone that somebody needed, the loss is counted
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
  if (failure && !out.wake) std::rethrow_exception(failure);  // else the next step meets it again
  out.rows = queued_rows_;
  out.position = position;
  return out;
}

// Decides the frames from position() on; where it ended, which is where it failed if it did. Client by client for a run
// of frames, since a client's record and ring cost more to be fetched than a frame costs to be decided.
uint64_t Broker::walk(uint64_t committed, uint64_t max_bytes, Step* out, std::exception_ptr* failure) {
  uint64_t position = position_;
  run_.clear();
  try {
    while (position < committed && position - position_ < max_bytes) {
      const FrameSource::Frame frame = frames_.frame(position);
      Audience* who = frame.rows ? &audience(frame.table) : nullptr;
      if (who && !who->interests.empty()) {
        const bool settled = who->from <= position && position < who->to;
        if (who != run_for_ || !settled || run_.size() == kRun) decide_run();
        if (!settled) settle(who, position);
        run_for_ = who;
        run_.push_back({position, frame});
      }
      position = frame.next;
      ++out->frames;
    }
  } catch (...) {
    *failure = std::current_exception();  // what was decided before it holds
  }
  try {
    decide_run();
  } catch (...) {
    *failure = std::current_exception();
  }
  // Of a run that failed, each client's own scan tells what was decided.
  return run_.empty() ? position : run_.front().position;
}

// Rows that a drop-oldest limit drops within their run need no slots: they are counted, and the floor rises to their end
// before any row after them is in a slot. How many frames of the run that were.
size_t Broker::pass_over(const Interest& who) {
  Client& c = clients_[who.slot];
  if (run_.size() == 1 || run_.front().position < c.w.scan) return 0;
  const uint64_t limit = common_limit(who.verdicts);
  if (!limit) return 0;
  auto matching = [&](const FrameSource::Frame& frame) {
    return who.verdicts[index_of(frame.kind)].rule == Rule::none ? 0 : frame.rows;
  };
  uint64_t kept = 0;
  uint64_t last = 0;  // position of the last frame that matches
  size_t first = run_.size();
  while (first && kept < limit) {
    const uint64_t rows = matching(run_[--first].frame);
    kept += rows;
    if (rows) last = std::max(last, run_[first].position);
  }
  uint64_t passed = 0;
  for (size_t i = 0; i < first; ++i) passed += matching(run_[i].frame);
  if (!passed) return 0;
  touch(who.slot);
  note_length(who.slot, head(who.slot));
  c.w.matched += passed;
  c.w.queued += passed;
  c.w.floor_limit = c.w.queued;
  c.w.oldest_at = last;
  c.w.lag = 0;
  c.w.scan = run_[first].position;
  queued_rows_ += passed;
  return first;
}

void Broker::decide_run() {
  if (run_.empty()) return;
  for (const Interest& each : run_for_->interests) {
    const Client& c = clients_[each.slot];
    for (size_t i = pass_over(each); i < run_.size(); ++i) {
      const auto& [position, frame] = run_[i];
      if (position < c.w.scan) continue;
      decide(each.slot, each.verdicts[index_of(frame.kind)], position, frame, true);
    }
  }
  run_.clear();
}

void Broker::publish_touched(uint64_t position) {
  constexpr size_t kFetched = 4;  // records that are fetched while others are written
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (i + kFetched < touched_.size()) {
      const auto* next = reinterpret_cast<const char*>(&arena_.client(touched_[i + kFetched]).broker);
      for (size_t line = 0; line < sizeof(Flip<BrokerRecord>); line += 64) __builtin_prefetch(next + line, 1);
    }
    publish(touched_[i], std::max(clients_[touched_[i]].w.scan, position));
  }
}

uint64_t Broker::wake_mask() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // either we see that a server waits, or it sees the rows
  uint64_t mask = 0;
  for (size_t slot : touched_) {
    clients_[slot].touched = false;
    if (!arena_.client(slot).line.waiting.get()) continue;
    const BrokerRecord& w = clients_[slot].w;
    if (head(slot) < w.queued) mask |= uint64_t{1} << (clients_[slot].id % arena_.header().workers);
  }
  touched_.clear();
  return mask;
}

bool Broker::pending() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (arena_.control().reader.committed.get() > position_ || !touched_.empty()) return true;
  return std::any_of(lagging_.begin(), lagging_.end(),
                     [this](size_t slot) { return clients_[slot].w.lag && has_room(slot); });
}

// ---- what people and retention ask for

uint64_t Broker::flush(size_t slot) {
  Client& c = at(slot);
  const uint64_t from = head(slot);
  const uint64_t dropped = c.w.queued - from;
  note_length(slot, from);
  c.w.floor_flush = c.w.queued;
  c.w.flush_at = scan_of(slot);
  c.w.lag = 0;
  publish(slot, scan_of(slot));
  return dropped;
}

void Broker::seek(size_t slot, uint64_t position) {
  flush(slot);
  if (position > arena_.control().reader.committed.get()) {
    throw ArenaError("cannot move a client beyond the journal's end");
  }
  try {
    for (uint64_t p = position; p < position_;) {
      const FrameSource::Frame frame = frames_.frame(p);
      decide(slot, judge_one(slot, p, frame), p, frame, false);
      p = frame.next;
    }
  } catch (...) {
    flush(slot);  // half of what was asked for is no queue
    throw;
  }
  publish(slot, std::max(position, position_));
}

uint64_t Broker::needed(size_t slot) {
  at(slot);
  const ClientBlock& block = arena_.client(slot);
  const BrokerRecord& w = clients_[slot].w;
  uint64_t lowest = 0;
  for (;;) {
    uint64_t version = 0;
    const ServerRecord s = block.server.read(&version);
    uint64_t from = std::max(s.hi, w.floor());
    lowest = scan_of(slot);
    if (w.lag) lowest = std::min(lowest, w.lag);
    SlotCopy first;
    const Slot* ring = arena_.ring(w.ring_offset);
    uint64_t index = find_slot(ring, w, 0, from);
    if (index < w.tail && first.load(ring, w.ring_slots, index)) lowest = std::min(lowest, first.frame);
    if (s.lo < s.hi) {
      Range ranges[kInFlightRanges];
      size_t n = copy_in_flight(block, s, ranges);
      for (size_t i = 0; i < n; ++i) lowest = std::min(lowest, ranges[i].frame);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (block.server.version() == version) return lowest;
  }
}

uint64_t Broker::needed() {
  uint64_t lowest = position_;
  for (size_t slot : live_) lowest = std::min(lowest, needed(slot));
  return lowest;
}

void Broker::cut(uint64_t position) {
  for (size_t slot : live_) cut_client(slot, std::min(position, position_));
}

uint64_t Broker::rows_in_lag(size_t slot, uint64_t from, uint64_t to) {
  uint64_t rows = 0;
  while (from < to) {
    const FrameSource::Frame frame = frames_.frame(from);
    if (queued_in_lag(judge_one(slot, from, frame).rule)) rows += frame.rows;
    from = frame.next;
  }
  return rows;
}

void Broker::cut_client(size_t slot, uint64_t position) {
  Client& c = clients_[slot];
  const Slot* ring = arena_.ring(c.w.ring_offset);
  uint64_t from = head(slot);
  uint64_t index = find_slot(ring, c.w, 0, from);
  SlotCopy first;
  uint64_t keep = from;  // number of the first row that stays
  while (index < c.w.tail && first.load(ring, c.w.ring_slots, index) && first.frame < position) {
    keep = first.end();
    ++index;
  }
  const bool lag_moves = c.w.lag && c.w.lag < position;
  if (keep == from && !lag_moves) return;
  if (lag_moves) {
    const bool gone = c.w.lag < arena_.control().reader.first.get();
    c.w.lag_number = gone ? c.w.queued - rows_in_lag(slot, position, scan_of(slot))  // the long way round
                          : c.w.lag_number + rows_in_lag(slot, c.w.lag, position);
    c.w.lag = position < scan_of(slot) ? position : 0;
    keep = std::max(keep, c.w.lag_number);
  }
  note_length(slot, from);
  c.w.floor_cut = std::max(c.w.floor_cut, keep);
  c.w.cut_at = position;
  publish(slot, scan_of(slot));
}

}  // namespace relay
