#include "charset.hpp"

#include <iconv.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace relay {

namespace {

struct Known {
  const char* mysql;
  const char* iconv;
  unsigned unit;  // 0: one byte a character, converted by a table
};

constexpr Known kKnown[] = {
    {"sjis", "SJIS", 1},         {"cp932", "CP932", 1},         {"gbk", "GBK", 1},
    {"gb2312", "GB2312", 1},     {"gb18030", "GB18030", 1},     {"big5", "BIG5", 1},
    {"euckr", "EUC-KR", 1},      {"ujis", "EUC-JP", 1},         {"eucjpms", "EUC-JP-MS", 1},
    {"utf16", "UTF-16BE", 2},    {"utf16le", "UTF-16LE", 2},    {"utf32", "UTF-32BE", 4},
    {"ucs2", "UCS-2BE", 2},      {"latin1", "CP1252", 0},       {"cp1250", "CP1250", 0},
    {"cp1251", "CP1251", 0},     {"cp1256", "CP1256", 0},       {"cp1257", "CP1257", 0},
    {"cp850", "CP850", 0},       {"cp852", "CP852", 0},         {"cp866", "CP866", 0},
    {"koi8r", "KOI8-R", 0},      {"koi8u", "KOI8-U", 0},        {"latin2", "ISO-8859-2", 0},
    {"latin5", "ISO-8859-9", 0}, {"latin7", "ISO-8859-13", 0},  {"greek", "ISO-8859-7", 0},
    {"hebrew", "ISO-8859-8", 0}, {"tis620", "TIS-620", 0},      {"armscii8", "ARMSCII-8", 0},
    {"geostd8", "GEORGIAN-PS", 0}, {"macroman", "MACINTOSH", 0}, {"macce", "MAC-CENTRALEUROPE", 0},
    {"keybcs2", "KEYBCS2", 0},   {"dec8", "DEC-MCS", 0},        {"hp8", "HP-ROMAN8", 0},
    {"swe7", "SEN_850200_C", 0},
};

constexpr const char* kPassedThrough[] = {"", "binary", "utf8mb4", "utf8mb3", "utf8", "ascii"};

const iconv_t kNoConverter = reinterpret_cast<iconv_t>(-1);

// iconv keeps state in its converters, so each thread has its own.
class Converters {
 public:
  ~Converters() {
    for (iconv_t converter : open_) {
      if (converter != kNoConverter) iconv_close(converter);
    }
  }
  iconv_t get(size_t index, const char* name) {
    if (index >= open_.size()) open_.resize(index + 1, kNoConverter);
    if (open_[index] == kNoConverter) open_[index] = iconv_open("UTF-8", name);
    return open_[index];
  }

 private:
  std::vector<iconv_t> open_;
};

thread_local Converters converters;

}  // namespace

bool Charset::find(const std::string& name, const Charset** out) {
  static std::mutex mutex;
  static std::map<std::string, const Charset*> made;
  *out = nullptr;
  for (const char* plain : kPassedThrough) {
    if (name == plain) return true;
  }
  std::lock_guard<std::mutex> lock(mutex);
  auto [at, first] = made.emplace(name, nullptr);
  if (first) at->second = make(name);
  *out = at->second;
  return *out != nullptr;
}

const Charset* Charset::make(const std::string& name) {
  for (size_t i = 0; i < std::size(kKnown); ++i) {
    const Known& known = kKnown[i];
    if (name != known.mysql) continue;
    std::unique_ptr<Charset> charset(new Charset);
    if (known.unit == 0) return charset->fill_table(known.iconv) ? charset.release() : nullptr;
    iconv_t probe = iconv_open("UTF-8", known.iconv);
    if (probe == kNoConverter) return nullptr;
    iconv_close(probe);
    charset->iconv_name_ = known.iconv;
    charset->unit_ = known.unit;
    charset->index_ = i;
    return charset.release();
  }
  return nullptr;
}

void Charset::set(uint8_t byte, uint16_t c) {
  Glyph& g = table_[byte];
  if (c < 0x80) {
    g = Glyph{1, {static_cast<uint8_t>(c)}};
  } else if (c < 0x800) {
    g = Glyph{2, {static_cast<uint8_t>(0xc0 | c >> 6), static_cast<uint8_t>(0x80 | (c & 0x3f))}};
  } else {
    g = Glyph{3, {static_cast<uint8_t>(0xe0 | c >> 12), static_cast<uint8_t>(0x80 | (c >> 6 & 0x3f)),
                  static_cast<uint8_t>(0x80 | (c & 0x3f))}};
  }
}

bool Charset::fill_table(const char* iconv_name) {
  iconv_t converter = iconv_open("UTF-16LE", iconv_name);
  if (converter == kNoConverter) return false;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char in = static_cast<char>(byte);
    char out[8];
    char* from = &in;
    char* to = out;
    size_t in_left = 1, out_left = sizeof out;
    iconv(converter, nullptr, nullptr, nullptr, nullptr);
    bool defined = iconv(converter, &from, &in_left, &to, &out_left) != static_cast<size_t>(-1) &&
                   iconv(converter, nullptr, nullptr, &to, &out_left) != static_cast<size_t>(-1);
    set(static_cast<uint8_t>(byte), defined ? load<uint16_t>(out) : '?');
  }
  iconv_close(converter);
  return true;
}

size_t Charset::convert(Bytes text, uint8_t* to) const {
  if (iconv_name_) return convert_multibyte(text, to);
  uint8_t* start = to;
  for (size_t i = 0; i < text.size; ++i) {
    const Glyph& g = table_[text.data[i]];
    std::memcpy(to, g.bytes, sizeof g.bytes);
    to += g.size;
  }
  return static_cast<size_t>(to - start);
}

size_t Charset::convert_multibyte(Bytes text, uint8_t* to) const {
  iconv_t converter = converters.get(index_, iconv_name_);
  char* from = const_cast<char*>(reinterpret_cast<const char*>(text.data));  // iconv's type is older than const
  char* out = reinterpret_cast<char*>(to);
  size_t left = text.size, room = text.size * kGrowth;
  iconv(converter, nullptr, nullptr, nullptr, nullptr);
  while (left && iconv(converter, &from, &left, &out, &room) == static_cast<size_t>(-1) && left && room) {
    *out++ = '?';
    --room;
    size_t step = left < unit_ ? left : unit_;
    from += step;
    left -= step;
  }
  return static_cast<size_t>(reinterpret_cast<uint8_t*>(out) - to);
}

}  // namespace relay
