// Text in one of the server's character sets, as UTF-8.
#pragma once

#include <string>
#include <vector>

#include "bytes.hpp"
#include "charset_tables.hpp"

namespace relay {

// Immutable once made, one per character set and process, and never freed.
class Charset {
 public:
  // UTF-8 takes at most this many times the bytes of the text it was made from.
  static constexpr size_t kGrowth = 3;

  // The converter for MySQL's `name`, or nullptr in `out` where the bytes are right as they are (UTF-8, ASCII, binary,
  // or not known). False if there is no way to convert this character set here.
  static bool find(const std::string& name, const Charset** out);

  // Writes text as UTF-8 to `to`, which has room for kGrowth * text.size + 4 bytes; the number of bytes written. What
  // the character set does not define becomes a question mark, as it does in the server; surrogates in UCS-2 and UTF-32
  // are encoded one by one, as they are there, and are no UTF-8 then (see utf8.hpp).
  size_t convert(Bytes text, uint8_t* to) const;
  // Whether the character set defines all of the text.
  bool holds(Bytes text) const;

 private:
  explicit Charset(const charsets::Known& known) : known_(known) {}
  bool fill();
  uint32_t long_character(const uint8_t* p, size_t n) const;
  size_t character(const uint8_t* p, size_t left, uint32_t* code_point) const;

  const charsets::Known& known_;
  bool ascii_ = false;         // a byte below 0x80 that begins a character is one, as in ASCII
  std::vector<uint16_t> one_;  // code points by byte; 0: none (but for byte 0)
  std::vector<uint16_t> two_;  // code points by code of two bytes - 0x8000
};

// Replaces `out` by text as UTF-8. False if there is no way to convert the character set here.
bool charset_text(const std::string& name, Bytes text, std::string* out);
// As charset_text, and with a question mark for each byte that is no UTF-8 then; `whole` is false if the text holds
// anything that is no character.
bool utf8_text(const std::string& name, Bytes text, std::string* out, bool* whole);

}  // namespace relay
