// Text in one of the server's character sets, as UTF-8.
#pragma once

#include <string>

#include "bytes.hpp"

namespace relay {

// Immutable once made, one per character set and process, and never freed.
class Charset {
 public:
  // UTF-8 takes at most this many times the bytes of the text it was made from.
  static constexpr size_t kGrowth = 4;

  // The converter for MySQL's `name`, or nullptr in `out` where the bytes are right as they are (UTF-8, ASCII, binary, or
  // not known). False if there is no way to convert this character set here.
  static bool find(const std::string& name, const Charset** out);

  // Writes text as UTF-8 to `to`, which has room for kGrowth * text.size bytes; the number of bytes written. What the
  // character set does not define becomes a question mark, as it does in the server.
  size_t convert(Bytes text, uint8_t* to) const;

 private:
  struct Glyph {
    uint8_t size = 0;
    uint8_t bytes[3] = {};
  };

  Charset() = default;
  static const Charset* make(const std::string& name);
  bool fill_table(const char* iconv_name);
  void set(uint8_t byte, uint16_t code_point);
  size_t convert_multibyte(Bytes text, uint8_t* to) const;

  const char* iconv_name_ = nullptr;  // of a multi-byte set; nullptr: the table says it all
  unsigned unit_ = 1;                 // bytes to step over where the text is wrong
  size_t index_ = 0;                  // of the multi-byte set's converter in each thread
  Glyph table_[256];
};

}  // namespace relay
