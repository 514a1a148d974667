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
  static std::optional<Gtid> parse(std::string_view text);
};

// What has been received. MySQL: intervals per source and tag. MariaDB: the last id of each domain, which stands for
// all before it. A set holds ids of one kind; an empty one takes the kind of the first id added.
class GtidSet {
 public:
  static std::optional<GtidSet> parse(std::string_view text);  // "" is the empty set
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

 private:
  struct Interval {
    uint64_t first;
    uint64_t end;  // one beyond the last
  };
  using Source = std::pair<std::array<uint8_t, 16>, std::string>;  // uuid, tag
  struct Position {
    uint32_t server;
    uint64_t number;
  };

  void add_interval(std::vector<Interval>& intervals, Interval added);

  std::map<Source, std::vector<Interval>> sources_;  // intervals sorted, apart from each other
  std::map<uint32_t, Position> domains_;
};

}  // namespace relay
