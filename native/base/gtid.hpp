// Global transaction ids of MySQL (uuid[:tag]:number) and MariaDB (domain-server-number), and sets of them.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.hpp"

namespace relay {

// One id. A `number` of 0 means "none".
struct Gtid {
  bool mariadb = false;
  std::array<uint8_t, 16> uuid{};  // MySQL
  std::string tag;                 // MySQL 8.3+: lower case, at most 32 characters, "" if none
  uint32_t domain = 0;             // MariaDB
  uint32_t server = 0;             // MariaDB
  uint64_t number = 0;

  explicit operator bool() const { return number != 0; }
  std::string text() const;  // "" for none
  // If the text is not a GTID, stores in `error`, if given, what is wrong and where in the text.
  static std::optional<Gtid> parse(std::string_view text, std::string* error = nullptr);
};

// A set of received ids. MySQL: intervals per source and tag. MariaDB: the last id of each domain, which includes all
// before it. A set holds ids of one kind; an empty set takes the kind of the first id added.
class GtidSet {
 public:
  static std::optional<GtidSet> parse(std::string_view text, std::string* error = nullptr);  // "" is the empty set
  // Decodes the body of a PREVIOUS_GTIDS event, or a set in the form of COM_BINLOG_DUMP_GTID.
  static std::optional<GtidSet> decode(Bytes packed);

  std::string text() const;
  std::string encode() const;  // MySQL sets only: the form of COM_BINLOG_DUMP_GTID

  bool empty() const { return sources_.empty() && domains_.empty(); }
  bool mariadb() const { return !domains_.empty(); }
  void add(const Gtid& gtid);     // constant time for the next number of the last source
  void remove(const Gtid& gtid);  // MySQL only: sets of MariaDB cannot have holes
  bool contains(const Gtid& gtid) const;
  bool subset_of(const GtidSet& other) const;
  // Set operations with another set of the same kind. For MariaDB, unite keeps the higher id of each domain, subtract
  // the domains in which this set is higher, intersect the lower id of each domain.
  void unite(const GtidSet& other);
  void subtract(const GtidSet& other);
  void intersect(const GtidSet& other);

  // Consecutive ids, from `first` to the one with number `last`, in the order of the text.
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
  using Intervals = std::vector<Interval>;                         // sorted and disjoint
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
