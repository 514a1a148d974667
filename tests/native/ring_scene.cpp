#include "ring_scene.hpp"

namespace ring_memory {

Arena format(size_t clients, uint64_t slots) {
  const size_t size = Arena::size_for(clients, 0, kWorkers, slots);
  if (size > model::kMemory) fail("the arena is larger than the model's memory");
  std::fill_n(model::memory(), size, uint8_t{0});
  Arena::format(model::memory(), clients, 0, kWorkers, slots);
  return {model::memory(), size};
}

Scene::Scene(uint64_t most, uint64_t tables) : limit(most), arena(format(1, kSlots)) {
  journal.tables = tables;
  committed().set(kStart);
  broker = std::make_unique<Broker>(arena, journal, 1);
  broker->step(1);
  broker->add_client(1, "client");
  broker->set_filters(0, filters());
  broker->admit(0);
}

std::vector<Filter> Scene::filters() const {
  std::vector<Filter> all(journal.tables);
  for (uint64_t i = 0; i < all.size(); ++i) {
    all[i].schema = "s";
    all[i].table = "t" + std::to_string(i + 1);
    all[i].discard = kDropOldest;
    all[i].limit = i + 1 == all.size() ? limit : 0;
  }
  return all;
}

void Scene::decide(uint64_t frames) {
  commit(frames);
  broker->step(frames * kStride);
}

void Scene::check(uint64_t number, const Range* ranges, size_t count) const {
  for (size_t i = 0; i < count; number += ranges[i++].rows) {
    const Range& r = ranges[i];
    if (r.frame != frame_of(number) || r.first != number % kRows || !r.rows || r.first + r.rows > kRows) {
      fail("row " + std::to_string(number) + " is another one");
    }
  }
}

uint64_t Scene::take(uint64_t most) {
  QueueServer q = server();
  Range ranges[kSlots];
  const Peek p = q.peek(ranges, kSlots, most);
  if (p.number < next) fail("rows are handed out again");
  if (p.number > next && !p.passed.limit && !p.passed.flush) fail("rows are left out");
  check(p.number, ranges, p.ranges);
  if (!p.rows) return 0;
  q.publish(p, ranges, p.ranges, p.rows);
  return next = p.number + p.rows;
}

void Scene::drain() {
  QueueServer q = server();
  q.confirm(next);
  while (q.view().waiting()) {
    broker->step(kStride);
    if (!take(UINT64_MAX)) fail("a queue stands still");
    q.confirm(next);
  }
  if (frame_of(next) != committed().get()) fail("rows are missing");
}

}  // namespace ring_memory
