// Who waits for rows, and until when, against a model that looks at all of them.
#include "serve/row_waits.hpp"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "build.hpp"

namespace {

using relay::RowWaits;
using relay::Watch;

constexpr int kMost = 200;
constexpr uint64_t kClient = 7;

// What brokers write.
struct Queues {
  relay::DoubleBuffered<relay::BrokerRecord> records[kMost] = {};
  relay::Word ids[kMost] = {};

  Queues() {
    for (auto& id : ids) id.put(kClient);
  }
  Watch watch(int fd) const {
    const auto at = static_cast<size_t>(fd);
    return {&records[at], records[at].version(), &ids[at], kClient};
  }
  void get_rows(int fd) { records[static_cast<size_t>(fd)].publish({}); }
};

std::set<int> over(RowWaits& waits, double now) {
  std::set<int> all;
  for (int fd = waits.pop(now); fd >= 0; fd = waits.pop(now)) EXPECT(all.insert(fd).second);
  return all;
}

void a_wait_is_over_at_its_time_and_once() {
  Queues queues;
  RowWaits waits;
  EXPECT(waits.first() == INFINITY && waits.pop(1e9) == -1);
  waits.begin(7, 1, 10, queues.watch(7));
  waits.begin(3, 1, 5, queues.watch(3));
  EXPECT(waits.first() == 5 && waits.pop(4.9) == -1);
  EXPECT((over(waits, 10) == std::set<int>{3, 7}));
  EXPECT(over(waits, 100).empty());
}

void the_same_wait_is_not_prolonged() {
  Queues queues;
  RowWaits waits;
  waits.begin(1, 1, 5, queues.watch(1));
  waits.begin(1, 1, 50, queues.watch(1));
  EXPECT(over(waits, 5) == std::set<int>{1});
}

void a_later_wait_replaces_an_earlier_one_with_any_time() {
  Queues queues;
  RowWaits waits;
  waits.begin(1, 1, 5, queues.watch(1));
  waits.begin(1, 2, 50, queues.watch(1));
  EXPECT(over(waits, 49).empty());
  waits.begin(1, 3, 49.5, queues.watch(1));
  EXPECT(over(waits, 49.5) == std::set<int>{1});
  EXPECT(over(waits, 1000).empty());
}

void a_descriptor_that_is_used_again_has_only_its_own_time() {
  Queues queues;
  RowWaits waits;
  waits.begin(1, 1, 5, queues.watch(1));
  waits.forget(1);
  waits.forget(100);
  EXPECT(over(waits, 6).empty());
  waits.begin(1, 1, 9, queues.watch(1));
  EXPECT(over(waits, 8).empty());
  EXPECT(over(waits, 9) == std::set<int>{1});
}

std::set<int> awake(const RowWaits& waits) {
  std::set<int> all;
  size_t place = 0;
  for (int fd = waits.next(&place); fd >= 0; fd = waits.next(&(++place))) EXPECT(all.insert(fd).second);
  return all;
}

void who_has_rows_or_was_forgotten_is_awake() {
  Queues queues;
  RowWaits waits;
  for (int fd : {3, 4, 5, 6}) waits.begin(fd, 1, 10, queues.watch(fd));
  EXPECT(awake(waits).empty());
  queues.get_rows(4);
  queues.get_rows(100);
  queues.ids[5].put(kClient + 1);
  EXPECT((awake(waits) == std::set<int>{4, 5}));
  waits.begin(4, 1, 10, queues.watch(4));
  EXPECT(awake(waits) == std::set<int>{5});
  waits.end(5);
  EXPECT(awake(waits).empty() && waits.size() == 3);
}

void any_sequence_is_that_of_the_model() {
  std::mt19937 random(20261201);
  Queues queues;
  RowWaits waits;
  std::map<int, double> model;
  std::map<int, uint64_t> numbers, watched;
  double now = 0;
  for (int step = 0; step < 400000; ++step) {
    const int fd = static_cast<int>(random() % kMost);
    switch (random() % 10) {
      case 0: {
        now += 0.01 * static_cast<double>(random() % 100);
        std::set<int> expected;
        for (const auto& [each, until] : model)
          if (until <= now) expected.insert(each);
        for (int each : expected) model.erase(each);
        EXPECT(over(waits, now) == expected);
        break;
      }
      case 1:
        waits.forget(fd);
        model.erase(fd);
        watched.erase(fd);
        numbers.erase(fd);
        break;
      case 2:
        waits.end(fd);
        watched.erase(fd);
        break;
      case 3: {
        std::set<int> expected;
        for (const auto& [each, version] : watched)
          if (queues.watch(each).seen != version) expected.insert(each);
        EXPECT(awake(waits) == expected && waits.size() == watched.size());
        queues.get_rows(fd);
        break;
      }
      default:  // mostly far in the future, as of clients that wait for a minute
        model[fd] = now + (random() % 4 ? 1e6 : 0.001 * static_cast<double>(random() % 1000));
        watched[fd] = queues.watch(fd).seen;
        waits.begin(fd, ++numbers[fd], model[fd], queues.watch(fd));
    }
  }
  for (const auto& [fd, until] : model) EXPECT(waits.first() <= until);
}

}  // namespace

int main() {
  a_wait_is_over_at_its_time_and_once();
  the_same_wait_is_not_prolonged();
  a_later_wait_replaces_an_earlier_one_with_any_time();
  a_descriptor_that_is_used_again_has_only_its_own_time();
  who_has_rows_or_was_forgotten_is_awake();
  any_sequence_is_that_of_the_model();
}
