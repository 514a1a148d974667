// Formatting of the arena, consistent snapshots, and the search for slots.
#include "queue/arena.hpp"

#include <algorithm>

namespace relay {

namespace {

constexpr size_t up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

size_t Arena::size_for(uint64_t max_clients, uint64_t pool_bytes, uint64_t workers, uint64_t ring_slots) {
  size_t fixed = control_offset() + sizeof(Control) + max_clients * sizeof(ClientBlock) +
                 (1 + workers) * words_row(max_clients) * sizeof(Word);
  return up(fixed, kPage) + up(max_clients * ring_slots * sizeof(Slot), kPage) + up(pool_bytes, kPage);
}

void Arena::format(void* memory, uint64_t max_clients, uint64_t pool_bytes, uint64_t workers, uint64_t ring_slots) {
  if (workers < 1 || workers > kMaxWorkers) throw ArenaError("Workers must be 1 to " + std::to_string(kMaxWorkers));
  ArenaHeader h{};
  h.magic = kMagic;
  h.layout = kLayout;
  h.size = size_for(max_clients, pool_bytes, workers, ring_slots);
  h.max_clients = max_clients;
  h.workers = workers;
  h.ring_slots = ring_slots;
  h.clients_offset = control_offset() + sizeof(Control);
  h.ids_offset = h.clients_offset + max_clients * sizeof(ClientBlock);
  h.leases_offset = h.ids_offset + words_row(max_clients) * sizeof(Word);
  h.rings_offset = up(h.leases_offset + workers * words_row(max_clients) * sizeof(Word), kPage);
  h.pool_offset = h.rings_offset + up(max_clients * ring_slots * sizeof(Slot), kPage);
  h.pool_size = up(pool_bytes, kPage);
  std::memcpy(memory, &h, sizeof h);
  Control& control = Arena(memory, h.size).control();
  control.exporter.exported.put(kNobody);
  control.logger.logged.put(kNobody);
}

Arena::Arena(void* memory, size_t size)
    : base_(static_cast<uint8_t*>(memory)), clients_(nullptr), ids_(nullptr), leases_(nullptr) {
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0) throw ArenaError("shared memory is not aligned to 64 bytes");
  if (size < sizeof(ArenaHeader) || header().magic != kMagic) throw ArenaError("shared memory does not hold an arena");
  if (header().layout != kLayout) throw ArenaError("shared memory has the layout of another version of the relay");
  if (header().size > size) throw ArenaError("shared memory is smaller than its arena");
  if (!is_power_of_two(header().ring_slots)) throw ArenaError("shared memory has rings of an impossible size");
  clients_ = reinterpret_cast<ClientBlock*>(base_ + header().clients_offset);
  ids_ = reinterpret_cast<Word*>(base_ + header().ids_offset);
  leases_ = reinterpret_cast<Word*>(base_ + header().leases_offset);
}

void Arena::release_holds() const {
  for (uint64_t worker = 0; worker < workers(); ++worker) {
    for (size_t slot = 0; slot < max_clients(); ++slot) lease(worker, slot).put(0);
  }
}

bool Arena::broker_sleeps() const {
  fence(std::memory_order_seq_cst);  // either the broker sees the store, or we see that it sleeps
  return control().broker.waiting.relaxed();
}

std::string Arena::name(size_t slot) const {
  const auto& name = client(slot).name;
  char text[kNameBytes];
  for (size_t i = 0; i < kNameBytes / 8; ++i) store(text + 8 * i, name.text[i].relaxed());
  const size_t size = std::min<size_t>(name.size.relaxed(), kNameBytes);
  fence(std::memory_order_acquire);  // a reader of `id` then sees if this was another client
  return std::string(text, size);
}

ClientView Arena::view(size_t slot) const {
  const ClientBlock& block = client(slot);
  for (;;) {
    ClientView v;
    v.server = block.server.read(&v.server_version);
    v.broker = block.broker.read(&v.broker_version);
    // The server's record did not change while the broker's was read.
    if (block.server.version() == v.server_version) return v;
  }
}

FloorDrops FloorDrops::between(const Counts& taken, const BrokerRecord& b) {
  FloorDrops d;
  Counts at = taken;
  auto take = [&at](const Counts& floor) {
    const Counts to = highest(at, floor);
    const uint64_t n = to.total() - at.total();
    at = to;
    return n;
  };
  d.cut = take(b.floor_cut);
  d.flush = take(b.floor_flush);
  d.limit = take({0, b.floor_limit});
  return d;
}

bool load_slot(const Slot* ring, uint64_t slots, uint64_t index, Queued* out) {
  const Slot& slot = ring[Slot::place(index, slots)];
  if (slot.tag.relaxed() != index + 1) return false;  // whoever knows the index has acquired its publish
  out->before = slot.before.relaxed();
  out->frame = slot.frame.relaxed();
  const uint64_t what = slot.what.relaxed();
  out->rows = static_cast<uint32_t>(what);
  out->is_limited = what & Slot::kLimited;
  out->is_newest = what & Slot::kNewest;
  fence(std::memory_order_acquire);
  return slot.tag.relaxed() == index + 1;
}

uint64_t find_slot(const Slot* ring, uint64_t slots, const BrokerRecord& b, uint64_t hint, const Counts& done) {
  uint64_t low = b.tail > slots ? b.tail - slots : 0;
  if (hint > low) low = std::min(hint, b.tail);
  uint64_t high = b.tail;
  // Slots without a valid tag are being overwritten, which happens only after their rows are done: they count as too
  // low.
  auto waits = [&](uint64_t index) {
    Queued q;
    return load_slot(ring, slots, index, &q) && q.end() > done.of(q.is_limited);
  };
  // With rows of both classes, dropped rows may be anywhere.
  const bool is_mixed = b.queued.kept && b.queued.limited;
  for (uint64_t near = is_mixed ? high : std::min(low + 2, high); low < near; ++low) {
    if (waits(low)) return low;
  }
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (waits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace relay
