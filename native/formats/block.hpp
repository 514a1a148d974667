// Memory for many buffers that grow at the same time.
#pragma once

#include <sys/mman.h>

#include <new>

#include "base/bytes.hpp"

namespace relay {

// In huge pages, if the system has them: getting small pages takes longer than filling them.
class Block {
 public:
  static constexpr size_t kHugePage = 2 << 20;

  explicit Block(size_t bytes) : size_(bytes + kHugePage) {
    mapped_ = static_cast<uint8_t*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    next_ = mapped_ + kHugePage - reinterpret_cast<uintptr_t>(mapped_) % kHugePage;
    madvise(next_, bytes, MADV_HUGEPAGE);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { munmap(mapped_, size_); }

  // The bytes that buffers of `n` bytes take.
  static size_t rounded(size_t n) { return (n + kLine - 1) / kLine * kLine; }
  uint8_t* take(size_t n) {
    uint8_t* const taken = next_;
    next_ += rounded(n);
    return taken;
  }

 private:
  static constexpr size_t kLine = 64;  // of the processor's caches

  size_t size_;
  uint8_t* mapped_;
  uint8_t* next_;
};

}  // namespace relay
