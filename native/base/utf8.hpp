// Handles text that may not be valid UTF-8: servers allow surrogates in UCS-2, MariaDB also in UTF-8 and UTF-32, and
// print them encoded.
#pragma once

#include "base/bytes.hpp"

namespace relay {

constexpr uint64_t kHighBits = 0x8080808080808080;  // none set: eight ASCII characters

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

inline bool is_utf8(const uint8_t* p, const uint8_t* end) {
  while (p != end) {
    const size_t n = utf8_length(p, static_cast<size_t>(end - p));
    if (!n) return false;
    p += n;
  }
  return true;
}

// Replaces each byte that is not part of a character by a question mark, for formats that require UTF-8. Returns
// whether there was one.
inline bool mend_utf8(uint8_t* p, size_t n) {
  uint8_t* end = p + n;
  bool mended = false;
  while (p != end) {
    auto left = static_cast<size_t>(end - p);
    if (left >= sizeof(uint64_t) && !(load<uint64_t>(p) & kHighBits)) {
      p += sizeof(uint64_t);
    } else if (size_t length = utf8_length(p, left)) {
      p += length;
    } else {
      *p++ = '?';
      mended = true;
    }
  }
  return mended;
}

}  // namespace relay
