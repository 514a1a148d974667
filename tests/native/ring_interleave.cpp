// Readers interrupted at each of their loads, by everything that a writer may do meanwhile.
#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <utility>

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
    f.table = 1 + position / 8 % tables;
    return f;
  }
  Names names(uint64_t table) override { return {"s", table == 1 ? "t0" : "t1"}; }
  uint64_t tables = 2;
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
    const size_t size = Arena::size_for(kTwins, kPage, 1, kRing);
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    bytes = size;
    Arena::format(memory, kTwins, kPage, 1, kRing);
    arena = std::make_unique<Arena>(memory, size);
    arena->control().reader.committed.set(kStart);
    broker = std::make_unique<Broker>(*arena, journal, 1);
    broker->step(1);
    for (size_t c = 0; c < kTwins; ++c) {
      broker->add_client(c + 1, "twin");
      broker->admit(c);
      broker->set_filters(c, {filter(c ? "t1" : "t0", 1, limit)});
    }
  }
  ~Scene() { munmap(memory, bytes); }

  void advance(uint64_t frames) {
    Word& committed = arena->control().reader.committed;
    committed.set(committed.get() + 8 * frames);
    while (broker->pending()) broker->step(8000);
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
    uint64_t sum = v.server.confirmed + v.in_flight() + (v.broker.queued.total() - v.server.hi) +
                   v.broker.dropped_newest + v.server.dropped_limit + v.server.dropped_flush;
    if (sum != v.broker.matched()) fail("interrupted at load " + std::to_string(n) + ", a view's accounts are wrong");
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

// A server that enters a block, interrupted at each of its looks and stores by a broker that gives the block to another
// client if it is free.
void lose_block() {
  bool reached = true;
  for (int n = 1; reached; ++n) {
    Scene scene(0);
    reached = false;
    g_interrupt = [&] {
      reached = true;
      scene.broker->remove_client(0);
      try {
        scene.broker->admit(scene.broker->add_client(3, "third"));
      } catch (const ArenaError&) {  // the server holds it
      }
    };
    g_interrupt_at = n;
    const bool is_in = QueueServer(*scene.arena, 0).enter(1);
    g_interrupt_at = 0;
    if (is_in && scene.arena->id(0).get() == 3) {
      fail("interrupted at access " + std::to_string(n) + ", a server is in a block that is another client's");
    }
  }
}

// However many rows come in one step, a limit leaves as many as it says, and a lower one trims nothing.
void keep_the_limit() {
  for (uint64_t limit : {1u, 2u, 3u, 4u, 7u}) {
    Scene scene(limit);
    scene.journal.tables = 1;
    scene.advance(40);
    const uint64_t waiting = scene.arena->view(0).waiting();
    if (waiting != limit) fail(std::to_string(waiting) + " rows wait instead of " + std::to_string(limit));
    scene.broker->set_filters(0, {filter("t0", 1, 1)});
    scene.advance(40);
    const uint64_t left = scene.arena->view(0).waiting();
    if (left != limit) fail("a lower limit leaves " + std::to_string(left) + " rows of " + std::to_string(limit));
  }
}

// Three tables by turns.
struct ThirdsJournal final : FrameSource {
  Frame frame(uint64_t position) override { return {position + 8, kRows, 1, 1 + position / 8 % 3}; }
  Names names(uint64_t table) override { return {"s", "t" + std::to_string(table - 1)}; }
};

using Numbered = std::vector<std::pair<uint64_t, uint64_t>>;  // number, and frame with row

// A queue far longer than its ring.
struct LongQueue {
  explicit LongQueue(std::vector<Filter> asked) : filters(std::move(asked)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    Arena::format(memory, 1, 2 * kPage, 1, kRing);
    arena = std::make_unique<Arena>(memory, bytes);
    arena->control().reader.committed.set(kStart);
  }
  ~LongQueue() { munmap(memory, bytes); }

  std::unique_ptr<Broker> broker() {
    auto made = std::make_unique<Broker>(*arena, journal, 1);
    if (!arena->id(0).get()) {
      made->step(1);
      made->admit(made->add_client(1, "client"));
    }
    made->set_filters(0, filters);
    return made;
  }
  void decide(Broker& broker) {
    for (uint64_t frames : {60u, kFrames}) {
      Word& committed = arena->control().reader.committed;
      const uint64_t end = kStart + 8 * frames;
      if (committed.get() < end) committed.set(end);
      while (broker.pending()) broker.step(8000);
    }
  }
  Numbered drain(Broker& broker) {
    Numbered rows;
    QueueServer q(*arena, 0);
    while (arena->view(0).waiting()) {
      Range ranges[8];
      const Peek p = q.peek(ranges, 8, UINT64_MAX);
      if (!p.rows) fail("a successor's queue stands still");
      q.publish(p, ranges, p.ranges, p.rows, true);
      uint64_t number = p.number;
      for (size_t i = 0; i < p.ranges; ++i) {
        for (uint64_t k = 0; k < ranges[i].rows; ++k) rows.push_back({number++, ranges[i].frame + ranges[i].first + k});
      }
      broker.step(8000);
    }
    return rows;
  }

  static constexpr unsigned kFrames = 150;
  const size_t bytes = Arena::size_for(1, 2 * kPage, 1, kRing);
  std::vector<Filter> filters;
  ThirdsJournal journal;
  void* memory = nullptr;
  std::unique_ptr<Arena> arena;
};

// Filters that all drop the oldest: each row that finds its limit reached displaces one.
Numbered left_by(const uint64_t (&limits)[3]) {
  std::deque<std::pair<uint64_t, uint64_t>> queue;
  uint64_t number = 0;
  for (uint64_t at = kStart; at < kStart + 8 * LongQueue::kFrames; at += 8) {
    for (uint64_t row = 0; row < kRows; ++row) {
      if (queue.size() >= limits[at / 8 % 3]) queue.pop_front();
      queue.push_back({number++, at + row});
    }
  }
  return {queue.begin(), queue.end()};
}

// A list of accepted rows that moves while its rows wait behind the ring, some of them dropped.
void move_a_list() {
  std::vector<Filter> filters = {filter("t0", 0, 0), filter("t1", 2, 60), filter("t2", 1, 50)};
  LongQueue stays(filters), moves(filters);
  const auto first = stays.broker(), second = moves.broker();
  stays.decide(*first);
  moves.decide(*second);
  filters.push_back(filter("none", 2, 100));
  second->set_filters(0, filters);
  if (stays.drain(*first) != moves.drain(*second)) fail("a list that moves is another one");
}

void displace_one() {
  for (const uint64_t longest : {1u, 2u, 10u, 36u, 44u, 100u}) {  // some of them longer than the ring
    for (const uint64_t shortest : {1u, 2u, 3u, 5u}) {
      const uint64_t limits[] = {longest, shortest, 7};
      LongQueue queue({filter("t0", 1, limits[0]), filter("t1", 1, limits[1]), filter("t2", 1, limits[2])});
      const auto broker = queue.broker();
      queue.decide(*broker);
      if (queue.drain(*broker) != left_by(limits)) fail("a limit displaces other rows than the oldest, one for each");
    }
  }
}

// A broker that dies at any access to shared memory while it decides rows: what it leaves can be read, and its
// successor's queue is the same.
void die_deciding(const std::vector<Filter>& filters) {
  LongQueue whole(filters);
  const auto first = whole.broker();
  whole.decide(*first);
  const auto expected = whole.drain(*first);
  LongQueue queue(filters), left(filters);
  const auto broker = queue.broker();
  uint64_t accesses = 0;
  g_interrupt = [&] {
    ++accesses;
    std::memcpy(left.memory, queue.memory, queue.bytes);
    Range range;
    QueueServer(*left.arena, 0).peek(&range, 1, UINT64_MAX);
    const auto successor = left.broker();
    left.decide(*successor);
    if (left.drain(*successor) != expected) fail("killed at access " + std::to_string(accesses) + ", rows are others");
    g_interrupt_at = 1;
  };
  g_interrupt_at = 1;
  queue.decide(*broker);
  g_interrupt_at = 0;
  if (!accesses) fail("a broker decides without an access to shared memory");
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
  lose_block();
  keep_the_limit();
  displace_one();
  move_a_list();
  die_deciding({filter("t0", 0, 0), filter("t1", 2, 60), filter("t2", 1, 50)});  // kept, let in, and dropped
  die_deciding({filter("t0", 1, 36), filter("t1", 1, 3), filter("t2", 1, 7)});   // of one ring; each displaces one
  for (uint64_t before : {0u, 7u, 10u, 33u}) {
    for (uint64_t more : {1u, 5u, 6u, 7u, 16u, 40u}) overtake_deliveries(before, more);
  }
  auto peek = [](Scene& scene, int n) { scene.check_peek(static_cast<uint64_t>(n)); };
  auto view = [](Scene& scene, int n) { scene.check_view(static_cast<uint64_t>(n)); };
  for (uint64_t frames : {6u, 11u, 30u}) {
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
