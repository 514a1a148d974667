// How far the journal is complete, and how far of that it is on disk.
#pragma once

#include "base/words.hpp"

namespace relay {

// The thread that appends commits, another one flushes.
class Watermarks {
 public:
  // Other processes see in `word` what is committed, from now on.
  void show(Word* word) {
    shown_ = word;
    if (shown_) shown_->set(committed_.relaxed());
  }
  // Whoever loads the position sees what was written before it.
  void commit(uint64_t position) {
    committed_.set(position);
    if (shown_) shown_->set(position);
  }
  uint64_t committed() const { return committed_.get(); }

  // Only a bound: nobody reads anything because of it. Other processes learn it from the arena and from segments.
  void flush(uint64_t position) { flushed_.put(position); }
  uint64_t flushed() const { return flushed_.relaxed(); }

 private:
  Word committed_{};
  Word* shown_ = nullptr;
  Word flushed_{};
};

}  // namespace relay
