// Readers interrupted at each of their loads, by everything that a writer may do meanwhile.
#include <sys/mman.h>

#include "ring_processes.hpp"

namespace ring_test {

namespace {

constexpr uint32_t kRows = 3;
constexpr uint64_t kRing = 16;  // slots of a default ring

// Frames of tables "t0" and "t1" by turns, so that two clients have equal slots and row numbers, of other frames.
struct TwinJournal final : FrameSource {
  Frame frame(uint64_t position) override {
    Frame f;
    f.next = position + 8;
    f.rows = kRows;
    f.kind = 1;
    f.table = 1 + position / 8 % 2;
    return f;
  }
  Names names(uint64_t table) override { return {"s", table == 1 ? "t0" : "t1"}; }
};

Filter filter(const char* table, uint32_t discard, uint64_t limit) {
  Filter f;
  f.schema = "s";
  f.table = table;
  f.discard = discard;
  f.limit = limit;
  return f;
}

struct Scene {
  static constexpr size_t kTwins = 2;

  explicit Scene(uint64_t limit) {
    const size_t size = Arena::size_for(kTwins, Arena::kPage, kRing);
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    bytes = size;
    Arena::format(memory, kTwins, Arena::kPage, 1, kRing);
    arena = std::make_unique<Arena>(memory, size);
    arena->control().reader.committed.set(kStart);
    broker = std::make_unique<Broker>(*arena, journal, 1);
    broker->step(1);
    for (size_t c = 0; c < kTwins; ++c) {
      broker->add_client(c + 1, "twin");
      broker->set_filters(c, {filter(c ? "t1" : "t0", 1, limit), filter("none", 2, c ? 0 : 100)});
    }
  }
  ~Scene() { munmap(memory, bytes); }

  void advance(uint64_t frames) {
    Word& committed = arena->control().reader.committed;
    committed.set(committed.get() + 8 * frames);
    while (broker->pending()) broker->step(8000);
  }

  // The first client leaves its large ring, and the second one moves in.
  void swap_rings(uint64_t limit) {
    broker->set_filters(0, {filter("t0", 1, limit)});
    broker->set_filters(1, {filter("t1", 1, limit), filter("none", 2, 100)});
  }

  void check_peek(uint64_t n) {
    Range ranges[64];
    const Peek p = QueueServer(*arena, 0).peek(ranges, 64, UINT64_MAX);
    uint64_t number = p.number;
    for (size_t i = 0; i < p.ranges; ++i) {
      uint64_t frame = kStart + number / kRows * 16;  // every second frame is this client's
      if (ranges[i].frame != frame || ranges[i].first != number % kRows || ranges[i].rows > kRows) {
        fail("interrupted at load " + std::to_string(n) + ", peek gives another row as " + std::to_string(number));
      }
      number += ranges[i].rows;
    }
  }

  void check_view(uint64_t n) {
    const ClientView v = arena->view(0);
    uint64_t sum = v.server.confirmed + v.in_flight() + (v.broker.queued - v.server.hi) + v.broker.dropped_newest +
                   v.server.dropped_limit + v.server.dropped_flush;
    if (sum != v.broker.matched) fail("interrupted at load " + std::to_string(n) + ", a view's accounts are wrong");
  }

  TwinJournal journal;
  void* memory = nullptr;
  size_t bytes = 0;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Broker> broker;
};

// Runs `read` in fresh scenes, interrupted by `meanwhile` at the first, the second ... of its loads, until it has no
// more.
template <typename Read, typename Meanwhile>
void at_each_load(uint64_t limit, uint64_t frames, Read read, Meanwhile meanwhile) {
  for (int n = 1;; ++n) {
    Scene scene(limit);
    scene.advance(frames);
    bool reached = false;
    g_interrupt = [&] {
      reached = true;
      meanwhile(scene);
    };
    g_interrupt_at = n;
    read(scene, n);
    g_interrupt_at = 0;
    if (!reached) return;
  }
}

// A reader of the last deliveries, interrupted at each of its loads by `more` new ones.
void overtake_deliveries(uint64_t before, uint64_t more) {
  bool reached = true;
  for (int n = 1; reached; ++n) {
    auto ring = std::make_unique<Deliveries>();
    uint64_t number = 0;
    auto add = [&](uint64_t count) {
      for (; count; --count, ++number) ring->add(delivery_of(number, kStart + 8 * number));
    };
    add(before);
    reached = false;
    g_interrupt = [&] {
      reached = true;
      add(more);
    };
    g_interrupt_at = n;
    Delivery last[Deliveries::kShown];
    const size_t count = ring->last(last);
    g_interrupt_at = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!whole(last[i]) || last[i].at != last[0].at + i) {
        fail("interrupted at load " + std::to_string(n) + ", a delivery is not the one that was written");
      }
    }
    if (count < std::min<uint64_t>(before, Deliveries::kShown)) fail("a delivery is missing");
  }
}

void take_some(Scene& scene) {
  QueueServer q(*scene.arena, 0);
  Range ranges[2];
  const Peek p = q.peek(ranges, 2, 5);
  q.publish(p, ranges, p.ranges, p.rows);
  q.confirm(p.number + 2);
}

}  // namespace

void interleave() {
  for (uint64_t before : {0u, 7u, 10u, 33u}) {
    for (uint64_t more : {1u, 5u, 6u, 7u, 16u, 40u}) overtake_deliveries(before, more);
  }
  auto peek = [](Scene& scene, int n) { scene.check_peek(static_cast<uint64_t>(n)); };
  auto view = [](Scene& scene, int n) { scene.check_view(static_cast<uint64_t>(n)); };
  for (uint64_t frames : {6u, 11u, 30u}) {
    at_each_load(0, frames, peek, [](Scene& scene) { scene.swap_rings(0); });
    at_each_load(10, frames, peek, [](Scene& scene) { scene.swap_rings(10); });
    at_each_load(0, frames, peek, [](Scene& scene) { scene.broker->flush(0); });
    at_each_load(0, frames, peek, [](Scene& scene) { scene.broker->cut(kStart + 40); });
    for (uint64_t more : {1u, 4u, 9u, 40u}) {
      at_each_load(10, frames, peek, [more](Scene& scene) { scene.advance(more); });
      at_each_load(10, frames, view, [more](Scene& scene) {
        scene.advance(more);
        take_some(scene);
        scene.advance(more);
      });
    }
  }
}

}  // namespace ring_test
