#include "broker.hpp"

#include <algorithm>
#include <exception>

#include "failure.hpp"
#include "queue.hpp"

namespace relay {

namespace {

constexpr size_t kMaxTables = 100000;  // cached TABLE frames; each segment repeats them

bool is_name(const std::string& wanted, const std::string& name) { return wanted == "*" || wanted == name; }

}  // namespace

void Broker::forget_interests() {
  interests_.clear();
  recent_.fill({});
}

const std::vector<Broker::Interest>& Broker::interests(uint64_t table) {
  auto& [recent_table, recent] = recent_[table / 8 % recent_.size()];
  if (recent && recent_table == table) return *recent;
  auto found = interests_.find(table);
  if (found == interests_.end()) {
    const FrameSource::Names names = frames_.names(table);
    std::vector<Interest> list;
    for (size_t slot : live_) {
      const std::vector<Filter>& filters = clients_[slot].filters;
      Interest interest{slot, {}};
      for (size_t i = 0; i < filters.size(); ++i) {
        const Filter& f = filters[i];
        if (is_name(f.schema, names.schema) && is_name(f.table, names.table)) interest.filters.push_back(i);
      }
      if (!interest.filters.empty()) list.push_back(std::move(interest));
    }
    if (refuse_unproven && !names.proven && !list.empty()) {
      throw StreamError("schema_unproven", "queue rows", names.schema + "." + names.table,
                        "the names and types of its columns cannot be proven");
    }
    found = interests_.emplace(table, std::move(list)).first;
  }
  recent_table = table;
  recent = &found->second;
  return found->second;
}

Broker::Verdict Broker::judge_one(size_t slot, uint64_t position, const FrameSource::Frame& frame) {
  if (!frame.rows) return {};
  const std::vector<Interest>& list = interests(frame.table);
  auto it = std::lower_bound(list.begin(), list.end(), slot, [](const Interest& i, size_t s) { return i.slot < s; });
  if (it == list.end() || it->slot != slot) return {};
  return judge(clients_[slot], it->filters, position, frame.kind);
}

// A row is queued if any matching filter would queue it. The oldest are dropped only if every matching filter that has
// a limit drops the oldest, and then down to the largest of these limits.
Broker::Verdict Broker::judge(const Client& c, const std::vector<size_t>& filters, uint64_t position, uint32_t kind) {
  Verdict v;
  bool unlimited = false;
  bool oldest = false;
  bool newest = false;
  for (size_t i : filters) {
    const Filter& f = c.filters[i];
    if (!(f.kinds & kind) || position < f.from || position >= f.to) continue;
    if (!f.limit) {
      unlimited = true;
    } else {
      (f.discard == kDropOldest ? oldest : newest) = true;
      v.limit = std::max(v.limit, f.limit);
    }
  }
  if (newest) {
    v.rule = unlimited || oldest ? Rule::keep : Rule::newest;
  } else if (oldest) {
    v.rule = Rule::oldest;
  } else if (unlimited) {
    v.rule = Rule::keep;
  }
  return v;
}

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

uint64_t Broker::head(size_t slot) const {
  return std::max(arena_.client(slot).server.read().hi, clients_[slot].w.floor());
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
  if (c.w.tail < c.w.ring_slots) return true;
  SlotCopy old;
  if (!old.load(arena_.ring(c.w.ring_offset), c.w.ring_slots, c.w.tail - c.w.ring_slots)) return true;
  if (old.end() <= c.reusable) return true;
  c.reusable = std::max(arena_.client(slot).server.read().hi, c.floor);
  return old.end() <= c.reusable;
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
  Slot& s = arena_.ring(c.w.ring_offset)[c.w.tail % c.w.ring_slots];
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
  } else if (v.rule == Rule::oldest && c.w.queued + rows > v.limit) {
    floor = std::max(floor, c.w.queued + rows - v.limit);
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
    if (std::find(lagging_.begin(), lagging_.end(), slot) == lagging_.end()) lagging_.push_back(slot);
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
  if (interests_.size() >= kMaxTables) forget_interests();
  uint64_t position = position_;
  std::exception_ptr failure;
  try {
    while (position < committed && position - position_ < max_bytes) {
      const FrameSource::Frame frame = frames_.frame(position);
      if (frame.rows) {
        for (const Interest& interest : interests(frame.table)) {
          const Client& c = clients_[interest.slot];
          if (position < c.w.scan) continue;
          decide(interest.slot, judge(c, interest.filters, position, frame.kind), position, frame, true);
        }
      }
      position = frame.next;
      ++out.frames;
    }
  } catch (...) {
    failure = std::current_exception();  // what was decided before it holds
  }
  for (size_t slot : touched_) publish(slot, std::max(clients_[slot].w.scan, position));
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
