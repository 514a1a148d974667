// Parsing and printing of GTIDs and GTID sets, and their binary form.
#include "base/gtid.hpp"

#include <algorithm>
#include <charconv>

namespace relay {
namespace {

constexpr size_t kUuidText = 36;
constexpr uint64_t kNumberEnd = (uint64_t{1} << 63) - 1;  // numbers of MySQL are below this
constexpr size_t kMaxTag = 32;
constexpr uint64_t kTaggedFormat = 1;

void append_number(std::string& out, uint64_t v) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
}

void append_uuid(std::string& out, const std::array<uint8_t, 16>& uuid) {
  static const char kHex[] = "0123456789abcdef";
  char text[kUuidText];
  size_t at = 0;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    text[at++] = kHex[uuid[i] >> 4];
    text[at++] = kHex[uuid[i] & 15];
  }
  out.append(text, at);
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

bool parse_tag(std::string_view text, std::string* out) {
  if (text.empty() || text.size() > kMaxTag) return false;
  out->clear();
  for (char c : text) {
    char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    bool letter = (lower >= 'a' && lower <= 'z') || lower == '_';
    if (!letter && (out->empty() || !digit(lower))) return false;
    out->push_back(lower);
  }
  return true;
}

}  // namespace

// Scans a GTID or a set from the front of a text and skips blanks. Reports the first part that is malformed, with its
// position.
class GtidScanner {
 public:
  explicit GtidScanner(std::string_view text) : text_(text) {}

  const std::string& error() const { return error_; }

  bool one(Gtid* out) {
    if (!mysql()) return mariadb(out) && end();
    if (!uuid(&out->uuid) || !colon()) return false;
    if (!digit(next()) && (!tag(&out->tag) || !colon())) return false;
    return number(&out->number, 1, kNumberEnd - 1) && end();
  }

  bool mariadb(Gtid* out) {
    out->mariadb = true;
    uint64_t domain = 0, server = 0;
    if (!digit(next())) return wrong("domain-server-number or uuid:number");
    if (!number(&domain, 0, UINT32_MAX) || !dash() || !number(&server, 0, UINT32_MAX) || !dash()) return false;
    out->domain = static_cast<uint32_t>(domain);
    out->server = static_cast<uint32_t>(server);
    return number(&out->number, 1, UINT64_MAX);
  }

  bool set(GtidSet* out) {
    while (!done()) {
      if (take(',')) continue;
      if (mysql() ? !out->domains_.empty() : !out->sources_.empty())
        return wrong(mysql() ? "another GTID of MariaDB" : "another GTID of MySQL");
      if (!(mysql() ? source(out) : domain(out))) return false;
      if (!done() && !take(',')) return wrong("a comma");
    }
    return true;
  }

 private:
  // The next character that is not a blank; '\0' at the end.
  char next() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool done() { return next() == '\0' && at_ == text_.size(); }

  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  // Whether the current item, up to the next comma, looks like one of MySQL.
  bool mysql() const {
    std::string_view item = text_.substr(at_, text_.find(',', at_) - at_);
    return item.find(':') != item.npos || std::count(item.begin(), item.end(), '-') == 4;
  }

  bool source(GtidSet* out) {
    GtidSet::Source source;
    if (!uuid(&source.first)) return false;
    for (bool numbers = false; !numbers || next() == ':';) {
      if (!colon()) return false;
      if (!digit(next())) {
        if (!tag(&source.second)) return false;
        numbers = false;
        continue;
      }
      GtidSet::Interval interval{};
      if (!number(&interval.first, 1, kNumberEnd - 1)) return false;
      uint64_t last = interval.first;
      if (take('-') && !number(&last, interval.first, kNumberEnd - 1)) return false;
      interval.end = last + 1;
      GtidSet::add_interval(out->sources_[source], interval);
      numbers = true;
    }
    return true;
  }

  bool domain(GtidSet* out) {
    Gtid gtid;
    size_t begin = at_;
    if (!mariadb(&gtid)) return false;
    if (out->domains_.emplace(gtid.domain, GtidSet::Position{gtid.server, gtid.number}).second) return true;
    at_ = begin;
    return wrong("a domain that was not there before");
  }

  // Like the server, accepts all four dashes or none.
  bool uuid(std::array<uint8_t, 16>* out) {
    next();
    bool dashes = text_.size() - at_ > 8 && text_[at_ + 8] == '-';
    for (size_t nibble = 0; nibble < 32; ++nibble, ++at_) {
      if (dashes && (nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20)) {
        if (at_ == text_.size() || text_[at_] != '-') return wrong("a dash of a server's uuid");
        ++at_;
      }
      int value = at_ < text_.size() ? hex(text_[at_]) : -1;
      if (value < 0) return wrong("a hexadecimal digit of a server's uuid");
      uint8_t& byte = (*out)[nibble / 2];
      byte = static_cast<uint8_t>(nibble % 2 ? byte | value : value << 4);
    }
    return true;
  }

  bool tag(std::string* out) {
    size_t end = at_;
    while (end < text_.size() && std::string_view(" \t\r\n:,-").find(text_[end]) == text_.npos) ++end;
    if (!parse_tag(text_.substr(at_, end - at_), out)) return wrong("a number, or a tag of at most 32 letters");
    at_ = end;
    return true;
  }

  bool number(uint64_t* out, uint64_t least, uint64_t most) {
    next();
    const char* from = text_.data() + at_;
    auto [end, error] = std::from_chars(from, text_.data() + text_.size(), *out);
    if (end == from) return wrong("a number");
    if (error != std::errc() || *out < least || *out > most)
      return wrong("a number from " + std::to_string(least) + " to " + std::to_string(most));
    at_ += static_cast<size_t>(end - from);
    return true;
  }

  bool colon() { return take(':') || wrong("a colon"); }
  bool dash() { return take('-') || wrong("a dash"); }
  bool end() { return done() || wrong("the end"); }

  bool wrong(std::string_view expected) {
    constexpr size_t kShown = 20;
    next();
    error_ = std::string(expected) + " is expected at character " + std::to_string(at_ + 1);
    std::string_view there = text_.substr(at_, kShown);
    error_ += there.empty() ? ", which is its end" : ", where it says '" + std::string(there) + "'";
    return false;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

std::string Gtid::text() const {
  std::string out;
  if (!number) return out;
  if (mariadb) {
    append_number(out, domain);
    out += '-';
    append_number(out, server);
    out += '-';
  } else {
    append_uuid(out, uuid);
    out += ':';
    if (!tag.empty()) out.append(tag) += ':';
  }
  append_number(out, number);
  return out;
}

std::optional<Gtid> Gtid::parse(std::string_view text, std::string* error) {
  Gtid gtid;
  GtidScanner in(text);
  if (in.one(&gtid)) return gtid;
  if (error) *error = in.error();
  return std::nullopt;
}

std::optional<GtidSet> GtidSet::parse(std::string_view text, std::string* error) {
  GtidSet set;
  GtidScanner in(text);
  if (in.set(&set)) return set;
  if (error) *error = in.error();
  return std::nullopt;
}

// u64 number of sources, then per source: uuid, number of intervals, intervals. With tags (MySQL 8.3+) the first word
// is 1 << 56 | number << 8 | 1, and each uuid is followed by a tag (its length doubled in one byte, then its
// characters).
std::optional<GtidSet> GtidSet::decode(Bytes packed) {
  GtidSet set;
  Reader in(packed);
  uint64_t count = in.u64();
  bool tagged = count >> 56 == kTaggedFormat;
  if (tagged) count = count << 8 >> 16;
  for (; count && in.ok(); --count) {
    Source source;
    Bytes uuid = in.take(16);
    if (!in.ok()) break;
    std::copy_n(uuid.data, 16, source.first.begin());
    if (tagged) {
      uint8_t length = in.u8();
      Bytes tag = in.take(length / 2);
      if (length % 2 || (tag.size && !parse_tag(tag.text(), &source.second))) return std::nullopt;
    }
    uint64_t intervals = in.u64();
    if (intervals > in.left() / 16) return std::nullopt;
    for (; intervals; --intervals) {
      Interval interval{in.u64(), in.u64()};
      if (!interval.first || interval.end <= interval.first || interval.end > kNumberEnd) return std::nullopt;
      set.add_interval(set.sources_[source], interval);
    }
  }
  if (!in.ok() || in.left()) return std::nullopt;
  return set;
}

std::string GtidSet::text() const {
  std::string out;
  for (const auto& [domain, position] : domains_) {
    Gtid gtid;
    gtid.mariadb = true;
    gtid.domain = domain;
    gtid.server = position.server;
    gtid.number = position.number;
    if (!out.empty()) out += ',';
    out += gtid.text();
  }
  const std::array<uint8_t, 16>* uuid = nullptr;
  for (const auto& [source, intervals] : sources_) {
    if (!uuid || *uuid != source.first) {
      if (!out.empty()) out += ',';
      append_uuid(out, source.first);
      uuid = &source.first;
    }
    if (!source.second.empty()) out.append(":").append(source.second);
    for (Interval interval : intervals) {
      out += ':';
      append_number(out, interval.first);
      if (interval.end - interval.first > 1) {
        out += '-';
        append_number(out, interval.end - 1);
      }
    }
  }
  return out;
}

std::string GtidSet::encode() const {
  bool tagged =
      std::any_of(sources_.begin(), sources_.end(), [](const auto& item) { return !item.first.second.empty(); });
  std::string out;
  auto put = [&out](uint64_t v) { out.append(reinterpret_cast<const char*>(&v), sizeof v); };
  put(tagged ? kTaggedFormat << 56 | uint64_t{sources_.size()} << 8 | kTaggedFormat : sources_.size());
  for (const auto& [source, intervals] : sources_) {
    out.append(reinterpret_cast<const char*>(source.first.data()), source.first.size());
    if (tagged) {
      out += static_cast<char>(source.second.size() * 2);
      out += source.second;
    }
    put(intervals.size());
    for (Interval interval : intervals) {
      put(interval.first);
      put(interval.end);
    }
  }
  return out;
}

}  // namespace relay
