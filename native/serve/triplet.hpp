// GTIDs as in the CDC protocol: domain, server id, sequence.
#pragma once

#include <map>

#include "base/gtid.hpp"
#include "journal/journal.hpp"

namespace relay {

struct Triplet {
  uint64_t domain = 0;
  uint32_t server = 0;
  uint64_t sequence = 0;
};

// Makes triplets. GTIDs of MariaDB are triplets already. For MySQL, the domain is a number that the caller keeps for
// the source and its tag.
class Triplets {
 public:
  // unknown: the caller must first set the domain of unknown_source().
  enum class Made : uint8_t { yes, no_gtid, unknown };

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
      unknown_ = source;
      return Made::unknown;
    }
    *out = {known->second, commit.server, gtid->number};
    return Made::yes;
  }
  const std::string& unknown_source() const { return unknown_; }  // uuid or uuid:tag
  void set_domain(uint64_t domain) { domains_[unknown_] = domain; }

 private:
  std::map<std::string, uint64_t, std::less<>> domains_;
  std::string unknown_;
};

}  // namespace relay
