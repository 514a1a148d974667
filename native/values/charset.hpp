// Converts text of the server's character sets to UTF-8.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "values/charset_tables.hpp"

namespace relay {

// What a conversion made of a text.
struct Converted {
  size_t size = 0;    // bytes
  bool whole = true;  // the character set defines every character of the text
  bool valid = true;  // no surrogates, so it is valid UTF-8
};

// A character set. Immutable once made, one per character set and process, never freed.
class Charset {
 public:
  // UTF-8 takes at most this many times the bytes of the original text.
  static constexpr size_t kGrowth = 3;
  static constexpr size_t kRoom = 8;  // bytes behind them that may be touched

  // Stores the converter of MySQL's `name` in `out`, or nullptr if the bytes need no conversion (UTF-8, binary, none).
  // False if there is no such character set.
  static bool find(const std::string& name, const Charset** out);

  // Writes text as UTF-8 to `to`, which has room for kGrowth * text.size + kRoom bytes. Undefined characters become
  // question marks, as in the server. Surrogates in UCS-2 and UTF-32 are encoded one by one, as in the server: the text
  // is then not valid UTF-8 (see utf8.hpp).
  Converted convert(Bytes text, uint8_t* to) const;

 private:
  explicit Charset(const charsets::Known& known);
  uint32_t long_character(const uint8_t* p, size_t n) const;
  size_t character(const uint8_t* p, size_t left, uint32_t* code_point) const;

  charsets::Shape shape_;
  bool ascii_ = false;            // bytes below 0x80 that begin a character are ASCII
  std::vector<uint16_t> points_;  // code points by code; 0: none (except for byte 0)
};

// Replaces `out` by the text as UTF-8. False if there is no such character set.
bool charset_text(const std::string& name, Bytes text, std::string* out);
// As charset_text, and replaces each byte that is then not UTF-8 by a question mark. `whole` is false if the text holds
// anything that is not a character.
bool utf8_text(const std::string& name, Bytes text, std::string* out, bool* whole);

}  // namespace relay
