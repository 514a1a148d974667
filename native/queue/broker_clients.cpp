// Adding and removing of clients: their blocks, lists and filters.
#include <algorithm>

#include "queue/broker.hpp"
#include "queue/queue.hpp"

namespace relay {

uint64_t power_of_two_above(uint64_t n) {
  uint64_t p = 1;
  while (p <= n) p <<= 1;
  return p;
}

Broker::Broker(const Arena& arena, FrameSource& frames, uint64_t generation)
    : arena_(arena), frames_(frames), clients_(arena.max_clients()) {
  auto& words = arena_.control().broker;
  if (words.generation.relaxed() != generation) {  // the queues belong to another journal
    for (size_t slot = 0; slot < clients_.size(); ++slot) retire(slot);
    words.scan.put(0);
    words.generation.put(generation);
  }
  position_ = words.scan.relaxed();
  for (size_t slot = 0; slot < clients_.size(); ++slot) {
    uint64_t id = arena_.id(slot).relaxed();
    if (!id) continue;
    clients_[slot].id = id;
    clients_[slot].w = arena_.client(slot).broker.read();
    require_list(slot);
    clients_[slot].floor = clients_[slot].w.floor();
    live_.push_back(slot);
    if (clients_[slot].w.lag) lagging_.push_back(slot);
    touch(slot);  // the predecessor may have died between publishing and waking
  }
}

// Checks a record that a predecessor left: memory that a damaged one points to must not be written.
void Broker::require_list(size_t slot) const {
  const BrokerRecord& w = clients_[slot].w;
  if (!w.accepted_room) return;
  const ArenaHeader& h = arena_.header();
  const uint64_t end = h.pool_offset + h.pool_size;
  const bool is_inside = w.accepted_offset >= h.pool_offset && w.accepted_offset <= end &&
                         w.accepted_offset % sizeof(Word) == 0 &&
                         w.accepted_room <= (end - w.accepted_offset) / sizeof(Accepted);
  if (is_power_of_two(w.accepted_room) && is_inside) return;
  throw ArenaError(
      "queue of client '" + arena_.name(slot) + "' is damaged: " + std::to_string(w.accepted_room) + " entries at " +
      std::to_string(w.accepted_offset) +
      " are not a list; stop the relay and delete its shared memory, which DataDir/arena names: queues are then"
      " made again from state.db");
}

// The first step begins at the lowest position of a client's checkpoint or first filter.
void Broker::begin(uint64_t committed) {
  uint64_t start = committed;
  for (size_t slot : live_) {
    const Client& c = clients_[slot];
    if (c.w.scan) start = std::min(start, c.w.scan);
    for (const Filter& f : c.filters) {
      if (!c.w.scan && f.from) start = std::min(start, f.from);
    }
  }
  position_ = std::max(start, arena_.control().reader.first.relaxed());
  arena_.control().broker.scan.put(position_);
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
  size_t slot = 0;
  while (slot < clients_.size() && !is_free(slot)) ++slot;
  if (slot == clients_.size()) {
    throw ArenaError("MaxClients (" + std::to_string(clients_.size()) +
                     ") is reached until the servers let go of clients that were forgotten; try again in a second");
  }
  Word& slots = arena_.control().broker.slots;
  if (slot >= slots.relaxed()) slots.put(slot + 1);
  ClientBlock& block = arena_.client(slot);
  Client& c = clients_[slot];
  c = Client{};
  c.id = id;
  block.server.publish(ServerRecord{});  // a free block has no owner
  ServerLine& line = block.line;
  for (Word* word : {&line.waiting, &line.connected, &line.last_poll, &line.taken}) word->put(0);
  block.deliveries.clear();
  publish(slot, position_);
  char text[kNameBytes] = {};
  std::memcpy(text, name.data(), name.size());
  for (size_t i = 0; i < kNameBytes / 8; ++i) block.name.text[i].put(load<uint64_t>(text + 8 * i));
  block.name.size.put(name.size());
  live_.insert(std::lower_bound(live_.begin(), live_.end(), slot), slot);
  return slot;
}

void Broker::admit(size_t slot) { arena_.id(slot).set(at(slot).id); }

void Broker::retire(size_t slot) {
  arena_.id(slot).put(0);
  fence(std::memory_order_seq_cst);  // either we see that a server holds it, or it sees it retired
}

bool Broker::is_leased(size_t slot) const {
  for (uint64_t worker = 0; worker < arena_.workers(); ++worker) {
    if (arena_.lease(worker, slot).get()) return true;
  }
  return false;
}

bool Broker::is_free(size_t slot) const { return !clients_[slot].id && !is_leased(slot); }

void Broker::remove_client(size_t slot) {
  at(slot);
  retire(slot);
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

// More entries than the largest limit that drops the newest, so that the list has room for all that such limits accept.
// A row may have the limit of a drop-oldest filter, and drop the newest because of another filter.
uint64_t Broker::room_for(size_t slot, const std::vector<Filter>& filters, uint64_t entries) const {
  const BrokerRecord& w = clients_[slot].w;
  const uint64_t listed = std::max(entries, w.accepted_tail - w.accepted_head);
  uint64_t limit = listed ? listed - 1 : 0;
  const auto drops_newest = [](const Filter& f) { return f.limit && f.discard != kDropOldest; };
  if (std::any_of(filters.begin(), filters.end(), drops_newest)) {
    for (const Filter& f : filters) limit = std::max(limit, f.limit);
  }
  const uint64_t most = arena_.header().pool_size / sizeof(Accepted);
  if (limit && limit >= most) {
    throw ArenaError("queue limit " + std::to_string(limit) + " of client '" + arena_.name(slot) + "' is above what " +
                     "the shared memory for queues can hold (" + std::to_string(most) + ")");
  }
  return limit || listed ? power_of_two_above(limit) : 0;
}

Broker::Extent Broker::find_extent(size_t slot, uint64_t entries) const {
  const ArenaHeader& h = arena_.header();
  std::vector<Extent> taken;
  for (size_t other : live_) {
    const BrokerRecord& w = clients_[other].w;
    if (w.accepted_room) taken.push_back({w.accepted_offset, w.accepted_room * sizeof(Accepted)});
  }
  std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  uint64_t start = h.pool_offset;
  uint64_t length = entries * sizeof(Accepted);
  for (const Extent& e : taken) {
    if (e.offset - start >= length) break;
    start = e.offset + (e.length + kPage - 1) / kPage * kPage;
  }
  if (start + length > h.pool_offset + h.pool_size) {
    throw ArenaError("no room for a queue of " + std::to_string(entries) + " ranges for client '" + arena_.name(slot) +
                     "': the shared memory for queues is used up");
  }
  return {start, length};
}

Broker::Extent Broker::plan_list(size_t slot, const std::vector<Filter>& filters, uint64_t entries) const {
  const uint64_t wanted = room_for(slot, filters, entries);
  if (wanted <= at(slot).w.accepted_room) return {};
  return find_extent(slot, wanted);
}

void Broker::set_filters(size_t slot, std::vector<Filter> filters) {
  Client& c = at(slot);
  const uint64_t room = room_for(slot, filters, 0);
  if (room > c.w.accepted_room) {
    replace_list(slot, room);
  } else if (room < c.w.accepted_room && c.w.accepted_head == c.w.accepted_tail) {
    c.w.accepted_room = room;
    publish(slot, scan_of(slot));
  }
  c.filters = std::move(filters);
  ++c.filters_set;
  forget_audiences();
}

// Copies the list to another position. The old list is in force until the publish, and free after it.
void Broker::replace_list(size_t slot, uint64_t entries) {
  Client& c = at(slot);
  BrokerRecord next = c.w;
  next.accepted_room = entries;
  next.accepted_offset = find_extent(slot, entries).offset;
  for (uint64_t i = c.w.accepted_head; i < c.w.accepted_tail; ++i) {
    const Queued each = accepted(slot, i);
    Accepted& copy = arena_.accepted(next)[Slot::place(i, entries)];
    copy.frame.put(each.frame);
    copy.before.put(each.before);
    copy.rows.put(each.rows);
  }
  c.w = next;
  publish(slot, scan_of(slot));
}

}  // namespace relay
