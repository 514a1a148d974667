// The broker's clients: their blocks, rings and filters.
#include <algorithm>

#include "broker.hpp"
#include "queue.hpp"

namespace relay {

uint64_t power_of_two_above(uint64_t n) {
  uint64_t p = 1;
  while (p <= n) p <<= 1;
  return p;
}

Broker::Broker(const Arena& arena, FrameSource& frames, uint64_t generation)
    : arena_(arena), frames_(frames), clients_(arena.max_clients()) {
  auto& words = arena_.control().broker;
  if (words.generation.get() != generation || !words.scan.get()) {
    // Queues of another journal, or left half restored by a predecessor that never took a step.
    for (size_t slot = 0; slot < clients_.size(); ++slot) arena_.client(slot).identity.id.set(0);
    words.scan.set(0);
    words.generation.set(generation);
  }
  position_ = words.scan.get();
  for (size_t slot = 0; slot < clients_.size(); ++slot) {
    uint64_t id = arena_.client(slot).identity.id.get();
    if (!id) continue;
    clients_[slot].id = id;
    clients_[slot].w = arena_.client(slot).broker.read();
    require_ring(slot);
    clients_[slot].floor = clients_[slot].w.floor();
    live_.push_back(slot);
    if (clients_[slot].w.lag) lagging_.push_back(slot);
    touch(slot);  // the predecessor may have died between publishing and waking
  }
}

// Of a record that a predecessor left: what a damaged one says must not be written to.
void Broker::require_ring(size_t slot) const {
  const BrokerRecord& w = clients_[slot].w;
  const uint64_t end = arena_.header().pool_offset + arena_.header().pool_size;
  const bool is_inside = w.ring_offset >= arena_.header().rings_offset && w.ring_offset <= end &&
                         w.ring_offset % sizeof(Slot) == 0 && w.ring_slots <= (end - w.ring_offset) / sizeof(Slot);
  if (is_power_of_two(w.ring_slots) && is_inside) return;
  throw ArenaError("queue of client '" + arena_.name(slot) + "' is damaged: " + std::to_string(w.ring_slots) +
                   " slots at " + std::to_string(w.ring_offset) +
                   " are no ring; stop the relay and delete its shared memory, which DataDir/arena names: queues are then"
                   " made again from state.db");
}

// The first step begins where the first client of a checkpoint, or its first filter, has to.
void Broker::begin(uint64_t committed) {
  uint64_t start = committed;
  for (size_t slot : live_) {
    const Client& c = clients_[slot];
    if (c.w.scan) start = std::min(start, c.w.scan);
    for (const Filter& f : c.filters) {
      if (!c.w.scan && f.from) start = std::min(start, f.from);
    }
  }
  position_ = std::max(start, arena_.control().reader.first.get());
  arena_.control().broker.scan.set(position_);
}

Broker::Client& Broker::at(size_t slot) {
  if (slot >= clients_.size() || !clients_[slot].id) throw ArenaError("no client in block " + std::to_string(slot));
  return clients_[slot];
}

size_t Broker::add_client(uint64_t id, std::string_view name) {
  if (!id || name.empty() || name.size() > kNameBytes) {
    throw ArenaError("a client needs an id and a name of 1 to " + std::to_string(kNameBytes) + " bytes");
  }
  if (live_.size() == clients_.size()) {
    throw ArenaError("MaxClients is reached: " + std::to_string(clients_.size()) + " are known");
  }
  // Not the block that became free last: a server may not have heard yet that its client is gone.
  while (clients_[next_slot_].id) next_slot_ = (next_slot_ + 1) % clients_.size();
  const size_t slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % clients_.size();
  ClientBlock& block = arena_.client(slot);
  Client& c = clients_[slot];
  c = Client{};
  c.id = id;
  c.w.ring_epoch = block.broker.read().ring_epoch + 1;
  c.w.ring_offset = arena_.default_ring(slot);
  c.w.ring_slots = arena_.header().default_slots;
  clear_ring(c.w.ring_offset, c.w.ring_slots);
  block.server.publish(ServerRecord{});  // nobody owns a free block
  for (Word* word : {&block.line.waiting, &block.line.connected, &block.line.last_poll}) word->set(0);
  block.deliveries.clear();
  publish(slot, position_);
  char text[kNameBytes] = {};
  std::memcpy(text, name.data(), name.size());
  for (size_t i = 0; i < kNameBytes / 8; ++i) block.identity.name[i].put(load<uint64_t>(text + 8 * i));
  block.identity.name_size.put(name.size());
  block.identity.id.set(id);
  live_.insert(std::lower_bound(live_.begin(), live_.end(), slot), slot);
  return slot;
}

void Broker::remove_client(size_t slot) {
  at(slot);
  arena_.client(slot).identity.id.set(0);
  clients_[slot] = Client{};
  if (snapshot_) {
    auto& kept = snapshot_->clients;
    kept.erase(std::remove_if(kept.begin(), kept.end(), [slot](const Snapshot::Client& c) { return c.slot == slot; }),
               kept.end());
  }
  for (std::vector<size_t>* list : {&live_, &touched_, &lagging_}) {
    list->erase(std::remove(list->begin(), list->end(), slot), list->end());
  }
  forget_audiences();
}

// More slots than the largest drop-newest limit: a full ring then proves that such a limit is reached. Other queues may
// be longer than their rings.
uint64_t Broker::ring_slots_for(size_t slot, const std::vector<Filter>& filters, uint64_t slots) const {
  uint64_t limit = 0;
  for (const Filter& f : filters) {
    if (f.discard != kDropOldest) limit = std::max(limit, f.limit);
  }
  uint64_t pool_slots = arena_.header().pool_size / sizeof(Slot);
  uint64_t most = std::max(pool_slots, arena_.header().default_slots);
  if (limit >= most) {
    throw ArenaError("queue limit " + std::to_string(limit) + " of client '" + arena_.name(slot) + "' is above what " +
                     "the shared memory for rings can hold (" + std::to_string(most) + ")");
  }
  return std::max({arena_.header().default_slots, slots, power_of_two_above(limit)});
}

Broker::Extent Broker::find_extent(size_t slot, uint64_t slots) const {
  const ArenaHeader& h = arena_.header();
  if (slots <= h.default_slots) return {arena_.default_ring(slot), slots * sizeof(Slot)};
  std::vector<Extent> taken;
  for (size_t other : live_) {
    const BrokerRecord& w = clients_[other].w;
    if (w.ring_offset >= h.pool_offset) taken.push_back({w.ring_offset, w.ring_slots * sizeof(Slot)});
  }
  std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  uint64_t start = h.pool_offset;
  uint64_t length = slots * sizeof(Slot);
  for (const Extent& e : taken) {
    if (e.offset - start >= length) break;
    start = e.offset + (e.length + Arena::kPage - 1) / Arena::kPage * Arena::kPage;
  }
  if (start + length > h.pool_offset + h.pool_size) {
    throw ArenaError("no room for a queue of " + std::to_string(slots) + " ranges for client '" + arena_.name(slot) +
                     "': the shared memory for rings is used up");
  }
  return {start, length};
}

Broker::Extent Broker::plan_ring(size_t slot, const std::vector<Filter>& filters, uint64_t slots) const {
  const uint64_t wanted = ring_slots_for(slot, filters, slots);
  if (wanted <= at(slot).w.ring_slots) return {};
  return find_extent(slot, wanted);
}

void Broker::set_filters(size_t slot, std::vector<Filter> filters) {
  Client& c = at(slot);
  uint64_t slots = ring_slots_for(slot, filters, 0);
  uint64_t live = c.w.tail - find_slot(arena_.ring(c.w.ring_offset), c.w, 0, head(slot));
  bool shrinks = slots < c.w.ring_slots && slots == arena_.header().default_slots && live <= slots;
  if (slots > c.w.ring_slots || shrinks) replace_ring(slot, slots);
  c.filters = std::move(filters);
  ++c.filters_set;
  forget_audiences();
}

void Broker::clear_ring(uint64_t offset, uint64_t slots) {
  for (uint64_t i = 0; i < slots; ++i) arena_.ring(offset)[i].tag.put(0);
}

// Copies what waits to another ring and publishes that ring. The old memory is free at once: whoever still reads it
// sees afterwards that the ring was replaced, and reads again.
void Broker::replace_ring(size_t slot, uint64_t slots) {
  Client& c = at(slot);
  Extent to = find_extent(slot, slots);
  const Slot* old = arena_.ring(c.w.ring_offset);
  Slot* ring = arena_.ring(to.offset);
  clear_ring(to.offset, slots);
  for (uint64_t i = find_slot(old, c.w, 0, head(slot)); i < c.w.tail; ++i) {
    const Slot& from = old[Slot::place(i, c.w.ring_slots)];
    Slot& copy = ring[Slot::place(i, slots)];
    copy.number.put(from.number.relaxed());
    copy.frame.put(from.frame.relaxed());
    copy.span.put(from.span.relaxed());
    copy.tag.set(i + 1);
  }
  c.w.ring_offset = to.offset;
  c.w.ring_slots = slots;
  c.w.ring_epoch += 1;
  c.writable = c.blocked = 0;
  publish(slot, scan_of(slot));
}

}  // namespace relay
