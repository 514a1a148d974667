// The memory of a batch of columns.
#pragma once

#include "output.hpp"

namespace relay {

// Large blocks for the columns of one batch, on huge pages where the kernel has them: mapping and clearing 4 KiB at a
// time would take a fifth of the time that decoding takes. A block smaller than a page is half of one twice its size,
// and two free halves are one block again: columns grow together, so what they leave becomes pages that they grow into.
//
// It belongs to its batch, in whichever thread that is, and nothing is locked. The process keeps up to kSpare pages for
// the next batch; one that makes no large batches keeps none.
class ColumnMemory final : public BlockSource {
 public:
  static constexpr size_t kPage = 2 << 20;
  static constexpr size_t kSpare = 8;

  ColumnMemory() = default;
  ColumnMemory(const ColumnMemory&) = delete;
  ColumnMemory& operator=(const ColumnMemory&) = delete;
  // All blocks have been given back.
  ~ColumnMemory();

  uint8_t* take(size_t size) override;
  void give_back(uint8_t* block, size_t size) noexcept override;

 private:
  struct Free {
    Free* next;
  };
  static constexpr size_t kSizes = 6;  // from kLeast to kPage
  static_assert(kLeast << (kSizes - 1) == kPage);

  Free*& list(size_t size) { return free_[__builtin_ctzll(size / kLeast)]; }

  Free* free_[kSizes] = {};
};

}  // namespace relay
