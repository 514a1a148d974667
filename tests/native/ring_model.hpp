// What the tests of the client queue are told: a journal whose frames follow from their positions, clients with filters
// of every sort, and the rules of the limits once more, row by row.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "queue/broker.hpp"
#include "queue/queue.hpp"

namespace ring_test {

using namespace relay;

constexpr uint64_t kStart = 64;
constexpr size_t kClients = 10;
constexpr size_t kGuests = 3;  // blocks for clients that come and go
constexpr size_t kBlocks = kClients + kGuests;
constexpr size_t kTables = 4;
constexpr size_t kSlots = 32;  // of a ring
enum Client { kAll, kInserts, kOldest, kNewest, kMixed, kTiny, kMoving, kOnce, kFlushed, kUneven };

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "ring_kill: %s\n", what.c_str());
  std::exit(1);
}

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline uint64_t g_random = 1;
inline uint64_t dice(uint64_t n) { return mix(++g_random) % n; }

struct MadeUpJournal final : FrameSource {
  Frame frame(uint64_t position) override {
    uint64_t h = mix(position);
    Frame f;
    f.next = position + 8;
    if (h % 8 == 0) return f;
    f.table = 1 + (h >> 8) % kTables;
    f.kind = 1u << (h >> 16) % 3;
    f.rows = static_cast<uint32_t>((h >> 24) % 32 == 0 ? 30 : 1 + (h >> 32) % 5);
    return f;
  }
  Names names(uint64_t table) override { return {"s", "t" + std::to_string(table - 1)}; }
};

inline bool undecodable(uint64_t frame) { return mix(frame + 1) % 16 == 0; }  // for the client kInserts

inline std::vector<Filter> filters_of(size_t client, uint64_t variant) {
  auto make = [](const char* table, uint32_t kinds, uint32_t discard, uint64_t limit) {
    Filter f;
    f.schema = "s";
    f.table = table;
    f.kinds = kinds;
    f.discard = discard;
    f.limit = limit;
    return f;
  };
  switch (client) {
    case kInserts: return {make("t1", 1, 0, 0), make("t2", 1, 2, 0)};
    case kOldest: return {make("*", 7, 1, 20)};
    case kNewest: return {make("*", 3, 2, 15), make("t0", 1, 0, 12)};
    case kMixed:
      return {make("t0", 7, 0, 0), make("t1", 7, 2, 12), make("t2", 7, 1, 5), make("t2", 1, 1, 7),
              make("t3", 2, 2, 4), make("t3", 2, 1, 4), make("none", 7, 2, variant & 1 ? 40 : 0)};
    case kTiny: return {make("*", 7, 1, 3)};
    // A limit for a table that never comes changes nothing but the size of the list, and where it is.
    case kMoving: return {make("t3", 7, 0, 0), make("none", 7, 2, variant & 1 ? 40 : 0)};
    case kOnce: return {make("t2", 7, 0, 0), make("none", 7, 2, variant & 2 ? 40 : 0)};
    case kUneven: return {make("t0", 7, 1, 18), make("t1", 7, 1, 3), make("t2", 7, 1, 6)};
    default: return {make("*", 7, 0, 0)};
  }
}

// Clients that come and go have the ids above kClients. Each asks for one table, that of its id; every other one has a
// list of accepted ranges.
inline bool is_guest(uint64_t id) { return id > kClients; }
inline uint64_t table_of_guest(uint64_t id) { return id % kTables; }
inline std::vector<Filter> filters_of_guest(uint64_t id) {
  Filter all;
  all.schema = "s";
  all.table = "t" + std::to_string(table_of_guest(id));
  Filter large = all;
  large.table = "none";
  large.discard = 2;
  large.limit = id / 2 % 2 ? 40 : 0;
  return {all, large};
}

// What one row does to a queue in which `waiting` rows wait that count towards limits, told by the rules of the protocol.
enum class Fate { no_match, dropped, kept, limited, displacing };  // displacing: the oldest that waits is dropped

inline Fate judge_row(size_t client, uint64_t table, uint32_t kind, size_t waiting) {
  bool any = false, is_kept = false, all_oldest = true;
  uint64_t most = 0;
  for (const Filter& f : filters_of(client, 0)) {
    if (f.table != "*" && f.table != "t" + std::to_string(table - 1)) continue;
    if (!(f.kinds & kind)) continue;
    any = true;
    if (!f.limit) is_kept = true;
    if (f.discard != 1) all_oldest = false;
    most = std::max(most, f.limit);
  }
  if (!any) return Fate::no_match;
  if (is_kept) return Fate::kept;
  if (waiting < most) return Fate::limited;
  return all_oldest ? Fate::displacing : Fate::dropped;
}

inline bool matches(size_t client, uint64_t table, uint32_t kind) {
  return judge_row(client, table, kind, 0) != Fate::no_match;
}
inline bool is_kept(size_t client, uint64_t table, uint32_t kind) {
  return judge_row(client, table, kind, 0) == Fate::kept;
}

// A delivery of rows from number `number` on; its count of rows is a sum of the rest, so that a torn one is noticed.
inline Delivery delivery_of(uint64_t number, uint64_t frame) {
  MadeUpJournal journal;
  return {number, frame, journal.frame(frame).kind, static_cast<uint32_t>(mix(number + frame))};
}

inline bool whole(const Delivery& d) {
  const Delivery right = delivery_of(d.at, d.frame);
  return d.kind == right.kind && d.rows == right.rows;
}

struct Row {
  uint64_t frame = 0;
  uint32_t row = 0;
  bool operator==(const Row& o) const { return frame == o.frame && row == o.row; }
  bool operator<(const Row& o) const { return frame != o.frame ? frame < o.frame : row < o.row; }
};

}  // namespace ring_test
