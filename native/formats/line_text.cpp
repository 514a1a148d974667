// In-place encoding of text.
#include "formats/line_text.hpp"

#include <array>

#include "base/utf8.hpp"

namespace relay {

namespace {

constexpr char kHex[] = "0123456789abcdef";
constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The character after the backslash for each byte: 0 if the byte needs none, 'u' for \u00XX.
using Escapes = std::array<char, 256>;

constexpr Escapes csv_escapes() {
  Escapes made{};
  made['"'] = '"';
  made['\\'] = '\\';
  made['\n'] = 'n';
  made['\r'] = 'r';
  made['\0'] = '0';
  return made;
}

constexpr Escapes json_escapes() {
  Escapes made{};
  for (size_t c = 0; c < ' '; ++c) made[c] = 'u';
  made['"'] = '"';
  made['\\'] = '\\';
  made['\b'] = 'b';
  made['\f'] = 'f';
  made['\n'] = 'n';
  made['\r'] = 'r';
  made['\t'] = 't';
  return made;
}

constexpr Escapes kCsvEscapes = csv_escapes();
constexpr Escapes kJsonEscapes = json_escapes();

size_t growth(const Escapes& escapes, uint8_t byte) {
  const char letter = escapes[byte];
  return letter == 0 ? 0 : letter == 'u' ? 5 : 1;
}

uint8_t* escape(const Escapes& escapes, Output& out, size_t start, uint8_t* end, size_t room) {
  size_t more = 0;
  for (const uint8_t* p = out.at(start); p != end; ++p) more += growth(escapes, *p);
  if (!more) return end;
  out.p = end;
  out.ensure(more + room);
  const uint8_t* from = out.p;
  uint8_t* const grown = out.p + more;
  for (uint8_t* to = grown; to != from;) {
    const uint8_t byte = *--from;
    const char letter = escapes[byte];
    if (letter == 'u') {
      to -= 6;
      std::memcpy(to, "\\u00", 4);
      to[4] = static_cast<uint8_t>(kHex[byte >> 4]);
      to[5] = static_cast<uint8_t>(kHex[byte & 15]);
    } else if (letter) {
      *--to = static_cast<uint8_t>(letter);
      *--to = '\\';
    } else {
      *--to = byte;
    }
  }
  return grown;
}

template <typename Escape>
std::string quoted(const std::string& text, Escape escaped) {
  Output out;
  out.ensure(text.size());
  uint8_t* end = copy_exact(out.p, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  out.p = escaped(out, 0, end, 0);
  return '"' + std::string(out.chars(), out.size()) + '"';
}

}  // namespace

uint8_t* escape_csv(Output& out, size_t start, uint8_t* end, size_t room) {
  return escape(kCsvEscapes, out, start, end, room);
}

uint8_t* escape_json(Output& out, size_t start, uint8_t* end, size_t room) {
  uint8_t* text = out.at(start);
  mend_utf8(text, static_cast<size_t>(end - text));
  return escape(kJsonEscapes, out, start, end, room);
}

uint8_t* encode_base64(Output& out, size_t start, uint8_t* end, size_t room) {
  const size_t size = static_cast<size_t>(end - out.at(start));
  const size_t groups = (size + 2) / 3;
  out.p = end;
  out.ensure(4 * groups - size + room);
  uint8_t* const text = out.at(start);
  // Works from the last group to the first, because a group is written at or after the place where it is read.
  for (size_t group = groups; group-- > 0;) {
    const size_t left = size - 3 * group;
    const uint8_t* from = text + 3 * group;
    const uint32_t bits =
        uint32_t{from[0]} << 16 | (left > 1 ? uint32_t{from[1]} << 8 : 0) | (left > 2 ? uint32_t{from[2]} : 0);
    uint8_t* to = text + 4 * group;
    to[0] = static_cast<uint8_t>(kBase64[bits >> 18]);
    to[1] = static_cast<uint8_t>(kBase64[bits >> 12 & 63]);
    to[2] = left > 1 ? static_cast<uint8_t>(kBase64[bits >> 6 & 63]) : '=';
    to[3] = left > 2 ? static_cast<uint8_t>(kBase64[bits & 63]) : '=';
  }
  return text + 4 * groups;
}

uint8_t* encode_hex(Output& out, size_t start, uint8_t* end, size_t room) {
  const size_t size = static_cast<size_t>(end - out.at(start));
  out.p = end;
  out.ensure(size + room);
  uint8_t* const text = out.at(start);
  for (size_t i = size; i-- > 0;) {
    const uint8_t byte = text[i];
    text[2 * i] = static_cast<uint8_t>(kHex[byte >> 4]);
    text[2 * i + 1] = static_cast<uint8_t>(kHex[byte & 15]);
  }
  return text + 2 * size;
}

std::string quoted_csv(const std::string& text) { return quoted(text, escape_csv); }
std::string quoted_json(const std::string& text) { return quoted(text, escape_json); }

}  // namespace relay
