// The server's side of a client's queue: read waiting rows, take them in flight, confirm them.
#pragma once

#include <bitset>
#include <functional>

#include "queue/arena.hpp"

namespace relay {

// Waiting rows as peek saw them: rows [number, number + rows), in `ranges` ranges.
struct Peek {
  Counts done;  // rows handed out or dropped before
  uint64_t number = 0;
  uint64_t rows = 0;
  size_t ranges = 0;
  std::bitset<kInFlightRanges> limited;  // which of the ranges have limited rows
  uint64_t queued = 0;                   // all waiting rows, these included: queued - number
  uint64_t hint = 0;
  FloorDrops passed;  // rows that were dropped before, and not handed out

  uint64_t waiting() const { return queued - number; }
};

// One client's queue in the process that owns the client (id mod workers). Only that process may call functions that
// change it. Has no state of its own: the successor of a killed server creates a new one and continues.
class QueueServer {
 public:
  QueueServer(const Arena& arena, size_t slot) : arena_(arena), slot_(slot), block_(arena.client(slot)) {}

  // Whether the block belongs to client `id`. If so, it stays that client's until release(), even if the client is
  // forgotten. A server enters before each turn of work for a client, and touches no block that it does not hold.
  bool enter(uint64_t id);
  void release(uint64_t id);

  // Copies up to `max_ranges` ranges and `max_rows` rows of the waiting rows to `out`. Changes nothing. If there are no
  // rows although waiting() > 0, they are not in the ring yet, and the broker has to be woken.
  Peek peek(Range* out, size_t max_ranges, uint64_t max_rows) const;

  // Takes the first `rows` of the peeked rows in flight. `ranges` must be exactly those, at most kInFlightRanges.
  // Nothing may be in flight. With `at_most_once` they count as confirmed at once.
  void publish(const Peek& peek, const Range* ranges, size_t count, uint64_t rows, bool at_most_once = false);

  // Counts the first peeked row as undecodable instead of delivering it. Nothing may be in flight.
  void skip(const Peek& peek, uint64_t frame);

  // Counts rows in flight as handed out once more. If a reply with the first of them was sent whole, counts a repeat.
  void repeat(uint64_t rows);
  // How many times the client has taken a reply with the first row in flight and asked again without confirming it, if
  // it asks now.
  uint64_t repeats() const;
  // Skips the first row in flight. `frame` is its frame.
  void skip_in_flight(uint64_t frame);
  // Skips row `number`, if it is the first in flight, or the next one if nothing is in flight. `frame_of` finds the frame
  // of the first row of a range.
  void skip_row(uint64_t number, const std::function<uint64_t(const Range&)>& frame_of);

  // Confirms in-flight rows below row number `through`; returns their number.
  uint64_t confirm(uint64_t through);
  // Counts in-flight rows below row number `through` as dropped by retention: their frames are gone.
  uint64_t forfeit(uint64_t through);

  // The in-flight rows, to be handed out again: rows [return value, ...) in `count` ranges at `out`, which has room for
  // kInFlightRanges.
  uint64_t in_flight(Range* out, size_t* count) const;

  // Asks to be woken when rows come. True if there are some already: then the wake may or may not come. `seen` becomes
  // the version of the broker's record before it looked: as long as that is the version, there are none.
  bool wait(uint64_t* seen = nullptr);
  void stop_waiting() { block_.line.waiting.put(0); }

  // After a publish: whether the broker sleeps although this client's ring is now half empty and more rows are due.
  bool broker_must_wake() const;

  ClientView view() const { return arena_.view(slot_); }
  ServerLine& line() const { return block_.line; }
  DoubleBuffered<AddressRecord>& address() const { return block_.address; }
  Deliveries& deliveries() const { return block_.deliveries; }

 private:
  void require_idle(const ServerRecord& s, const Peek& peek) const;
  // Ends the flight of rows below `through`, which are counted there; returns their number.
  uint64_t end_flight(uint64_t through, uint64_t ServerRecord::* count);
  static void shorten(ServerRecord* s, const Peek& peek);
  static void skip_first(ServerRecord* s, const Peek& peek);

  Arena arena_;
  size_t slot_;
  ClientBlock& block_;
};

// For server `worker`, from time to time: releases blocks whose clients were forgotten while nobody polled.
void release_forgotten(const Arena& arena, uint64_t worker);
// For the successor of a server: its connections have ended, and it holds no block.
void clear_connections(const Arena& arena, uint64_t worker);

// Copies the ranges in flight according to `s` from the in-flight area; see QueueServer::in_flight.
size_t copy_in_flight(const ClientBlock& block, const ServerRecord& s, Range* out);

}  // namespace relay
