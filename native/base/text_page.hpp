// A text in shared memory, with one writer, that changes atomically.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/words.hpp"

namespace relay {

// Like a DoubleBuffered, for texts of any length up to a limit. The copy that is not shown is overwritten only after
// the flip that left it, and readers look at the flip again after they have copied.
class TextPage {
 public:
  static size_t size_for(size_t capacity) { return 8 + 2 * (8 + words_of(capacity) * 8); }
  // Zeroed memory of size_for(capacity) bytes, aligned to 8: shows "".
  TextPage(void* memory, size_t capacity) : cur_(static_cast<Word*>(memory)), capacity_(capacity) {}

  size_t capacity() const { return capacity_; }

  // At most capacity() bytes.
  void write(std::string_view text) {
    const uint64_t next = cur_->relaxed() + 1;
    fence(std::memory_order_release);  // the other copy is overwritten only after `cur_` left it
    Word* copy = copy_of(next);
    copy->put(text.size());
    for (size_t i = 0; i < words_of(text.size()); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + 8 * i, std::min<size_t>(8, text.size() - 8 * i));
      copy[1 + i].put(word);
    }
    cur_->set(next);
  }

  std::string read() const {
    for (;;) {
      const uint64_t cur = cur_->get();
      const Word* copy = copy_of(cur);
      std::string text(copy->relaxed(), '\0');
      for (size_t i = 0; i < words_of(text.size()); ++i) {
        const uint64_t word = copy[1 + i].relaxed();
        std::memcpy(text.data() + 8 * i, &word, std::min<size_t>(8, text.size() - 8 * i));
      }
      fence(std::memory_order_acquire);
      if (cur_->relaxed() == cur) return text;
    }
  }

 private:
  static size_t words_of(size_t bytes) { return (bytes + 7) / 8; }
  Word* copy_of(uint64_t turn) const { return cur_ + 1 + (turn & 1) * (1 + words_of(capacity_)); }

  Word* cur_;
  size_t capacity_;
};

}  // namespace relay
