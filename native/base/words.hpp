// Words of shared memory with one writer at a time, and records of them that change atomically.
//
// All fences and ordered accesses of the core go through here, so that tests can put a memory model in their place.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace relay {

// Called before each store to and each load from shared memory; `site` is the source line. Tests that kill or delay
// processes at these points define RELAY_RING_STEPS and both functions.
#ifdef RELAY_RING_STEPS
void ring_step(int site);
void ring_look();
#else
inline void ring_step(int) {}
inline void ring_look() {}
#endif

inline void fence(std::memory_order order) { std::atomic_thread_fence(order); }

class Word {
 public:
  // A word of a mapped file.
  static Word& at(void* address) { return *static_cast<Word*>(address); }
  static const Word& at(const void* address) { return *static_cast<const Word*>(address); }

  uint64_t get() const {
    ring_look();
    return value_.load(std::memory_order_acquire);
  }
  uint64_t relaxed() const {
    ring_look();
    return value_.load(std::memory_order_relaxed);
  }
  void set(uint64_t v, int site = __builtin_LINE()) {
    ring_step(site);
    value_.store(v, std::memory_order_release);
  }
  void put(uint64_t v, int site = __builtin_LINE()) {
    ring_step(site);
    value_.store(v, std::memory_order_relaxed);
  }
  // For words with several writers. Both are seq_cst.
  void add(uint64_t n) { value_.fetch_add(n, std::memory_order_seq_cst); }
  // Stores `v` if the word is `expected`; the word as it was.
  uint64_t replace(uint64_t expected, uint64_t v) {
    value_.compare_exchange_strong(expected, v, std::memory_order_seq_cst);
    return expected;
  }

 private:
  std::atomic<uint64_t> value_;
};
// The length of a frame in a mapped file, which is stored last: a writer that is killed leaves a whole frame or none.
inline uint32_t load_length(const void* at) {
  return __atomic_load_n(static_cast<const uint32_t*>(at), __ATOMIC_ACQUIRE);
}
inline void store_length(void* at, uint32_t length) {
  __atomic_store_n(static_cast<uint32_t*>(at), length, __ATOMIC_RELEASE);
}

static_assert(sizeof(Word) == 8 && std::atomic<uint64_t>::is_always_lock_free);

// A record with one writer, in two copies. `publish` writes the other copy and then selects it by one store, the flip.
// Readers see the record as it was before a publish or after it, never a mixture.
template <typename T>
class alignas(64) DoubleBuffered {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  static constexpr size_t kWords = sizeof(T) / 8;

 public:
  // This load alone orders nothing: a reader that copied the record checks it after an acquire fence.
  uint64_t version() const { return cur_.relaxed(); }

  // Returns the record and stores its version in `version`. Retries while the writer overtakes it.
  T read(uint64_t* version = nullptr) const {
    for (;;) {
      uint64_t cur = cur_.get();
      T out;
#pragma GCC unroll 23
      for (size_t i = 0; i < kWords; ++i) {
        const uint64_t word = copies_[cur & 1][i].relaxed();
        std::memcpy(reinterpret_cast<char*>(&out) + 8 * i, &word, 8);
      }
      fence(std::memory_order_acquire);
      if (cur_.relaxed() != cur) continue;
      if (version) *version = cur;
      return out;
    }
  }

  // Consecutive words of the record, from the position of the first.
  template <size_t N>
  std::array<uint64_t, N> words(size_t index) const {
    for (;;) {
      uint64_t cur = cur_.get();
      std::array<uint64_t, N> found;
      for (size_t i = 0; i < N; ++i) found[i] = copies_[cur & 1][index + i].relaxed();
      fence(std::memory_order_acquire);
      if (cur_.relaxed() == cur) return found;
    }
  }

  void publish(const T& record, int site = __builtin_LINE()) {
    uint64_t next = cur_.relaxed() + 1;
    fence(std::memory_order_release);  // the other copy is overwritten only after `cur_` left it
    // Copies word by word from the record: a block copy would wait for the words that were written last. Unrolled, as in
    // `read`: a loop takes more than twice the instructions, and its speed depends on its alignment in the program.
#pragma GCC unroll 23
    for (size_t i = 0; i < kWords; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, reinterpret_cast<const char*>(&record) + 8 * i, 8);
      copies_[next & 1][i].put(word, site);
    }
    cur_.set(next, site);
  }

 private:
  Word cur_;
  Word copies_[2][kWords];
};

}  // namespace relay
