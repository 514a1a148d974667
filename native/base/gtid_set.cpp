// Operations on GTID sets.
#include <algorithm>

#include "base/gtid.hpp"

namespace relay {

void GtidSet::add_interval(Intervals& intervals, Interval added) {
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

GtidSet::Intervals GtidSet::without(const Intervals& from, const Intervals& taken) {
  Intervals left;
  auto next = taken.begin();
  for (Interval rest : from) {
    while (next != taken.end() && next->end <= rest.first) ++next;
    for (auto hole = next; hole != taken.end() && hole->first < rest.end; ++hole) {
      if (rest.first < hole->first) left.push_back({rest.first, hole->first});
      rest.first = std::min(hole->end, rest.end);
    }
    if (rest.first < rest.end) left.push_back(rest);
  }
  return left;
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
  found->second = without(found->second, {{gtid.number, gtid.number + 1}});
  if (found->second.empty()) sources_.erase(found);
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
  GtidSet left = *this;
  left.subtract(other);
  return left.empty();
}

void GtidSet::unite(const GtidSet& other) {
  for (const auto& [domain, theirs] : other.domains_) {
    auto [mine, added] = domains_.emplace(domain, theirs);
    if (mine->second.number < theirs.number) mine->second = theirs;
  }
  for (const auto& [source, theirs] : other.sources_)
    for (Interval interval : theirs) add_interval(sources_[source], interval);
}

void GtidSet::subtract(const GtidSet& other) {
  for (const auto& [domain, theirs] : other.domains_) {
    auto mine = domains_.find(domain);
    if (mine != domains_.end() && mine->second.number <= theirs.number) domains_.erase(mine);
  }
  for (const auto& [source, theirs] : other.sources_) {
    auto mine = sources_.find(source);
    if (mine == sources_.end()) continue;
    mine->second = without(mine->second, theirs);
    if (mine->second.empty()) sources_.erase(mine);
  }
}

void GtidSet::intersect(const GtidSet& other) {
  for (auto mine = domains_.begin(); mine != domains_.end();) {
    auto theirs = other.domains_.find(mine->first);
    if (theirs == other.domains_.end()) {
      mine = domains_.erase(mine);
      continue;
    }
    if (theirs->second.number < mine->second.number) mine->second = theirs->second;
    ++mine;
  }
  GtidSet apart;
  apart.sources_ = sources_;
  apart.subtract(other);
  GtidSet mine;
  mine.sources_ = std::move(sources_);
  mine.subtract(apart);
  sources_ = std::move(mine.sources_);
}

std::vector<GtidSet::Run> GtidSet::runs() const {
  std::vector<Run> found;
  for (const auto& [domain, position] : domains_) {
    Run& run = found.emplace_back();
    run.first.mariadb = true;
    run.first.domain = domain;
    run.first.server = position.server;
    run.first.number = run.last = position.number;
  }
  for (const auto& [source, intervals] : sources_) {
    for (Interval interval : intervals) {
      Run& run = found.emplace_back();
      run.first.uuid = source.first;
      run.first.tag = source.second;
      run.first.number = interval.first;
      run.last = interval.end - 1;
    }
  }
  return found;
}

}  // namespace relay
