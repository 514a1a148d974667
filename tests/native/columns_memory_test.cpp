// Blocks of columns are their own, halves become whole again, and little stays when a batch goes.
#include "columns_memory.hpp"

#include <sys/mman.h>

#include <thread>
#include <vector>

#include "build.hpp"

using namespace relay;

namespace {

constexpr size_t kLeast = BlockSource::kLeast;
constexpr size_t kPage = ColumnMemory::kPage;
constexpr size_t kSmallPage = 4096;

bool is_mapped(uint8_t* page) {
  unsigned char resident;
  return mincore(page, kSmallPage, &resident) == 0;
}

void mark(uint8_t* block, size_t size, uint8_t number) {
  for (size_t i = 0; i < size; i += kSmallPage) block[i] = number;
  block[size - 1] = number;
}

bool is_marked(const uint8_t* block, size_t size, uint8_t number) {
  for (size_t i = 0; i < size; i += kSmallPage) {
    if (block[i] != number) return false;
  }
  return block[size - 1] == number;
}

void halves_become_whole_again() {
  ColumnMemory memory;
  uint8_t* page = memory.take(kPage);
  EXPECT(reinterpret_cast<uintptr_t>(page) % kPage == 0);
  memory.give_back(page, kPage);
  for (size_t size = kLeast; size < kPage; size *= 2) {
    std::vector<uint8_t*> blocks;
    for (size_t i = 0; i < kPage / size; ++i) {
      blocks.push_back(memory.take(size));
      EXPECT(blocks.back() >= page && blocks.back() + size <= page + kPage);
      mark(blocks.back(), size, static_cast<uint8_t>(i));
    }
    for (size_t i = 0; i < blocks.size(); ++i) EXPECT(is_marked(blocks[i], size, static_cast<uint8_t>(i)));
    for (size_t i = 0; i < blocks.size(); i += 2) memory.give_back(blocks[i], size);
    for (size_t i = 1; i < blocks.size(); i += 2) memory.give_back(blocks[i], size);
    EXPECT(memory.take(kPage) == page);
    memory.give_back(page, kPage);
  }
}

void little_stays() {
  std::vector<uint8_t*> pages;
  uint8_t* larger;
  {
    ColumnMemory memory;
    for (size_t i = 0; i < 3 * ColumnMemory::kSpare; ++i) mark(pages.emplace_back(memory.take(kPage)), kPage, 1);
    larger = memory.take(4 * kPage);
    mark(larger, 4 * kPage, 1);
    for (uint8_t* page : pages) memory.give_back(page, kPage);
    memory.give_back(larger, 4 * kPage);
  }
  size_t kept = 0;
  for (uint8_t* page : pages) kept += is_mapped(page);
  EXPECT(kept == ColumnMemory::kSpare);
  EXPECT(!is_mapped(larger));
}

// As lanes do: everything doubles, side by side.
void grow_side_by_side(uint8_t number) {
  constexpr size_t kColumns = 5;
  ColumnMemory memory;
  Output columns[kColumns];
  for (Output& column : columns) column.use(&memory);
  for (size_t size = 1; size < 3 * kPage; size = size * 3 / 2 + 1) {
    for (Output& column : columns) {
      size_t before = column.size();
      column.ensure(size - before);
      EXPECT(before == 0 || column.at(0)[before - 1] == number);
      std::memset(column.p, number, size - before);
      column.p += size - before;
    }
  }
  for (Output& column : columns) EXPECT(is_marked(column.at(0), column.size(), number));
}

void threads_share_what_is_spare() {
  std::vector<std::thread> threads;
  for (uint8_t number = 1; number <= 4; ++number) {
    threads.emplace_back([number] {
      for (int i = 0; i < 2; ++i) grow_side_by_side(number);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  halves_become_whole_again();
  little_stays();
  grow_side_by_side(1);
  threads_share_what_is_spare();
  return build::failures ? 1 : 0;
}
