// The connections of a server that wait for rows: whose queue to look at, and until when they wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "serve/serve.hpp"

namespace relay {

// Times are seconds of one clock. A connection that waits again and again takes one place in the heap: it is looked at
// when its earliest time is over, and then kept until its present one.
class RowWaits {
 public:
  // The connection `fd` waits for the `wait`-th time, until `until`, for changes of `watch`. If the wait is known, only
  // `watch` is new.
  void begin(int fd, uint64_t wait, double until, const Watch& watch) {
    const auto at = static_cast<size_t>(fd);
    if (at >= waits_.size()) waits_.resize(at + 1);
    Wait& own = waits_[at];
    if (own.place == kNone) {
      watched_.push_back({watch, fd});
      own.place = watched_.size() - 1;
    } else {
      watched_[own.place].watch = watch;
    }
    if (own.number == wait) return;
    own.number = wait;
    own.until = until;
    if (until < own.looked_at) look_at(fd, until);
  }

  // The connection does not wait any more. Another one takes its place.
  void end(int fd) {
    if (static_cast<size_t>(fd) >= waits_.size()) return;
    const size_t place = waits_[static_cast<size_t>(fd)].place;
    if (place == kNone) return;
    watched_[place] = watched_.back();
    waits_[static_cast<size_t>(watched_[place].fd)].place = place;
    watched_.pop_back();
    waits_[static_cast<size_t>(fd)].place = kNone;
  }

  // The connection has ended; its descriptor may be that of another one from now on.
  void forget(int fd) {
    end(fd);
    if (static_cast<size_t>(fd) < waits_.size()) waits_[static_cast<size_t>(fd)] = Wait();
  }

  size_t size() const { return watched_.size(); }

  // Moves `place` on to the next connection whose watch is not quiet, and returns its descriptor; -1 if there is none.
  int next(size_t* place) const {
    while (*place < watched_.size() && watched_[*place].watch.is_quiet()) ++*place;
    return *place < watched_.size() ? watched_[*place].fd : -1;
  }

  // Before this time `pop` has nothing.
  double first() const { return heap_.empty() ? kNever : heap_.front().time; }

  // Removes a wait whose time is over, and returns its descriptor; -1 if there is none. The caller knows whether the
  // connection still waits.
  int pop(double now) {
    while (first() <= now) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Look look = heap_.back();
      heap_.pop_back();
      Wait& own = waits_[static_cast<size_t>(look.fd)];
      if (own.looked_at != look.time) continue;  // of a former connection, or there is an earlier one
      own.looked_at = kNever;
      if (own.until <= now) return look.fd;
      look_at(look.fd, own.until);
    }
    return -1;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr size_t kFew = 64;
  static constexpr size_t kNone = ~size_t{0};

  struct Watched {
    Watch watch;
    int fd = 0;
  };
  struct Wait {
    size_t place = kNone;  // in the list of those that wait
    uint64_t number = 0;   // of the last wait
    double until = 0;
    double looked_at = kNever;  // the earliest of its places in the heap
  };
  struct Look {
    double time;
    int fd;
  };

  static bool later(const Look& a, const Look& b) { return a.time > b.time; }

  void look_at(int fd, double time) {
    waits_[static_cast<size_t>(fd)].looked_at = time;
    if (heap_.size() >= 2 * waits_.size() + kFew) {
      const auto is_old = [&](const Look& look) { return waits_[static_cast<size_t>(look.fd)].looked_at != look.time; };
      heap_.erase(std::remove_if(heap_.begin(), heap_.end(), is_old), heap_.end());
      std::make_heap(heap_.begin(), heap_.end(), later);
    }
    heap_.push_back({time, fd});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  std::vector<Watched> watched_;
  std::vector<Wait> waits_;  // by descriptor
  std::vector<Look> heap_;
};

}  // namespace relay
