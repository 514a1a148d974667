// The server's side of a client's queue: look at what waits, take it in flight, confirm it.
#pragma once

#include "arena.hpp"

namespace relay {

// What waits, as peek saw it: rows [number, number + rows), in `ranges` consecutive ranges.
struct Peek {
  uint64_t number = 0;
  uint64_t rows = 0;
  size_t ranges = 0;
  uint64_t queued = 0;  // rows that wait, these included: queued - number
  uint64_t hint = 0;
  FloorDrops passed;  // what was dropped just before `number`

  uint64_t waiting() const { return queued - number; }
};

// One client's queue in the process that owns the client (id mod workers); only that process may call what changes it.
// Holds no state of its own: a successor of a killed server makes a new one and goes on.
class QueueServer {
 public:
  QueueServer(const Arena& arena, size_t slot) : arena_(arena), slot_(slot), block_(arena.client(slot)) {}

  // Copies up to `max_ranges` ranges, `max_rows` rows, of what waits to `out`. Changes nothing. No rows may be had
  // although waiting() > 0: then they are not in the ring yet, and the broker has to be woken.
  Peek peek(Range* out, size_t max_ranges, uint64_t max_rows) const;

  // Takes the first `rows` of the peeked rows in flight, `ranges` being exactly those, at most kInFlightRanges. Nothing
  // may be in flight. With `at_most_once` they count as confirmed at once.
  void publish(const Peek& peek, const Range* ranges, size_t count, uint64_t rows, bool at_most_once = false);

  // Counts the first peeked row as undecodable instead of delivering it. Nothing may be in flight.
  void skip(const Peek& peek, uint64_t frame);

  // Counts rows in flight as handed out once more, and a reply with the first of them that was sent whole as a repeat.
  void repeat(uint64_t rows);
  // How many times the client has taken a reply with the first row in flight and asked again without confirming it,
  // if it asks now.
  uint64_t repeats() const;
  // Leaves out the first row in flight. `frame` is its frame.
  void skip_in_flight(uint64_t frame);
  // Leaves out row `number`, if it is the first one in flight, or with none in flight the next one.
  void leave_out(uint64_t number);

  // Confirms what is in flight below row number `through`; returns how many rows that were.
  uint64_t confirm(uint64_t through);
  // Counts what is in flight below row number `through` as cut off by retention: its frames are gone.
  uint64_t forfeit(uint64_t through);

  // What is in flight, to be handed out again: rows [return value, ...) in `count` ranges at `out` (kInFlightRanges
  // fit).
  uint64_t in_flight(Range* out, size_t* count) const;

  // Asks for a wake when rows come. True if there are some already: then the wake may or may not come.
  bool wait();
  void stop_waiting() { block_.line.waiting.set(0); }

  // After a publish: whether the broker sleeps although this client's ring has become half empty and more rows are due.
  bool broker_must_wake() const;

  ClientView view() const { return arena_.view(slot_); }
  ServerLine& line() const { return block_.line; }
  Flip<PeerRecord>& peer() const { return block_.peer; }
  Deliveries& deliveries() const { return block_.deliveries; }

 private:
  void require_idle(const ServerRecord& s, const Peek& peek) const;
  static void shorten(ServerRecord* s, const Peek& peek);

  Arena arena_;
  size_t slot_;
  ClientBlock& block_;
};

// The ranges in flight according to `s`, read from the in-flight area; see QueueServer::in_flight.
size_t copy_in_flight(const ClientBlock& block, const ServerRecord& s, Range* out);

}  // namespace relay
