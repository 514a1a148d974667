#include "gtid.hpp"

#include <algorithm>
#include <charconv>

namespace relay {
namespace {

constexpr size_t kUuidText = 36;
constexpr uint64_t kNumberEnd = uint64_t{1} << 63;  // numbers are below
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

// Dashes are optional, as on the server.
bool parse_uuid(std::string_view text, std::array<uint8_t, 16>* out) {
  size_t nibble = 0;
  for (char c : text) {
    if (c == '-') continue;
    int v = hex(c);
    if (v < 0 || nibble == 32) return false;
    uint8_t& byte = (*out)[nibble / 2];
    byte = static_cast<uint8_t>(nibble % 2 ? byte | v : v << 4);
    ++nibble;
  }
  return nibble == 32;
}

template <typename T>
bool parse_number(std::string_view text, T* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool parse_tag(std::string_view text, std::string* out) {
  if (text.empty() || text.size() > kMaxTag) return false;
  out->clear();
  for (char c : text) {
    char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    bool letter = (lower >= 'a' && lower <= 'z') || lower == '_';
    if (!letter && (out->empty() || lower < '0' || lower > '9')) return false;
    out->push_back(lower);
  }
  return true;
}

std::string_view trim(std::string_view text) {
  const char* blanks = " \t\r\n";
  size_t from = text.find_first_not_of(blanks);
  return from == text.npos ? std::string_view() : text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

// The part up to the separator, which is taken off `rest` with it.
std::string_view next_part(std::string_view* rest, char separator) {
  size_t at = rest->find(separator);
  std::string_view part = rest->substr(0, at);
  rest->remove_prefix(at == rest->npos ? rest->size() : at + 1);
  return trim(part);
}

bool parse_mariadb(std::string_view text, Gtid* out) {
  out->mariadb = true;
  return parse_number(next_part(&text, '-'), &out->domain) && parse_number(next_part(&text, '-'), &out->server) &&
         parse_number(trim(text), &out->number);
}

}  // namespace

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

std::optional<Gtid> Gtid::parse(std::string_view text) {
  Gtid gtid;
  if (text.find(':') == text.npos) {
    if (!parse_mariadb(text, &gtid) || !gtid.number) return std::nullopt;
    return gtid;
  }
  if (!parse_uuid(next_part(&text, ':'), &gtid.uuid)) return std::nullopt;
  if (text.find(':') != text.npos && !parse_tag(next_part(&text, ':'), &gtid.tag)) return std::nullopt;
  if (!parse_number(trim(text), &gtid.number) || !gtid.number || gtid.number >= kNumberEnd) return std::nullopt;
  return gtid;
}

std::optional<GtidSet> GtidSet::parse(std::string_view text) {
  GtidSet set;
  text = trim(text);
  while (!text.empty()) {
    std::string_view item = next_part(&text, ',');
    if (item.empty()) continue;
    if (item.find(':') == item.npos) {
      Gtid gtid;
      if (!set.sources_.empty() || !parse_mariadb(item, &gtid) || !gtid.number) return std::nullopt;
      set.domains_[gtid.domain] = {gtid.server, gtid.number};
      continue;
    }
    Source source;
    if (!set.domains_.empty() || !parse_uuid(next_part(&item, ':'), &source.first)) return std::nullopt;
    while (!item.empty()) {
      std::string_view part = next_part(&item, ':');
      if (std::string tag; parse_tag(part, &tag)) {
        source.second = std::move(tag);
        continue;
      }
      Interval interval{};
      bool range = part.find('-') != part.npos;
      if (!parse_number(next_part(&part, '-'), &interval.first)) return std::nullopt;
      uint64_t last = interval.first;
      if (range && !parse_number(part, &last)) return std::nullopt;
      if (!interval.first || last < interval.first || last >= kNumberEnd) return std::nullopt;
      interval.end = last + 1;
      set.add_interval(set.sources_[source], interval);
    }
  }
  return set;
}

// u64 number of sources, then per source: uuid, number of intervals, intervals. With tags (MySQL 8.3+) the first word
// is 1 << 56 | number << 8 | 1, and a tag (its length doubled in one byte, its characters) follows each uuid.
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

void GtidSet::add_interval(std::vector<Interval>& intervals, Interval added) {
  if (!intervals.empty() && intervals.back().end == added.first) {
    intervals.back().end = added.end;
    return;
  }
  auto from = std::lower_bound(intervals.begin(), intervals.end(), added.first,
                               [](const Interval& i, uint64_t first) { return i.end < first; });
  auto to = from;
  for (; to != intervals.end() && to->first <= added.end; ++to) {
    added.first = std::min(added.first, to->first);
    added.end = std::max(added.end, to->end);
  }
  from = intervals.erase(from, to);
  intervals.insert(from, added);
}

void GtidSet::add(const Gtid& gtid) {
  if (!gtid) return;
  if (gtid.mariadb)
    domains_[gtid.domain] = {gtid.server, gtid.number};
  else
    add_interval(sources_[{gtid.uuid, gtid.tag}], {gtid.number, gtid.number + 1});
}

void GtidSet::remove(const Gtid& gtid) {
  auto found = sources_.find({gtid.uuid, gtid.tag});
  if (gtid.mariadb || !gtid || found == sources_.end()) return;
  std::vector<Interval> left;
  for (Interval i : found->second) {
    if (gtid.number < i.first || gtid.number >= i.end) {
      left.push_back(i);
      continue;
    }
    if (i.first < gtid.number) left.push_back({i.first, gtid.number});
    if (gtid.number + 1 < i.end) left.push_back({gtid.number + 1, i.end});
  }
  if (left.empty())
    sources_.erase(found);
  else
    found->second = std::move(left);
}

bool GtidSet::contains(const Gtid& gtid) const {
  if (!gtid) return false;
  if (gtid.mariadb) {
    auto found = domains_.find(gtid.domain);
    return found != domains_.end() && gtid.number <= found->second.number;
  }
  auto found = sources_.find({gtid.uuid, gtid.tag});
  if (found == sources_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const Interval& i) { return gtid.number >= i.first && gtid.number < i.end; });
}

bool GtidSet::subset_of(const GtidSet& other) const {
  for (const auto& [domain, position] : domains_) {
    auto found = other.domains_.find(domain);
    if (found == other.domains_.end() || position.number > found->second.number) return false;
  }
  for (const auto& [source, intervals] : sources_) {
    auto found = other.sources_.find(source);
    if (found == other.sources_.end()) return false;
    for (Interval i : intervals) {
      bool covered = std::any_of(found->second.begin(), found->second.end(),
                                 [&](const Interval& o) { return o.first <= i.first && i.end <= o.end; });
      if (!covered) return false;
    }
  }
  return true;
}

}  // namespace relay
