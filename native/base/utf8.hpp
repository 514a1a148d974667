// Handles text that may not be valid UTF-8: servers allow surrogates in UCS-2, MariaDB also in UTF-8 and UTF-32, and
// print them encoded.
#pragma once

#include <algorithm>

#include "base/bytes.hpp"

namespace relay {

// Up to eight bytes at p, which is in the text from `begin` to `end` and not at its end. The rest is zero.
inline uint64_t word_at(const uint8_t* begin, const uint8_t* p, const uint8_t* end) {
  constexpr size_t kWhole = sizeof(uint64_t), kHalf = kWhole / 2;
  const auto left = static_cast<size_t>(end - p);
  if (left >= kWhole) return load<uint64_t>(p);
  if (static_cast<size_t>(end - begin) >= kWhole) return load<uint64_t>(end - kWhole) >> 8 * (kWhole - left);
  if (left >= kHalf) return load<uint32_t>(p) | uint64_t{load<uint32_t>(end - kHalf)} << 8 * (left - kHalf);
  // The middle one of three bytes, otherwise the first or the last again.
  return p[0] | uint64_t{p[left / 2]} << 8 * (left / 2) | uint64_t{end[-1]} << 8 * (left - 1);
}

// ASCII characters that follow each other: `count` of them, up to eight, which are the first of `bytes`.
struct Ascii {
  uint64_t bytes;
  size_t count;
};

// The ASCII characters at p, which is in the text from `begin` to `end` and not at its end.
inline Ascii ascii_at(const uint8_t* begin, const uint8_t* p, const uint8_t* end) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const uint64_t bytes = word_at(begin, p, end), high = bytes & kHighBits;
  const size_t left = std::min(static_cast<size_t>(end - p), sizeof bytes);
  return {bytes, high ? static_cast<size_t>(__builtin_ctzll(high)) / 8 : left};
}

// The length of the character at p, or 0 if no character begins there.
inline size_t utf8_length(const uint8_t* p, size_t left) {
  uint8_t lead = p[0];
  if (lead < 0x80) return 1;
  size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || n > left) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((p[i] & 0xc0) != 0x80) return 0;
  }
  bool overlong = (lead == 0xe0 && p[1] < 0xa0) || (lead == 0xf0 && p[1] < 0x90);
  bool beyond = (lead == 0xed && p[1] >= 0xa0) || (lead == 0xf4 && p[1] >= 0x90);
  return overlong || beyond ? 0 : n;
}

// The first byte from p on that is not part of a character, or `end`. The text begins at `begin`.
inline const uint8_t* find_mangled(const uint8_t* begin, const uint8_t* p, const uint8_t* end) {
  while (p != end) {
    if (const size_t plain = ascii_at(begin, p, end).count) {
      p += plain;
      continue;
    }
    const size_t n = utf8_length(p, static_cast<size_t>(end - p));
    if (!n) return p;
    p += n;
  }
  return end;
}

// Check a text before it is copied: a load from the copy waits for the stores that it overlaps.
inline bool is_utf8(const uint8_t* p, const uint8_t* end) { return find_mangled(p, p, end) == end; }

// Replaces each byte that is not part of a character by a question mark, for formats that require UTF-8. Returns
// whether there was one.
inline bool mend_utf8(uint8_t* text, size_t n) {
  const uint8_t* end = text + n;
  bool mended = false;
  for (const uint8_t* p = text; (p = find_mangled(text, p, end)) != end; ++p) {
    text[p - text] = '?';
    mended = true;
  }
  return mended;
}

}  // namespace relay
