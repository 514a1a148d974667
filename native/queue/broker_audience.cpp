// Finds the clients that asked for a table's rows, and the rule by which they are queued.
#include <algorithm>

#include "base/failure.hpp"
#include "queue/broker.hpp"

namespace relay {

namespace {

bool is_name(const std::string& wanted, const std::string& name) { return wanted == "*" || wanted == name; }

}  // namespace

void Broker::forget_audiences() {
  audiences_.clear();
  tables_.clear();
  recent_.fill({});
}

std::vector<Broker::Interest> Broker::interests(const FrameSource::Names& names) const {
  std::vector<Interest> found;
  for (size_t slot : live_) {
    const std::vector<Filter>& filters = clients_[slot].filters;
    Interest interest;
    interest.slot = slot;
    for (size_t i = 0; i < filters.size(); ++i) {
      if (is_name(filters[i].schema, names.schema) && is_name(filters[i].table, names.table)) {
        interest.filters.push_back(i);
      }
    }
    if (!interest.filters.empty()) found.push_back(std::move(interest));
  }
  return found;
}

Broker::Audience& Broker::audience(uint64_t table) {
  auto& [recent_table, recent] = recent_[table / 8 % recent_.size()];
  if (recent && recent_table == table) return *recent;
  auto found = tables_.find(table);
  if (found == tables_.end()) {
    const FrameSource::Names names = frames_.names(table);
    auto [known, is_new] = audiences_.try_emplace(names.schema + '\0' + names.table);
    if (is_new) known->second.interests = interests(names);
    if (refuse_unproven && !names.proven && !known->second.interests.empty()) {
      throw StreamError("schema_unproven", "queue rows", names.schema + "." + names.table,
                        "the names and types of its columns cannot be proven");
    }
    found = tables_.emplace(table, &known->second).first;
  }
  recent_table = table;
  recent = found->second;
  return *recent;
}

// Computes the verdicts for all frames around `position` between which no filter begins or ends.
void Broker::settle(Audience* who, uint64_t position) {
  who->from = 0;
  who->to = Filter::kOpen;
  for (Interest& each : who->interests) {
    const Client& c = clients_[each.slot];
    for (size_t i : each.filters) {
      for (uint64_t edge : {c.filters[i].from, c.filters[i].to}) {
        if (edge <= position) {
          who->from = std::max(who->from, edge);
        } else {
          who->to = std::min(who->to, edge);
        }
      }
    }
    each.wanted = each.kept = 0;
    for (uint32_t kind : {1u, 2u, 4u}) {
      const Verdict v = judge(c, each.filters, position, kind);
      each.verdicts[index_of(kind)] = v;
      if (v.rule != Rule::none) each.wanted |= kind;
      if (v.rule == Rule::keep) each.kept |= kind;
    }
  }
}

// The limit of a client all of whose rows drop the oldest; 0 if some do not or limits differ.
uint64_t Broker::common_limit(const std::array<Verdict, 3>& verdicts) {
  uint64_t limit = 0;
  for (const Verdict& v : verdicts) {
    if (v.rule == Rule::none) continue;
    if (v.rule != Rule::oldest || (limit && v.limit != limit)) return 0;
    limit = v.limit;
  }
  return limit;
}

Broker::Verdict Broker::judge_one(size_t slot, uint64_t position, const FrameSource::Frame& frame) {
  if (!frame.rows) return {};
  const Audience& who = audience(frame.table);
  auto it = std::lower_bound(who.interests.begin(), who.interests.end(), slot,
                             [](const Interest& i, size_t s) { return i.slot < s; });
  if (it == who.interests.end() || it->slot != slot) return {};
  if (who.from <= position && position < who.to) return it->verdicts[index_of(frame.kind)];
  return judge(clients_[slot], it->filters, position, frame.kind);
}

// A row that matches a filter without a limit is kept. The limit of any other is the largest of its filters'. A row that
// finds it reached drops the oldest one if each of its filters drops the oldest, and else is dropped itself.
Broker::Verdict Broker::judge(const Client& c, const std::vector<size_t>& filters, uint64_t position, uint32_t kind) {
  Verdict v;
  bool unlimited = false;
  bool oldest = false;
  bool newest = false;
  for (size_t i : filters) {
    const Filter& f = c.filters[i];
    if (!(f.kinds & kind) || position < f.from || position >= f.to) continue;
    if (!f.limit) {
      unlimited = true;
    } else {
      (f.discard == kDropOldest ? oldest : newest) = true;
      v.limit = std::max(v.limit, f.limit);
    }
  }
  if (unlimited) {
    v.rule = Rule::keep;
  } else if (newest) {
    v.rule = Rule::newest;
    v.is_mixed = oldest;
  } else if (oldest) {
    v.rule = Rule::oldest;
  }
  return v;
}

}  // namespace relay
