#include "arena.hpp"

#include <algorithm>

namespace relay {

namespace {

constexpr size_t up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

size_t Arena::size_for(uint64_t max_clients, uint64_t pool_bytes, uint64_t default_slots) {
  size_t fixed = control_offset() + sizeof(Control) + max_clients * sizeof(ClientBlock);
  return up(fixed, kPage) + up(max_clients * default_slots * sizeof(Slot), kPage) + up(pool_bytes, kPage);
}

void Arena::format(void* memory, uint64_t max_clients, uint64_t pool_bytes, uint64_t workers, uint64_t default_slots) {
  if (workers < 1 || workers > kMaxWorkers) throw ArenaError("Workers must be 1 to " + std::to_string(kMaxWorkers));
  ArenaHeader h{};
  h.magic = kMagic;
  h.layout = kLayout;
  h.size = size_for(max_clients, pool_bytes, default_slots);
  h.max_clients = max_clients;
  h.workers = workers;
  h.default_slots = default_slots;
  h.clients_offset = control_offset() + sizeof(Control);
  h.rings_offset = up(h.clients_offset + max_clients * sizeof(ClientBlock), kPage);
  h.pool_offset = h.rings_offset + up(max_clients * default_slots * sizeof(Slot), kPage);
  h.pool_size = up(pool_bytes, kPage);
  std::memcpy(memory, &h, sizeof h);
  Control& control = Arena(memory, h.size).control();
  control.exporter.exported.set(kNobody);
  control.logger.logged.set(kNobody);
}

Arena::Arena(void* memory, size_t size) : base_(static_cast<uint8_t*>(memory)), clients_(nullptr) {
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0) throw ArenaError("shared memory is not aligned to 64 bytes");
  if (size < sizeof(ArenaHeader) || header().magic != kMagic) throw ArenaError("shared memory holds no arena");
  if (header().layout != kLayout) throw ArenaError("shared memory has the layout of another version of the relay");
  if (header().size > size) throw ArenaError("shared memory is smaller than its arena");
  if (!is_power_of_two(header().default_slots)) throw ArenaError("shared memory has rings of a size that cannot be");
  clients_ = reinterpret_cast<ClientBlock*>(base_ + header().clients_offset);
}

std::string Arena::name(size_t slot) const {
  const auto& identity = client(slot).identity;
  char text[kNameBytes];
  for (size_t i = 0; i < kNameBytes / 8; ++i) store(text + 8 * i, identity.name[i].relaxed());
  return std::string(text, std::min<size_t>(identity.name_size.get(), kNameBytes));
}

ClientView Arena::view(size_t slot) const {
  const ClientBlock& block = client(slot);
  for (;;) {
    uint64_t version = 0;
    ClientView v;
    v.server = block.server.read(&version);
    v.broker = block.broker.read();
    if (block.server.version() == version) return v;  // the server's record stood still while the broker's was read
  }
}

FloorDrops FloorDrops::between(uint64_t hi, const BrokerRecord& b) {
  FloorDrops d;
  uint64_t at = hi;
  auto take = [&at](uint64_t floor) {
    uint64_t n = floor > at ? floor - at : 0;
    at += n;
    return n;
  };
  d.cut = take(b.floor_cut);
  d.flush = take(b.floor_flush);
  d.limit = take(b.floor_limit);
  return d;
}

bool SlotCopy::load(const Slot* ring, uint64_t slots, uint64_t index) {
  const Slot& slot = ring[Slot::place(index, slots)];
  if (slot.tag.get() != index + 1) return false;
  number = slot.number.relaxed();
  frame = slot.frame.relaxed();
  span = slot.span.relaxed();
  std::atomic_thread_fence(std::memory_order_acquire);
  return slot.tag.relaxed() == index + 1;
}

uint64_t find_slot(const Slot* ring, const BrokerRecord& b, uint64_t hint, uint64_t number) {
  uint64_t low = b.tail > b.ring_slots ? b.tail - b.ring_slots : 0;
  if (hint > low) low = std::min(hint, b.tail);
  uint64_t high = b.tail;
  // A slot without its tag is overwritten, and only slots below those that wait are: it counts as too low.
  auto above = [&](uint64_t index) {
    SlotCopy slot;
    return slot.load(ring, b.ring_slots, index) && slot.end() > number;
  };
  for (uint64_t near = std::min(low + 2, high); low < near; ++low) {
    if (above(low)) return low;
  }
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (above(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace relay
