// Parsing of JSON paths.
#include "binlog/json_path.hpp"

#include <algorithm>
#include <charconv>

namespace relay {

namespace {

void put_utf8(std::string* out, uint32_t c) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
    return;
  }
  if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
  } else {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
  }
  out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
}

class PathReader {
 public:
  explicit PathReader(std::string_view text) : text_(text) {}

  bool legs(std::vector<JsonLeg>* out) {
    if (!take("$")) return false;
    while (!text_.empty()) {
      JsonLeg leg;
      if (!(take(".") ? member(&leg) : take("[") && element(&leg))) return false;
      out->push_back(std::move(leg));
    }
    return true;
  }

 private:
  bool take(std::string_view word) {
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  bool member(JsonLeg* leg) {
    leg->member = true;
    if (take("\"")) return quoted(&leg->key);
    size_t end = std::min(text_.find_first_of(".["), text_.size());
    leg->key = text_.substr(0, end);
    text_.remove_prefix(end);
    return end != 0 && leg->key != "*";
  }

  // The server escapes quotes, backslashes and control characters; the last as \u00xx if there is no shorter escape.
  bool quoted(std::string* key) {
    while (!take("\"")) {
      if (text_.empty()) return false;
      bool escaped = take("\\");
      if (text_.empty()) return false;
      char c = text_[0];
      text_.remove_prefix(1);
      if (!escaped) {
        key->push_back(c);
      } else if (!unescape(c, key)) {
        return false;
      }
    }
    return true;
  }

  bool unescape(char c, std::string* key) {
    switch (c) {
      case '"':
      case '\\':
      case '/': key->push_back(c); return true;
      case 'b': key->push_back('\b'); return true;
      case 'f': key->push_back('\f'); return true;
      case 'n': key->push_back('\n'); return true;
      case 'r': key->push_back('\r'); return true;
      case 't': key->push_back('\t'); return true;
      case 'u': break;
      default: return false;
    }
    uint16_t unit;
    if (text_.size() < 4 || !number(text_.substr(0, 4), 16, &unit)) return false;
    text_.remove_prefix(4);
    bool surrogate = unit >= 0xd800 && unit < 0xe000;
    if (!surrogate) put_utf8(key, unit);
    return !surrogate;
  }

  bool element(JsonLeg* leg) {
    size_t end = text_.find(']');
    if (end == text_.npos) return false;
    std::string_view inside = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    constexpr std::string_view kLast = "last";
    leg->from_end = inside.substr(0, kLast.size()) == kLast;
    if (!leg->from_end) return number(inside, 10, &leg->index);
    inside.remove_prefix(kLast.size());
    if (inside.empty()) return true;
    return inside[0] == '-' && number(inside.substr(1), 10, &leg->index);
  }

  template <typename T>
  static bool number(std::string_view digits, int base, T* out) {
    auto read = std::from_chars(digits.data(), digits.data() + digits.size(), *out, base);
    return read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  }

  std::string_view text_;
};

}  // namespace

uint64_t JsonLeg::place(uint64_t count) const {
  if (!from_end) return std::min(index, count);
  return index < count ? count - 1 - index : 0;
}

bool parse_json_path(std::string_view text, std::vector<JsonLeg>* out) { return PathReader(text).legs(out); }

}  // namespace relay
