// Words of shared memory, each with one writer, and records of them that change together.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace relay {

// Called before each store to and each load from shared memory; `site` is the storing line. A test that kills or delays
// processes there defines RELAY_RING_STEPS and both functions.
#ifdef RELAY_RING_STEPS
void ring_step(int site);
void ring_look();
#else
inline void ring_step(int) {}
inline void ring_look() {}
#endif

class Word {
 public:
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

 private:
  std::atomic<uint64_t> value_;
};
static_assert(sizeof(Word) == 8 && std::atomic<uint64_t>::is_always_lock_free);

// A record of one writer that readers see whole: either as before a publish or as after it.
template <typename T>
class alignas(64) Flip {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  static constexpr size_t kWords = sizeof(T) / 8;

 public:
  uint64_t version() const { return cur_.get(); }

  // The record, and in `version` which one it was. Retries while the writer overtakes it.
  T read(uint64_t* version = nullptr) const {
    for (;;) {
      uint64_t cur = cur_.get();
      T out;
      for (size_t i = 0; i < kWords; ++i) {
        const uint64_t word = copies_[cur & 1][i].relaxed();
        std::memcpy(reinterpret_cast<char*>(&out) + 8 * i, &word, 8);
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      if (cur_.relaxed() != cur) continue;
      if (version) *version = cur;
      return out;
    }
  }

  // One word of the record, by its place in it.
  uint64_t word(size_t index) const {
    for (;;) {
      uint64_t cur = cur_.get();
      uint64_t found = copies_[cur & 1][index].relaxed();
      std::atomic_thread_fence(std::memory_order_acquire);
      if (cur_.relaxed() == cur) return found;
    }
  }

  void publish(const T& record, int site = __builtin_LINE()) {
    uint64_t next = cur_.relaxed() + 1;
    std::atomic_thread_fence(std::memory_order_release);  // this copy is overwritten after `cur_` left it
    // Word by word from the record: a copy of it would wait for the words that were written last. Without a loop, whose
    // pace would depend on where in the program it comes to stand.
#pragma GCC unroll 18
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
