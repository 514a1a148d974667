// Checkpoints of clients for a cold start: writing them, and turning them into queues again.
#include <algorithm>

#include "queue/broker.hpp"
#include "queue/queue.hpp"

namespace relay {

Checkpoint Broker::checkpoint(size_t slot) {
  const Client& c = at(slot);
  const ClientBlock& block = arena_.client(slot);
  Checkpoint out;
  for (;;) {
    uint64_t version = 0;
    out.server = block.server.read(&version);
    out.in_flight.resize(kInFlightRanges);
    out.in_flight.resize(out.server.lo < out.server.hi ? copy_in_flight(block, out.server, out.in_flight.data()) : 0);
    fence(std::memory_order_acquire);
    if (block.server.version() == version) break;
  }
  out.broker = c.w;
  out.broker.scan = scan_of(slot);
  find_lag(slot, &out);
  return out;
}

// Rows in the ring are found again like rows after it: moves the lag back to the first waiting row.
void Broker::find_lag(size_t slot, Checkpoint* out) const {
  const Slot* ring = arena_.ring(slot);
  const uint64_t slots = arena_.ring_slots();
  BrokerRecord& w = out->broker;
  const Counts done = highest(out->server.taken(), w.floor());
  bool has_kept = false;
  bool has_limited = false;
  uint64_t lag = 0;
  if (!w.lag) w.lag_rows = w.queued;
  Queued q;
  for (uint64_t i = find_slot(ring, slots, w, out->server.hint, done); i < w.tail; ++i) {
    if (!load_slot(ring, slots, i, &q) || q.end() <= done.of(q.is_limited)) continue;
    if (!lag) lag = q.frame;
    bool& has = q.is_limited ? has_limited : has_kept;
    if (!has) {
      w.lag_rows.of(q.is_limited) = q.before;
      if (q.is_limited) w.lag_limited_at = q.frame;
    }
    has = true;
    if (q.is_newest) out->accepted.push_back(q);
  }
  for (uint64_t i = w.accepted_head; i < w.accepted_tail; ++i) out->accepted.push_back(accepted(slot, i));
  if (!lag) return;
  if (!has_limited) w.lag_limited_at = w.lag ? std::max(w.lag, w.lag_limited_at) : w.scan;
  w.lag = lag;
}

Marks Broker::marks(size_t slot) const {
  const ClientBlock& block = arena_.client(slot);
  return {block.broker.version(), block.server.version(), clients_[slot].filters_set};
}

void Broker::take_snapshot() {
  auto taken = std::make_unique<Snapshot>();
  taken->position = taken->reach = position_;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (i + kPrefetched < live_.size()) {
      const size_t next = live_[i + kPrefetched];
      __builtin_prefetch(&arena_.client(next).broker);
      __builtin_prefetch(&arena_.client(next).server);
      __builtin_prefetch(&clients_[next].stored);
    }
    const size_t slot = live_[i];
    const Client& c = clients_[slot];
    const Marks now = marks(slot);  // taken first: what changes during the copy is copied once more
    if (c.is_stored && now == c.stored) continue;
    const Checkpoint copy = checkpoint(slot);
    taken->reach = std::max(taken->reach, copy.broker.scan);
    taken->clients.push_back({slot, c.id, now, copy.broker.scan, copy.lowest_frame(), copy.pack()});
  }
  snapshot_ = std::move(taken);
}

const Broker::Snapshot* Broker::snapshot(uint64_t flushed) {
  const auto is_new = [this] { return !snapshot_->clients.empty() || snapshot_->position != stored_position_; };
  if (!snapshot_ || position_ <= flushed || !is_new()) take_snapshot();
  return is_new() && snapshot_->reach <= flushed ? snapshot_.get() : nullptr;
}

void Broker::stored() {
  for (const Snapshot::Client& each : snapshot_->clients) {
    Client& c = clients_[each.slot];
    c.is_stored = true;
    c.stored = each.marks;
    c.stored_scan = each.scan;
    c.stored_lowest = each.lowest_frame;
  }
  stored_position_ = snapshot_->position;
  take_snapshot();  // for the time when the journal is flushed up to this position
}

uint64_t Broker::decided(size_t slot) const {
  const Client& c = at(slot);
  return c.is_stored ? std::min(std::max(c.stored_scan, stored_position_), c.stored_lowest) : 0;
}

uint64_t Broker::stored_needed() const {
  uint64_t lowest = stored_position_;
  for (size_t slot : live_) {
    if (!clients_[slot].is_stored) return 0;
    lowest = std::min(lowest, clients_[slot].stored_lowest);
  }
  return lowest;
}

Broker::Extent Broker::plan_restore(size_t slot, const Checkpoint& from) const {
  return plan_list(slot, at(slot).filters, from.accepted.size());
}

void Broker::bring_up_to_date(size_t slot, uint64_t position, Checkpoint* from) {
  from->broker.scan = std::max(from->broker.scan, position);
  if (from->format < 4) {
    class_rows(slot, from);
  } else if (from->format < 5) {
    list_mixed(slot, from);
  } else {
    return;
  }
  // These releases listed rows that are dropped, beside as many others as the limit. All limited rows before them are
  // dropped, too.
  BrokerRecord& w = from->broker;
  const uint64_t floor = w.floor().limited;
  const auto waits = std::find_if(from->accepted.begin(), from->accepted.end(),
                                  [floor](const Queued& each) { return each.end() > floor; });
  if (waits == from->accepted.begin()) return;
  w.lag_rows.limited = std::prev(waits)->end();
  w.lag_limited_at = std::prev(waits)->frame + 1;
  from->accepted.erase(from->accepted.begin(), waits);
}

void Broker::restore(size_t slot, const Checkpoint& from) {
  Client& c = at(slot);
  ClientBlock& block = arena_.client(slot);
  const uint64_t room = room_for(slot, c.filters, from.accepted.size());
  if (room > c.w.accepted_room) replace_list(slot, room);
  for (size_t i = 0; i < from.in_flight.size(); ++i) {
    block.in_flight.frame[i].put(from.in_flight[i].frame);
    block.in_flight.span[i].put(RowSpan::pack(from.in_flight[i].first, from.in_flight[i].rows));
  }
  ServerRecord s = from.server;
  s.base = s.lo;
  s.ranges = from.in_flight.size();
  s.hint = 0;
  BrokerRecord w = from.broker;
  w.accepted_offset = c.w.accepted_offset;
  w.accepted_room = c.w.accepted_room;
  w.accepted_head = w.accepted_tail = 0;
  w.tail = 0;
  c.w = w;
  for (const Queued& each : from.accepted) accept(slot, each);
  c.writable = 0;
  block.server.publish(s);
  publish(slot, w.scan);
  if (w.lag) lagging_.push_back(slot);
  touch(slot);
}

// Lists waiting rows that match filters of both kinds as if a limit had accepted them, in their order among the others.
void Broker::list_mixed(size_t slot, Checkpoint* from) {
  const BrokerRecord& w = from->broker;
  if (!w.lag) return;
  uint64_t limited = w.lag_rows.limited;
  std::vector<Queued> listed;
  auto next = from->accepted.begin();
  for (uint64_t at = std::max(w.lag, arena_.control().reader.first.relaxed()); at < w.scan;) {
    const FrameSource::Frame frame = frames_.frame(at);
    const Verdict v = judge_one(slot, at, frame);
    for (; next != from->accepted.end() && next->frame <= at; ++next) {
      listed.push_back(*next);
      limited = next->end();
    }
    if ((v.rule == Rule::oldest || v.is_mixed) && at >= w.lag_limited_at) {
      if (v.is_mixed) listed.push_back({at, limited, frame.rows, true, true});
      limited += frame.rows;
    }
    at = frame.next;
  }
  from->accepted = std::move(listed);
}

// Classes the rows of a checkpoint that numbered all rows of a client alike and did not record which rows a limit
// accepted. Finds the waiting rows in the journal once more and counts them by class. All rows before them count as
// limited.
void Broker::class_rows(size_t slot, Checkpoint* from) {
  BrokerRecord& w = from->broker;
  ServerRecord& s = from->server;
  const uint64_t queued = w.queued.limited;
  const uint64_t head = std::max(s.hi, w.floor().limited);
  uint64_t start = from->waiting.empty() ? w.lag : from->waiting.front().frame;
  w.lag = 0;
  s.limited = s.hi;
  if (!start) return;
  start = std::max(start, arena_.control().reader.first.relaxed());
  Counts found;
  bool kept_first = false;
  auto next = from->waiting.begin();
  for (uint64_t at = start; at < w.scan;) {
    const FrameSource::Frame frame = frames_.frame(at);
    const auto [rule, limit, is_mixed] = judge_one(slot, at, frame);
    while (next != from->waiting.end() && next->frame < at) ++next;
    const bool is_listed = next != from->waiting.end() && next->frame == at;
    uint32_t rows = rule == Rule::none ? 0 : frame.rows;
    if (rule == Rule::newest && !is_mixed) rows = is_listed ? next->first + next->rows : 0;
    if (rule == Rule::newest && rows) from->accepted.push_back({at, found.limited, rows, true, true});
    if (rows && !found.total()) kept_first = rule == Rule::keep;
    found.of(rule != Rule::keep) += rows;
    at = frame.next;
  }
  if (found.total() > queued) {
    throw ArenaError("the checkpoint of client '" + arena_.name(slot) + "' does not fit its filters: " +
                     std::to_string(queued) + " rows were queued, " + std::to_string(found.total()) + " wait");
  }
  const uint64_t before = queued - found.total();  // rows before `start`
  for (Queued& each : from->accepted) each.before += before;
  w.lag = start;
  w.lag_rows = {0, before};
  w.queued = {found.kept, before + found.limited};
  const uint64_t part = head > before ? head - before : 0;  // rows of the first frame that were handed out or dropped
  if (kept_first && part) {
    s.limited = std::min(s.hi, before);
    w.floor_limit = std::min(w.floor_limit, before);
    w.floor_cut = {part, before};
    w.floor_flush.limited = std::min(w.floor_flush.limited, before);
  } else {
    w.floor_cut.limited = std::max(w.floor_cut.limited, before);  // frames that are gone
  }
}

namespace {

// The records of formats 2 and 3, in which a client's rows were one class. Format 2 ends before `repeats`.
struct OldBroker {
  uint64_t scan, matched, queued, tail, ring_offset, ring_slots, ring_epoch, lag, lag_number;
  uint64_t floor_limit, floor_cut, floor_flush, dropped_newest, newest_at, oldest_at, cut_at, flush_at, most_waiting;
};
struct OldServer {
  uint64_t lo, hi, base, ranges, hint, confirmed, dropped_limit, dropped_cut, dropped_flush, undecodable,
      undecodable_at;
  uint64_t served, most_waiting, repeats, skipped, skipped_at;
};

template <typename T>
void put(std::string* out, const T* items, size_t count) {
  out->append(reinterpret_cast<const char*>(items), count * sizeof(T));
}

template <typename T>
void take(Reader& r, T* items, size_t count) {
  if (count) std::memcpy(static_cast<void*>(items), r.take(count * sizeof(T)).data, count * sizeof(T));
}

void take_old(Reader& r, uint64_t format, Checkpoint* c) {
  OldBroker b{};
  OldServer s{};
  take(r, &b, 1);
  take(r, reinterpret_cast<uint64_t*>(&s), (format == 2 ? offsetof(OldServer, repeats) : sizeof s) / 8);
  c->broker.scan = b.scan;
  c->broker.queued.limited = b.queued;
  c->broker.lag = b.lag;
  c->broker.floor_limit = b.floor_limit;
  c->broker.floor_cut.limited = b.floor_cut;
  c->broker.floor_flush.limited = b.floor_flush;
  c->broker.dropped_newest = b.dropped_newest;
  c->broker.newest_at = b.newest_at;
  c->broker.oldest_at = b.oldest_at;
  c->broker.cut_at = b.cut_at;
  c->broker.flush_at = b.flush_at;
  c->broker.most_waiting = b.most_waiting;
  c->server.lo = s.lo;
  c->server.hi = s.hi;
  c->server.confirmed = s.confirmed;
  c->server.dropped_limit = s.dropped_limit;
  c->server.dropped_cut = s.dropped_cut;
  c->server.dropped_flush = s.dropped_flush;
  c->server.undecodable = s.undecodable;
  c->server.undecodable_at = s.undecodable_at;
  c->server.served = s.served;
  c->server.most_waiting = s.most_waiting;
  c->server.repeats = s.repeats;
  c->server.skipped = s.skipped;
  c->server.skipped_at = s.skipped_at;
}

// An older release had room for more ranges in flight: the newest of them wait once more, before all others.
void fit(Checkpoint* c) {
  std::vector<Range>& in_flight = c->in_flight;
  if (in_flight.size() <= kInFlightRanges) return;
  uint64_t number = c->server.lo;
  for (size_t i = 0; i < kInFlightRanges; ++i) number += in_flight[i].rows;
  c->server.hi = number;
  c->waiting.insert(c->waiting.begin(), in_flight.begin() + kInFlightRanges, in_flight.end());
  in_flight.resize(kInFlightRanges);
}

}  // namespace

// The words as in memory, after a format number and the two lengths of what follows.
std::string Checkpoint::pack() const {
  std::string out;
  const uint64_t head[] = {kFormat, in_flight.size(), accepted.size()};
  put(&out, head, 3);
  put(&out, &broker, 1);
  put(&out, &server, 1);
  put(&out, in_flight.data(), in_flight.size());
  for (const Queued& each : accepted) {
    const uint64_t words[] = {each.frame, each.before, each.rows};
    put(&out, words, 3);
  }
  return out;
}

uint64_t Checkpoint::lowest_frame() const {
  uint64_t lowest = broker.lag ? broker.lag : UINT64_MAX;
  for (const Range& r : in_flight) lowest = std::min(lowest, r.frame);
  return lowest;
}

Checkpoint Checkpoint::unpack(Bytes packed) {
  Checkpoint c;
  Reader r(packed);
  const uint64_t format = c.format = r.u64();
  const uint64_t in_flight = r.u64();
  const uint64_t others = r.u64();  // accepted ones, or in an old format those that wait
  const bool is_old = format == 2 || format == 3;
  const size_t old_server = format == 2 ? offsetof(OldServer, repeats) : sizeof(OldServer);
  const size_t records = is_old ? sizeof(OldBroker) + old_server : sizeof c.broker + sizeof c.server;
  const size_t other = is_old ? sizeof(Range) : 3 * sizeof(uint64_t);
  const uint64_t most = r.left() / sizeof(Range);
  if ((!is_old && format != 4 && format != kFormat) || in_flight > most || others > most ||
      r.left() != records + in_flight * sizeof(Range) + others * other) {
    throw ArenaError("the checkpoint of a client is damaged or of another version");
  }
  if (is_old) {
    take_old(r, format, &c);
  } else {
    take(r, &c.broker, 1);
    take(r, &c.server, 1);
  }
  c.in_flight.resize(in_flight);
  take(r, c.in_flight.data(), in_flight);
  if (is_old) {
    c.waiting.resize(others);
    take(r, c.waiting.data(), others);
    fit(&c);
    return c;
  }
  for (uint64_t i = 0; i < others; ++i) {
    uint64_t words[3];
    take(r, words, 3);
    c.accepted.push_back({words[0], words[1], static_cast<uint32_t>(words[2]), true, true});
  }
  return c;
}

}  // namespace relay
