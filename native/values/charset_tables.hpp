// The character sets of the servers that are not UTF-8. charsets.bin has the tables of the first ones, in this order.
#pragma once

#include <cstdint>

namespace relay::charsets {

// How many bytes make up a character.
enum class Shape : uint8_t { one_byte, double_byte, shift_jis, euc_jp, gb18030, ucs2_be, utf16_be, utf16_le, utf32_be };

struct Known {
  const char* name;  // MySQL's
  Shape shape;
};

constexpr Known kKnown[] = {
    {"sjis", Shape::shift_jis},     {"cp932", Shape::shift_jis},   {"gbk", Shape::double_byte},
    {"gb2312", Shape::double_byte}, {"gb18030", Shape::gb18030},   {"big5", Shape::double_byte},
    {"euckr", Shape::double_byte},  {"ujis", Shape::euc_jp},       {"eucjpms", Shape::euc_jp},
    {"ascii", Shape::one_byte},     {"latin1", Shape::one_byte},   {"cp1250", Shape::one_byte},
    {"cp1251", Shape::one_byte},    {"cp1256", Shape::one_byte},   {"cp1257", Shape::one_byte},
    {"cp850", Shape::one_byte},     {"cp852", Shape::one_byte},    {"cp866", Shape::one_byte},
    {"koi8r", Shape::one_byte},     {"koi8u", Shape::one_byte},    {"latin2", Shape::one_byte},
    {"latin5", Shape::one_byte},    {"latin7", Shape::one_byte},   {"greek", Shape::one_byte},
    {"hebrew", Shape::one_byte},    {"tis620", Shape::one_byte},   {"armscii8", Shape::one_byte},
    {"geostd8", Shape::one_byte},   {"macroman", Shape::one_byte}, {"macce", Shape::one_byte},
    {"keybcs2", Shape::one_byte},   {"dec8", Shape::one_byte},     {"hp8", Shape::one_byte},
    {"swe7", Shape::one_byte},      {"utf16", Shape::utf16_be},    {"utf16le", Shape::utf16_le},
    {"utf32", Shape::utf32_be},     {"ucs2", Shape::ucs2_be},
};

}  // namespace relay::charsets
