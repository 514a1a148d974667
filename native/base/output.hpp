// A growing output buffer that is never cleared, and copy functions for short pieces.
#pragma once

#include <cstdlib>
#include <new>
#include <utility>

#include "base/bytes.hpp"

namespace relay {

// The buffer. Callers write through `p`, and reserve the most that they may write with ensure() first.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { release(); }

  // Forgets the contents. Keeps the memory, unless one huge row made it huge.
  void clear() {
    if (room() > kKept) release();
    p = begin_;
  }
  void swap(Output& other) noexcept {
    std::swap(p, other.p);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(borrowed_, other.borrowed_);
  }
  // Gives all memory back.
  void release() {
    if (!borrowed_) std::free(begin_);
    p = begin_ = end_ = nullptr;
    borrowed_ = false;
  }
  // Makes the room `room` bytes, kSlack included.
  __attribute__((noinline)) void resize(size_t room) {
    const size_t used = size();
    auto* moved = static_cast<uint8_t*>(std::realloc(borrowed_ ? nullptr : begin_, room));
    if (!moved) throw std::bad_alloc();
    if (borrowed_) std::memcpy(moved, begin_, used);
    borrowed_ = false;
    begin_ = moved;
    p = moved + used;
    end_ = moved + room;
  }
  // Moves to memory that belongs to somebody else, who keeps it until this is released or has outgrown it.
  void move_to(uint8_t* at, size_t room) {
    const size_t used = size();
    if (used > 0) std::memcpy(at, begin_, used);
    release();
    begin_ = at;
    p = at + used;
    end_ = at + room;
    borrowed_ = true;
  }
  bool has_block() const { return begin_ != nullptr; }
  size_t size() const { return static_cast<size_t>(p - begin_); }
  size_t room() const { return static_cast<size_t>(end_ - begin_); }
  const char* chars() const { return reinterpret_cast<const char*>(begin_); }
  Bytes bytes() const { return {begin_, size()}; }
  uint8_t* at(size_t offset) { return begin_ + offset; }
  size_t offset(const uint8_t* at) const { return static_cast<size_t>(at - begin_); }

  // Makes room for n bytes and kSlack more.
  void ensure(size_t n) {
    if (static_cast<size_t>(end_ - p) < n + kSlack) grow(n + kSlack);
  }

  void append(Bytes bytes) {
    ensure(bytes.size);
    if (bytes.size > 0) std::memcpy(p, bytes.data, bytes.size);
    p += bytes.size;
  }
  // Adds n bytes that the caller writes later.
  void skip(size_t n) {
    ensure(n);
    p += n;
  }
  // Forgets what begins at the offset.
  void truncate(size_t offset) { p = begin_ + offset; }

  static constexpr size_t kKept = 4 << 20;
  static constexpr size_t kSlack = 64;  // put_span() and value writers may touch bytes beyond those they count
  uint8_t* p = nullptr;

 private:
  void grow(size_t n) { resize((size() + n) * 2); }

  uint8_t* begin_ = nullptr;
  uint8_t* end_ = nullptr;
  bool borrowed_ = false;
};

// Copies n bytes. Both sides must have 32 bytes that may be touched, whatever n is.
inline uint8_t* copy_padded(uint8_t* to, const uint8_t* from, size_t n) {
  if (n <= 32) {
    std::memcpy(to, from, 16);
    std::memcpy(to + 16, from + 16, 16);
  } else {
    std::memcpy(to, from, n);
  }
  return to + n;
}

// Copies n bytes and touches no others. Uses two overlapping copies, which suits short pieces.
inline uint8_t* copy_exact(uint8_t* to, const uint8_t* from, size_t n) {
  if (n > 32) {
    std::memcpy(to, from, n);
  } else if (n >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + n - 16, from + n - 16, 16);
  } else if (n >= 8) {
    uint64_t head = load<uint64_t>(from), tail = load<uint64_t>(from + n - 8);
    store(to, head);
    store(to + n - 8, tail);
  } else if (n >= 4) {
    uint32_t head = load<uint32_t>(from), tail = load<uint32_t>(from + n - 4);
    store(to, head);
    store(to + n - 4, tail);
  } else if (n) {
    to[0] = from[0];
    to[n / 2] = from[n / 2];
    to[n - 1] = from[n - 1];
  }
  return to + n;
}

inline uint8_t* put_chars(uint8_t* to, std::string_view text) {
  return copy_exact(to, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace relay
