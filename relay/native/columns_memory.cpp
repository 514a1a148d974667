#include "columns_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>

namespace relay {

namespace {

constexpr size_t kPage = ColumnMemory::kPage;

// Each holds a page or nothing. Not a list with a lock: a process may be forked while a thread is in here.
std::atomic<uint8_t*> spare[ColumnMemory::kSpare];

uint8_t* take_spare() {
  for (std::atomic<uint8_t*>& place : spare) {
    if (!place.load(std::memory_order_relaxed)) continue;
    if (uint8_t* page = place.exchange(nullptr, std::memory_order_acquire)) return page;
  }
  return nullptr;
}

bool keep_spare(uint8_t* page) {
  for (std::atomic<uint8_t*>& place : spare) {
    uint8_t* nothing = nullptr;
    if (place.compare_exchange_strong(nothing, page, std::memory_order_release, std::memory_order_relaxed)) return true;
  }
  return false;
}

// Whole pages, where a page may begin: the kernel has no huge one for others.
uint8_t* map(size_t size) {
  void* mapped = mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<uint8_t*>(mapped);
  size_t before = -reinterpret_cast<uintptr_t>(begin) % kPage;
  if (before) munmap(begin, before);
  munmap(begin + before + size, kPage - before);
  madvise(begin + before, size, MADV_HUGEPAGE);  // where it fails pages are small ones
  return begin + before;
}

}  // namespace

ColumnMemory::~ColumnMemory() {
  while (Free* page = list(kPage)) {
    list(kPage) = page->next;
    auto* block = reinterpret_cast<uint8_t*>(page);
    if (!keep_spare(block)) munmap(block, kPage);
  }
}

uint8_t* ColumnMemory::take(size_t size) {
  if (size > kPage) return map(size);
  if (Free* block = list(size)) {
    list(size) = block->next;
    return reinterpret_cast<uint8_t*>(block);
  }
  if (size == kPage) {
    uint8_t* page = take_spare();
    return page ? page : map(kPage);
  }
  uint8_t* halves = take(2 * size);
  give_back(halves + size, size);
  return halves;
}

void ColumnMemory::give_back(uint8_t* block, size_t size) noexcept {
  if (size > kPage) {
    munmap(block, size);
    return;
  }
  auto* given = reinterpret_cast<Free*>(block);
  if (size < kPage) {
    auto* other = reinterpret_cast<Free*>(reinterpret_cast<uintptr_t>(block) ^ size);
    for (Free** at = &list(size); *at; at = &(*at)->next) {
      if (*at != other) continue;
      *at = other->next;
      return give_back(reinterpret_cast<uint8_t*>(std::min(given, other)), 2 * size);
    }
  }
  given->next = list(size);
  list(size) = given;
}

}  // namespace relay
