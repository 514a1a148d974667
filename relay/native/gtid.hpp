// Global transaction ids: MySQL's (uuid[:tag]:number) and MariaDB's (domain-server-number), one and in sets.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "bytes.hpp"

namespace relay {

// One id. `number` 0 stands for "none".
struct Gtid {
  bool mariadb = false;
  std::array<uint8_t, 16> uuid{};  // MySQL
  std::string tag;                 // MySQL 8.3+: lower case, at most 32 characters, "" if none
  uint32_t domain = 0;             // MariaDB
  uint32_t server = 0;             // MariaDB
  uint64_t number = 0;

  explicit operator bool() const { return number != 0; }
  std::string text() const;  // "" for none
  // What is no GTID leaves in `error`, if given, what is wrong and where in the text.
  static std::optional<Gtid> parse(std::string_view text, std::string* error = nullptr);
};

// What has been received. MySQL: intervals per source and tag. MariaDB: the last id of each domain, which stands for
// all before it. A set holds ids of one kind; an empty one takes the kind of the first id added.
class GtidSet {
 public:
  static std::optional<GtidSet> parse(std::string_view text, std::string* error = nullptr);  // "" is the empty set
  // The body of a PREVIOUS_GTIDS event, or a set as COM_BINLOG_DUMP_GTID carries it.
  static std::optional<GtidSet> decode(Bytes packed);

  std::string text() const;
  std::string encode() const;  // for COM_BINLOG_DUMP_GTID; of a MySQL set

  bool empty() const { return sources_.empty() && domains_.empty(); }
  bool mariadb() const { return !domains_.empty(); }
  void add(const Gtid& gtid);     // of the next number of the last source: constant time
  void remove(const Gtid& gtid);  // MySQL only: MariaDB's sets cannot have holes
  bool contains(const Gtid& gtid) const;
  bool subset_of(const GtidSet& other) const;
  // With another set of the same kind. Of MariaDB's domains: the further one of both; those in which this one is
  // further; the nearer one of both.
  void unite(const GtidSet& other);
  void subtract(const GtidSet& other);
  void intersect(const GtidSet& other);

  // Consecutive ids, from `first` to the one with the number `last`; in the order of the text.
  struct Run {
    Gtid first;
    uint64_t last = 0;
  };
  std::vector<Run> runs() const;

 private:
  struct Interval {
    uint64_t first;
    uint64_t end;  // one beyond the last
  };
  using Intervals = std::vector<Interval>;                         // sorted, apart from each other
  using Source = std::pair<std::array<uint8_t, 16>, std::string>;  // uuid, tag
  struct Position {
    uint32_t server;
    uint64_t number;
  };

  friend class GtidScanner;

  static void add_interval(Intervals& intervals, Interval added);
  static Intervals without(const Intervals& from, const Intervals& taken);

  std::map<Source, Intervals> sources_;
  std::map<uint32_t, Position> domains_;
};

}  // namespace relay
