// The times until which connections wait, against a model that looks at all of them.
#include "serve/row_waits.hpp"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "build.hpp"

namespace {

using relay::RowWaits;

std::set<int> over(RowWaits& waits, double now) {
  std::set<int> all;
  for (int fd = waits.pop(now); fd >= 0; fd = waits.pop(now)) EXPECT(all.insert(fd).second);
  return all;
}

void a_wait_is_over_at_its_time_and_once() {
  RowWaits waits;
  EXPECT(waits.first() == INFINITY && waits.pop(1e9) == -1);
  waits.begin(7, 1, 10);
  waits.begin(3, 1, 5);
  EXPECT(waits.first() == 5 && waits.pop(4.9) == -1);
  EXPECT((over(waits, 10) == std::set<int>{3, 7}));
  EXPECT(over(waits, 100).empty());
}

void the_same_wait_is_not_prolonged() {
  RowWaits waits;
  waits.begin(1, 1, 5);
  waits.begin(1, 1, 50);
  EXPECT(over(waits, 5) == std::set<int>{1});
}

void a_later_wait_replaces_an_earlier_one_with_any_time() {
  RowWaits waits;
  waits.begin(1, 1, 5);
  waits.begin(1, 2, 50);
  EXPECT(over(waits, 49).empty());
  waits.begin(1, 3, 49.5);
  EXPECT(over(waits, 49.5) == std::set<int>{1});
  EXPECT(over(waits, 1000).empty());
}

void a_descriptor_that_is_used_again_has_only_its_own_time() {
  RowWaits waits;
  waits.begin(1, 1, 5);
  waits.forget(1);
  waits.forget(100);
  EXPECT(over(waits, 6).empty());
  waits.begin(1, 1, 9);
  EXPECT(over(waits, 8).empty());
  EXPECT(over(waits, 9) == std::set<int>{1});
}

void any_sequence_is_that_of_the_model() {
  std::mt19937 random(20261201);
  RowWaits waits;
  std::map<int, double> model;
  std::map<int, uint64_t> numbers;
  double now = 0;
  for (int step = 0; step < 400000; ++step) {
    const int fd = static_cast<int>(random() % 200);
    switch (random() % 8) {
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
        numbers.erase(fd);
        break;
      default:  // mostly far in the future, as of clients that wait for a minute
        model[fd] = now + (random() % 4 ? 1e6 : 0.001 * static_cast<double>(random() % 1000));
        waits.begin(fd, ++numbers[fd], model[fd]);
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
  any_sequence_is_that_of_the_model();
}
