// Text in every character set that servers have: what comes out is UTF-8 and fits into the room for it. Input: which
// character set, then the text.
#include "values/charset.hpp"

#include "../native/build.hpp"
#include "fuzz.hpp"

using namespace relay;
using build::bytes;

namespace {

const std::vector<std::string> kNames = {
    "utf8mb4", "utf16", "utf16le", "utf32", "ucs2", "latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256",
    "cp1257", "cp850", "cp852", "cp866", "macroman", "macce", "greek", "hebrew", "koi8r", "koi8u", "hp8", "dec8",
    "swe7", "armscii8", "geostd8", "keybcs2", "tis620", "ascii", "sjis", "cp932", "ujis", "eucjpms", "euckr", "gbk",
    "gb2312", "gb18030", "big5",
};

// No sequence is too long or beyond U+10FFFF. Halves of surrogate pairs there may be: the servers store them in ucs2 and
// utf32, and print them so.
bool is_utf8(std::string_view text) {
  static const uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i++]);
    if (first < 0x80) continue;
    const unsigned more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || more > text.size() - i) return false;
    uint32_t point = first & (0x3fu >> more);
    for (unsigned k = 0; k < more; ++k) {
      const auto next = static_cast<uint8_t>(text[i++]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3f);
    }
    if (point < kLeast[more] || point > 0x10ffff) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string& name = kNames[data[0] % kNames.size()];
  const Bytes text(data + 1, size - 1);
  const Charset* charset = nullptr;
  std::string out;
  REQUIRE(Charset::find(name, &charset) && charset_text(name, text, &out));
  if (!charset) {
    REQUIRE(out == text.text());
    return 0;
  }
  // Room for just as much as is promised.
  std::vector<uint8_t> room(Charset::kGrowth * text.size + Charset::kRoom);
  const Converted done = charset->convert(text, room.data());
  REQUIRE(done.size <= room.size());
  const std::string_view converted(reinterpret_cast<const char*>(room.data()), done.size);
  REQUIRE(converted == out && is_utf8(converted));
  bool whole = false;
  REQUIRE(utf8_text(name, text, &out, &whole) && whole == (done.whole && done.valid));
  REQUIRE(done.valid == (converted == out));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::string which(1, static_cast<char>(i));
    seeds.push_back(which + "plain \\ ~");
    seeds.push_back(which + bytes("00 41 d8 3d de 00 93 fa 95 8f a1 fe 8e b1 81 30 81 30 80 ff"));
    seeds.push_back(which + bytes("3d d8 00 de 00 00 00 41 00 01 f6 00 e3 32 9a 35 8f"));
  }
  return seeds;
}
