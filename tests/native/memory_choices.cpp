#include "memory_choices.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "memory_model.hpp"

namespace model {

Choices* choices = nullptr;

namespace {

// Depth first: an execution repeats the choices of the one before it up to the last that has another alternative.
class All final : public Choices {
 public:
  explicit All(const Bound& most) : most_(most) {}

  size_t any(size_t n) override { return n > 1 ? pick(n) : 0; }
  size_t thread(size_t, size_t others) override {
    const size_t chosen = left_.switches ? pick(others + 1) : 0;
    left_.switches -= chosen > 0;
    return chosen;
  }
  size_t message(size_t older) override {
    const size_t chosen = left_.old_loads ? pick(older + 1) : 0;
    left_.old_loads -= chosen > 0;
    return chosen;
  }
  bool death() override {
    const bool chosen = left_.deaths && pick(2);
    left_.deaths -= chosen;
    return chosen;
  }

  void begin() {
    depth_ = 0;
    left_ = most_;
  }
  bool next() {
    while (!path_.empty() && ++path_.back().chosen == path_.back().of) path_.pop_back();
    return !path_.empty();
  }

 private:
  struct Choice {
    size_t chosen, of;
  };

  size_t pick(size_t n) {
    if (depth_ == path_.size()) path_.push_back({0, n});
    return path_[depth_++].chosen;
  }

  const Bound most_;
  std::vector<Choice> path_;
  size_t depth_ = 0;
  Bound left_;
};

class Some final : public Choices {
 public:
  explicit Some(uint64_t seed) : random_(seed) {}

  size_t any(size_t n) override { return dice(n); }
  size_t thread(size_t access, size_t others) override {
    last_ = access;
    const bool now = bursts_ ? std::count(switches_.begin(), switches_.end(), access) > 0 : !dice(switch_odds_);
    return now ? 1 + dice(others) : 0;
  }
  size_t message(size_t older) override { return dice(old_odds_) ? 0 : 1 + dice(older); }
  bool death() override { return !dice(death_odds_); }

  // Executions differ in how often they switch, and in how often they read old values. Every other one switches at a
  // few places only, so that a thread gets far while another stands between two accesses.
  void begin() {
    constexpr size_t kOdds[] = {2, 4, 10, 30, 100};
    constexpr size_t kDeathOdds[] = {30, 100, 300};
    bursts_ = !bursts_;
    switch_odds_ = kOdds[dice(5)];
    old_odds_ = kOdds[dice(3)];
    death_odds_ = kDeathOdds[dice(3)];
    for (size_t& access : switches_) access = dice(last_ + 1);
  }

 private:
  size_t dice(size_t n) { return random_() % n; }

  std::minstd_rand random_;
  bool bursts_ = false;
  size_t switch_odds_ = 2, old_odds_ = 2, death_odds_ = 30;
  std::array<size_t, 4> switches_{};
  size_t last_ = 100;  // access of the execution before
};

}  // namespace

uint64_t explore_all(const Bound& most, const std::function<void()>& execution) {
  All all(most);
  choices = &all;
  uint64_t count = 0;
  do {
    all.begin();
    execution();
    ++count;
  } while (all.next());
  choices = nullptr;
  return count;
}

void explore_some(uint64_t seed, uint64_t count, const std::function<void()>& execution) {
  Some some(seed);
  choices = &some;
  for (uint64_t i = 0; i < count; ++i) {
    some.begin();
    execution();
  }
  choices = nullptr;
}

}  // namespace model
