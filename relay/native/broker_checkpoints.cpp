// How clients survive a cold start: what is written down of each, and how it becomes a queue again.
#include <algorithm>

#include "broker.hpp"
#include "queue.hpp"

namespace relay {

namespace {

// What such a client was given cannot be told from its filters alone.
bool drops_newest(const std::vector<Filter>& filters) {
  auto does = [](const Filter& f) { return f.limit && f.discard != kDropOldest; };
  return std::any_of(filters.begin(), filters.end(), does);
}

}  // namespace

Checkpoint Broker::checkpoint(size_t slot) {
  const Client& c = at(slot);
  const ClientBlock& block = arena_.client(slot);
  Checkpoint out;
  for (;;) {
    uint64_t version = 0;
    out.server = block.server.read(&version);
    out.in_flight.resize(kInFlightRanges);
    out.in_flight.resize(out.server.lo < out.server.hi ? copy_in_flight(block, out.server, out.in_flight.data()) : 0);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (block.server.version() == version) break;
  }
  out.broker = c.w;
  out.broker.scan = scan_of(slot);
  const Slot* ring = arena_.ring(c.w.ring_offset);
  uint64_t from = std::max(out.server.hi, c.w.floor());
  SlotCopy s;
  for (uint64_t i = find_slot(ring, c.w, 0, from); i < c.w.tail && s.load(ring, c.w.ring_slots, i); ++i) {
    if (!drops_newest(c.filters)) {
      out.broker.lag = s.frame;
      out.broker.lag_number = s.number;
      break;
    }
    uint64_t skipped = from > s.number ? from - s.number : 0;
    out.waiting.push_back({s.frame, Slot::first_of(s.span) + static_cast<uint32_t>(skipped),
                           static_cast<uint32_t>(s.end() - s.number - skipped)});
  }
  return out;
}

Marks Broker::marks(size_t slot) const {
  const ClientBlock& block = arena_.client(slot);
  return {block.broker.version(), block.server.version(), clients_[slot].filters_set};
}

void Broker::take_snapshot() {
  auto taken = std::make_unique<Snapshot>();
  taken->position = taken->reach = position_;
  constexpr size_t kAhead = 8;  // clients whose marks are fetched while others are looked at
  for (size_t i = 0; i < live_.size(); ++i) {
    if (i + kAhead < live_.size()) {
      const size_t next = live_[i + kAhead];
      __builtin_prefetch(&arena_.client(next).broker);
      __builtin_prefetch(&arena_.client(next).server);
      __builtin_prefetch(&clients_[next].stored);
    }
    const size_t slot = live_[i];
    const Client& c = clients_[slot];
    const Marks now = marks(slot);  // first: what changes during the copy is copied once more
    if (c.is_stored && now == c.stored) continue;
    const Checkpoint copy = checkpoint(slot);
    taken->reach = std::max(taken->reach, copy.broker.scan);
    taken->clients.push_back({slot, c.id, now, copy.broker.scan, copy.held(), copy.pack()});
  }
  snapshot_ = std::move(taken);
}

const Broker::Snapshot* Broker::snapshot(uint64_t flushed) {
  if (!snapshot_ || position_ <= flushed) take_snapshot();
  return snapshot_->reach <= flushed ? snapshot_.get() : nullptr;
}

void Broker::stored() {
  for (const Snapshot::Client& each : snapshot_->clients) {
    Client& c = clients_[each.slot];
    c.is_stored = true;
    c.stored = each.marks;
    c.stored_scan = each.scan;
    c.stored_held = each.held;
  }
  stored_position_ = snapshot_->position;
  take_snapshot();  // for the time when the journal is flushed up to here
}

uint64_t Broker::decided(size_t slot) const {
  const Client& c = at(slot);
  return c.is_stored ? std::min(std::max(c.stored_scan, stored_position_), c.stored_held) : 0;
}

uint64_t Broker::stored_needed() const {
  uint64_t lowest = stored_position_;
  for (size_t slot : live_) {
    if (!clients_[slot].is_stored) return 0;
    lowest = std::min(lowest, clients_[slot].stored_held);
  }
  return lowest;
}

Broker::Extent Broker::plan_restore(size_t slot, const Checkpoint& from) const {
  return plan_ring(slot, at(slot).filters, power_of_two_above(from.waiting.size()));
}

void Broker::restore(size_t slot, const Checkpoint& from, uint64_t position) {
  Client& c = at(slot);
  ClientBlock& block = arena_.client(slot);
  const uint64_t slots = ring_slots_for(slot, c.filters, power_of_two_above(from.waiting.size()));
  if (slots > c.w.ring_slots) replace_ring(slot, slots);
  for (size_t i = 0; i < from.in_flight.size(); ++i) {
    block.in_flight.frame[i].put(from.in_flight[i].frame);
    block.in_flight.span[i].put(Slot::pack(from.in_flight[i].first, from.in_flight[i].rows));
  }
  ServerRecord s = from.server;
  s.base = s.lo;
  s.ranges = from.in_flight.size();
  s.hint = 0;
  BrokerRecord w = from.broker;
  w.ring_offset = c.w.ring_offset;
  w.ring_slots = c.w.ring_slots;
  w.ring_epoch = c.w.ring_epoch + 1;
  w.scan = std::max(w.scan, position);
  w.tail = 0;
  clear_ring(w.ring_offset, w.ring_slots);
  uint64_t number = std::max(s.hi, w.floor());
  for (const Range& r : from.waiting) {
    Slot& out = arena_.ring(w.ring_offset)[w.tail];
    out.number.put(number);
    out.frame.put(r.frame);
    out.span.put(Slot::pack(r.first, r.rows));
    out.tag.set(++w.tail);
    number += r.rows;
  }
  c.w = w;
  c.writable = 0;
  block.server.publish(s);
  publish(slot, w.scan);
  if (w.lag) lagging_.push_back(slot);
  touch(slot);
}

namespace {

constexpr uint64_t kCheckpointFormat = 3;  // 2: without what the server's record has from `repeats` on

void put_words(std::string* out, const void* words, size_t bytes) {
  out->append(static_cast<const char*>(words), bytes);
}

}  // namespace

// Words and ranges as they stand in memory, after a format number and the number of ranges of both kinds.
std::string Checkpoint::pack() const {
  std::string out;
  const uint64_t head[] = {kCheckpointFormat, in_flight.size(), waiting.size()};
  put_words(&out, head, sizeof head);
  put_words(&out, &broker, sizeof broker);
  put_words(&out, &server, sizeof server);
  put_words(&out, in_flight.data(), in_flight.size() * sizeof(Range));
  put_words(&out, waiting.data(), waiting.size() * sizeof(Range));
  return out;
}

uint64_t Checkpoint::held() const {
  uint64_t lowest = broker.lag ? broker.lag : UINT64_MAX;
  for (const auto* ranges : {&in_flight, &waiting}) {
    for (const Range& r : *ranges) lowest = std::min(lowest, r.frame);
  }
  return lowest;
}

Checkpoint Checkpoint::unpack(Bytes packed) {
  Checkpoint c;
  Reader r(packed);
  const uint64_t format = r.u64();
  const uint64_t in_flight = r.u64();
  const uint64_t waiting = r.u64();
  const uint64_t ranges = r.left() / sizeof(Range);
  const size_t server = format == 2 ? offsetof(ServerRecord, repeats) : sizeof c.server;
  if (format < 2 || format > kCheckpointFormat || in_flight > ranges || waiting > ranges ||
      r.left() != sizeof c.broker + server + (in_flight + waiting) * sizeof(Range)) {
    throw ArenaError("the checkpoint of a client is damaged or of another version");
  }
  std::memcpy(static_cast<void*>(&c.broker), r.take(sizeof c.broker).data, sizeof c.broker);
  std::memcpy(static_cast<void*>(&c.server), r.take(server).data, server);
  auto take = [&r](uint64_t n) {
    std::vector<Range> out(n);
    if (n) std::memcpy(static_cast<void*>(out.data()), r.take(n * sizeof(Range)).data, n * sizeof(Range));
    return out;
  };
  c.in_flight = take(in_flight);
  c.waiting = take(waiting);
  c.fit();
  return c;
}

// A relay before this one had room for more ranges in flight: the newest of them wait once more, before all others.
void Checkpoint::fit() {
  if (in_flight.size() <= kInFlightRanges) return;
  uint64_t number = server.lo;
  for (size_t i = 0; i < kInFlightRanges; ++i) number += in_flight[i].rows;
  const uint64_t end = broker.lag ? std::min(server.hi, broker.lag_number) : server.hi;
  const uint64_t floor = broker.floor();
  server.hi = number;
  std::vector<Range> again;
  for (size_t i = kInFlightRanges; i < in_flight.size() && number < end; ++i) {
    Range r = in_flight[i];
    const uint64_t behind = std::min(number + r.rows, end);
    const uint64_t from = std::min(std::max(number, floor), behind);
    r.first += static_cast<uint32_t>(from - number);
    r.rows = static_cast<uint32_t>(behind - from);
    if (r.rows) again.push_back(r);
    number = behind;
  }
  waiting.insert(waiting.begin(), again.begin(), again.end());
  in_flight.resize(kInFlightRanges);
}

}  // namespace relay
