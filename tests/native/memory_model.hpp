// Atomic words, fences and threads under a weak memory model, for programs whose every execution a test wants to see.
//
// A view machine: the promise-free part of the promising semantics. A word keeps all values ever stored to it. A thread
// has a view, which tells of each word the oldest value that the thread may still read; any later one may be read too.
// Release stores give views away, acquire loads take them over. Load buffering is left out: a load reads what was
// stored before it in the run. Release sequences end with the release store, as since C++20.
//
// Beyond C++: a word has one writer at a time, so a store by a thread that does not know the last store fails.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace model {

// Stands in memory(). Outside of run() it is a plain word.
class Atomic {
 public:
  static constexpr bool is_always_lock_free = true;
  uint64_t load(std::memory_order order) const;
  void store(uint64_t v, std::memory_order order);
  // These read the last value, and any thread may call them. Both acquire and release, whatever the order.
  uint64_t fetch_add(uint64_t n, std::memory_order order);
  bool compare_exchange_strong(uint64_t& expected, uint64_t v, std::memory_order order);

 private:
  uint64_t read_last();
  void append(uint64_t v, std::memory_order order);

  mutable uint64_t value_;  // the last one
};
static_assert(sizeof(Atomic) == 8);

void fence(std::memory_order order);

void yield();  // another thread goes on, if one can

// Runs `work` as a process that may die before any store, which no handler notices. What the thread does then, it does
// as the successor: birth and death hand over all that was known, and the kernel's part in them is no less than a seq_cst
// fence. A death before a load would be seen as one before the next store, or as none.
void live(const std::function<void()>& work);

// What threads sleep on: an eventfd. Whoever is woken knows what the ringing thread knew.
class Bell {
 public:
  Bell();
  ~Bell();
  void ring();
  void wait();  // until it has rung since the last time

 private:
  struct State;
  std::unique_ptr<State> state_;
};

constexpr size_t kMemory = 1 << 20;
uint8_t* memory();  // aligned to 64, in no state in particular

// Zeroed words at the beginning of memory(), as a T.
template <typename T>
T& shared() {
  std::fill_n(memory(), sizeof(T), uint8_t{0});
  return *reinterpret_cast<T*>(memory());
}

// Runs the threads together once, by turns that the exploration chooses. Fails if they do not end.
void run(const std::vector<std::function<void()>>& threads);

struct Bound {
  size_t switches = 0;   // from a thread that could go on
  size_t old_loads = 0;  // loads of a value that is not the last
  size_t deaths = 0;
};

// Runs `execution`, which calls run(), in every way within the bound; how many these were.
uint64_t explore_all(const Bound& most, const std::function<void()>& execution);
// Runs it so often in ways that follow from the seed.
void explore_some(uint64_t seed, uint64_t executions, const std::function<void()>& execution);

[[noreturn]] void fail(const std::string& what);
extern std::string subject;  // what fail() names
uint64_t executions();       // so far

}  // namespace model
