// GTIDs as the CDC protocol has them: domain, server id, sequence.
#pragma once

#include <map>

#include "gtid.hpp"
#include "journal.hpp"

namespace relay {

struct Triplet {
  uint64_t domain = 0;
  uint32_t server = 0;
  uint64_t sequence = 0;
};

// MariaDB's GTIDs are triplets. Of MySQL's the domain is a number that somebody else keeps for the source and its tag.
class Triplets {
 public:
  enum class Made : uint8_t { yes, no_gtid, unknown };  // unknown: the number of `asked` has to be told first

  Made make(const CommitFrame& commit, Triplet* out) {
    const auto gtid = Gtid::parse(commit.gtid);
    if (!gtid || !*gtid) return Made::no_gtid;
    if (gtid->mariadb) {
      *out = {gtid->domain, gtid->server, gtid->number};
      return Made::yes;
    }
    const std::string_view source = commit.gtid.substr(0, commit.gtid.rfind(':'));
    const auto known = domains_.find(source);
    if (known == domains_.end()) {
      asked_ = source;
      return Made::unknown;
    }
    *out = {known->second, commit.server, gtid->number};
    return Made::yes;
  }
  const std::string& asked() const { return asked_; }  // uuid or uuid:tag
  void tell(uint64_t domain) { domains_[asked_] = domain; }

 private:
  std::map<std::string, uint64_t, std::less<>> domains_;
  std::string asked_;
};

}  // namespace relay
