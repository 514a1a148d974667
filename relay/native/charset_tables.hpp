// Which converter of the C library each of the server's character sets is, and where the server's own table differs
// from it. Taken down by asking MySQL 9.7 and MariaDB 11.8 for the Unicode of every code (see tests/test_charsets.py).
#pragma once

#include <cstdint>

namespace relay::charsets {

// How bytes make up a character.
enum class Shape : uint8_t { one_byte, double_byte, shift_jis, euc_jp, gb18030, ucs2_be, utf16_be, utf16_le, utf32_be };

// Codes first to last are code_point and the ones after it; 0: the server has no character there.
struct Run {
  uint32_t first;
  uint32_t last;
  uint16_t code_point;
};

struct Known {
  const char* mysql;
  const char* iconv;  // nullptr: the C library knows no such set
  Shape shape;
  const Run* runs = nullptr;
  unsigned run_count = 0;

  constexpr Known(const char* m, const char* i, Shape s) : mysql(m), iconv(i), shape(s) {}
  template <unsigned N>
  constexpr Known(const char* m, const char* i, Shape s, const Run (&r)[N])
      : mysql(m), iconv(i), shape(s), runs(r), run_count(N) {}
};

constexpr Run kArmscii8[] = {
    {0xa1, 0xa1, 0x2741}, {0xa2, 0xa2, 0xa7}, {0xad, 0xad, 0x55f}, {0xfe, 0xfe, 0x2019}, {0xff, 0xff, 0x27}};
constexpr Run kCp1256[] = {{0x8a, 0x8a, 0}, {0x8f, 0x8f, 0}, {0x98, 0x98, 0}, {0x9a, 0x9a, 0},
                           {0x9f, 0x9f, 0}, {0xaa, 0xaa, 0}, {0xc0, 0xc0, 0}, {0xff, 0xff, 0}};
constexpr Run kCp866[] = {{0xfc, 0xfc, 0x207f}, {0xfd, 0xfd, 0xb2}};
constexpr Run kDec8[] = {{0xa0, 0xa0, 0xa0}};
constexpr Run kGeostd8[] = {{0x80, 0x80, 0x20ac}, {0x81, 0x81, 0}, {0x83, 0x83, 0}, {0x88, 0x88, 0},
                            {0x8a, 0x8a, 0},      {0x8c, 0x90, 0}, {0x98, 0x9a, 0}, {0x9c, 0x9f, 0},
                            {0xe6, 0xfc, 0},      {0xfd, 0xfd, 0x2116}, {0xfe, 0xff, 0}};
constexpr Run kGreek[] = {{0xa1, 0xa1, 0x2bd}, {0xa2, 0xa2, 0x2bc}, {0xa4, 0xa5, 0}, {0xaa, 0xaa, 0}};
constexpr Run kHebrew[] = {{0xaf, 0xaf, 0x203e}};
constexpr Run kKoi8u[] = {{0x95, 0x95, 0x2022}};
constexpr Run kLatin1[] = {{0x81, 0x81, 0x81}, {0x8d, 0x8d, 0x8d}, {0x8f, 0x90, 0x8f}, {0x9d, 0x9d, 0x9d}};
constexpr Run kMacroman[] = {{0xc6, 0xc6, 0x2206}, {0xf0, 0xf0, 0xf8ff}};
constexpr Run kSwe7[] = {{0x24, 0x24, 0x24}, {0x7f, 0x7f, 0}};
constexpr Run kTis620[] = {{0x80, 0x9f, 0x80},     {0xa0, 0xa0, 0xfffd}, {0xdb, 0xdb, 0xfffd}, {0xdc, 0xdc, 0xfffd},
                           {0xdd, 0xdd, 0xfffd},   {0xde, 0xde, 0xfffd}, {0xfc, 0xfc, 0xfffd}, {0xfd, 0xfd, 0xfffd},
                           {0xfe, 0xfe, 0xfffd},   {0xff, 0xff, 0xfffd}};
constexpr Run kSjis[] = {{0x5c, 0x5c, 0x5c}, {0x7e, 0x7e, 0x7e}, {0x815f, 0x815f, 0x5c}};
constexpr Run kBig5[] = {
    {0xa145, 0xa145, 0x2022}, {0xa14e, 0xa14e, 0xff64}, {0xa15a, 0xa15a, 0xfffd}, {0xa1c2, 0xa1c2, 0x203e},
    {0xa1c3, 0xa1c3, 0xfffd}, {0xa1c5, 0xa1c5, 0xfffd}, {0xa1e3, 0xa1e3, 0x223c}, {0xa1f2, 0xa1f2, 0x2641},
    {0xa1f3, 0xa1f3, 0x2609}, {0xa1fe, 0xa1fe, 0xfffd}, {0xa240, 0xa240, 0xfffd}, {0xa241, 0xa241, 0xff0f},
    {0xa242, 0xa242, 0xff3c}, {0xa244, 0xa244, 0xa5},   {0xa246, 0xa247, 0xa2},   {0xa2cc, 0xa2cc, 0xfffd},
    {0xa2ce, 0xa2ce, 0xfffd}, {0xa3e1, 0xa3e1, 0},      {0xc6a1, 0xc6a1, 0x30fe}, {0xc6a2, 0xc6a3, 0x309d},
    {0xc6a4, 0xc6a4, 0x3005}, {0xc6a5, 0xc6f7, 0x3041}, {0xc6f8, 0xc6fe, 0x30a1}, {0xc740, 0xc77e, 0x30a8},
    {0xc7a1, 0xc7b0, 0x30e7}, {0xc7b1, 0xc7b2, 0x414},  {0xc7b3, 0xc7b3, 0x401},  {0xc7b4, 0xc7ba, 0x416},
    {0xc7bb, 0xc7cd, 0x423},  {0xc7ce, 0xc7ce, 0x451},  {0xc7cf, 0xc7e8, 0x436},  {0xc7e9, 0xc7f2, 0x2460},
    {0xc7f3, 0xc7fc, 0x2474}, {0xc7fd, 0xc7fe, 0},      {0xc840, 0xc87e, 0},      {0xc8a1, 0xc8fe, 0},
    {0xf9dd, 0xf9fe, 0}};
constexpr Run kUjis[] = {{0xa1c0, 0xa1c0, 0x5c},   {0xa1c1, 0xa1c1, 0x301c}, {0xa1c2, 0xa1c2, 0x2016},
                         {0xa1dd, 0xa1dd, 0x2212}, {0xa1f1, 0xa1f2, 0xa2},   {0xa2cc, 0xa2cc, 0xac},
                         {0xada1, 0xadbe, 0},      {0xadc0, 0xadd6, 0},      {0xaddf, 0xadfc, 0},
                         {0x8fa2b7, 0x8fa2b7, 0x7e}, {0x8fa2c3, 0x8fa2c3, 0xa6}, {0x8ff3f3, 0x8ff4fe, 0}};
constexpr Run kGb18030[] = {{0xa6d9, 0xa6df, 0xe78d}, {0xa6ec, 0xa6ed, 0xe794}, {0xa6f3, 0xa6f3, 0xe796},
                            {0xfe51, 0xfe53, 0xe816}, {0xfe59, 0xfe59, 0xe81e}, {0xfe61, 0xfe61, 0xe826},
                            {0xfe66, 0xfe67, 0xe82b}, {0xfe6c, 0xfe6d, 0xe831}, {0xfe76, 0xfe76, 0xe83b},
                            {0xfe7e, 0xfe7e, 0xe843}, {0xfe90, 0xfe91, 0xe854}, {0xfea0, 0xfea0, 0xe864},
                            {0x82359037, 0x82359039, 0x9fb4}, {0x82359130, 0x82359134, 0x9fb7},
                            {0x84318236, 0x84318239, 0xfe10}, {0x84318330, 0x84318335, 0xfe14}};

constexpr Known kKnown[] = {
    {"sjis", "SJIS", Shape::shift_jis, kSjis},
    {"cp932", "CP932", Shape::shift_jis},
    {"gbk", "GBK", Shape::double_byte},
    {"gb2312", "GB2312", Shape::double_byte},
    {"gb18030", "GB18030", Shape::gb18030, kGb18030},
    {"big5", "BIG5", Shape::double_byte, kBig5},
    {"euckr", "UHC", Shape::double_byte},
    {"ujis", "EUC-JP-MS", Shape::euc_jp, kUjis},
    {"eucjpms", "EUC-JP-MS", Shape::euc_jp},
    {"utf16", nullptr, Shape::utf16_be},
    {"utf16le", nullptr, Shape::utf16_le},
    {"utf32", nullptr, Shape::utf32_be},
    {"ucs2", nullptr, Shape::ucs2_be},
    {"ascii", "ASCII", Shape::one_byte},
    {"latin1", "CP1252", Shape::one_byte, kLatin1},
    {"cp1250", "CP1250", Shape::one_byte},
    {"cp1251", "CP1251", Shape::one_byte},
    {"cp1256", "CP1256", Shape::one_byte, kCp1256},
    {"cp1257", "CP1257", Shape::one_byte},
    {"cp850", "CP850", Shape::one_byte},
    {"cp852", "CP852", Shape::one_byte},
    {"cp866", "CP866", Shape::one_byte, kCp866},
    {"koi8r", "KOI8-R", Shape::one_byte},
    {"koi8u", "KOI8-U", Shape::one_byte, kKoi8u},
    {"latin2", "ISO-8859-2", Shape::one_byte},
    {"latin5", "ISO-8859-9", Shape::one_byte},
    {"latin7", "ISO-8859-13", Shape::one_byte},
    {"greek", "ISO-8859-7", Shape::one_byte, kGreek},
    {"hebrew", "ISO-8859-8", Shape::one_byte, kHebrew},
    {"tis620", "TIS-620", Shape::one_byte, kTis620},
    {"armscii8", "ARMSCII-8", Shape::one_byte, kArmscii8},
    {"geostd8", "GEORGIAN-PS", Shape::one_byte, kGeostd8},
    {"macroman", "MACINTOSH", Shape::one_byte, kMacroman},
    {"macce", "MAC-CENTRALEUROPE", Shape::one_byte},
    {"keybcs2", nullptr, Shape::one_byte},
    {"dec8", "DEC-MCS", Shape::one_byte, kDec8},
    {"hp8", "HP-ROMAN8", Shape::one_byte},
    {"swe7", "SEN_850200_C", Shape::one_byte, kSwe7},
};

// The Kamenický encoding, from 0x80 on.
constexpr char16_t kKeybcs2[] =
    u"ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    u"αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0";

}  // namespace relay::charsets
