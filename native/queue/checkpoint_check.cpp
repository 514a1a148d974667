// Checks that a checkpoint can come from a broker of this journal: its counts balance, and its frames exist.
#include "queue/broker.hpp"

namespace relay {
namespace {

uint64_t rows_of(const std::vector<Range>& ranges) {
  uint64_t rows = 0;
  for (const Range& each : ranges) rows += each.rows;
  return rows;
}

// Rows that were handed out are confirmed, dropped, left out, or in flight.
std::string server_flaw(const Checkpoint& c) {
  const ServerRecord& s = c.server;
  if (s.lo > s.hi || s.limited > s.hi) return "more rows are confirmed or counted by limits than were handed out";
  const uint64_t gone = s.confirmed + s.dropped_limit + s.dropped_cut + s.dropped_flush + s.undecodable + s.skipped;
  if (s.lo != gone) {
    return std::to_string(s.lo) + " rows are done, and " + std::to_string(gone) + " were confirmed or dropped";
  }
  if (rows_of(c.in_flight) != s.hi - s.lo) {
    return std::to_string(s.hi - s.lo) + " rows are in flight, and " + std::to_string(rows_of(c.in_flight)) +
           " are listed";
  }
  return "";
}

// Waiting rows are no more than were queued, and begin at the lag.
std::string queue_flaw(const Checkpoint& c) {
  const BrokerRecord& b = c.broker;
  const Counts done = highest(c.server.taken(), b.floor());
  if (!b.queued.covers(done)) return "more rows are handed out or dropped than were queued";
  if (!b.lag) return b.queued != done ? "rows wait, and their position is missing" : "";
  if (!b.queued.covers(b.lag_rows)) return "more rows precede the waiting ones than were queued";
  for (const Queued& each : c.accepted) {
    if (each.end() > b.queued.limited) return "more rows were accepted by limits than were queued";
  }
  return "";
}

}  // namespace

// The rows of the run at `position`, counted until there are at least `most`.
uint64_t Broker::rows_of_run(uint64_t position, uint64_t most, uint64_t committed) const {
  const FrameSource::Frame first = frames_.frame(position);
  uint64_t rows = first.rows;
  for (uint64_t at = first.next; rows < most && at < committed && in_one_block(position, at);) {
    const FrameSource::Frame frame = frames_.frame(at);
    if (frame.rows && frame.table == first.table) rows += frame.rows;
    at = frame.next;
  }
  return rows;
}

// An unreadable frame is damage of the journal, not of the checkpoint; it is reported when the frame is needed.
std::string Broker::frame_flaw(uint64_t position, uint64_t rows, uint64_t committed) const {
  const std::string text = "it has rows at journal position " + std::to_string(position);
  if (position >= committed) return text + ", and the journal ends at " + std::to_string(committed);
  uint64_t there = 0;
  try {
    there = rows_of_run(position, rows, committed);
  } catch (const std::exception&) {
    there = rows;
  }
  return there < rows ? text + ", where there are " + std::to_string(there) + " rows" : "";
}

std::string Broker::flaw(Bytes packed, uint64_t position) const {
  Checkpoint c;
  try {
    c = Checkpoint::unpack(packed);
  } catch (const ArenaError& error) {
    return error.what();
  }
  const uint64_t committed = arena_.control().reader.committed.get();
  const uint64_t reach = std::max({position, c.broker.scan, c.broker.lag});
  if (reach > committed) {
    return "it is at journal position " + std::to_string(reach) + ", and the journal ends at " +
           std::to_string(committed);
  }
  std::string found = server_flaw(c);
  if (found.empty() && c.format >= 4) found = queue_flaw(c);
  for (size_t i = 0; found.empty() && i < c.in_flight.size(); ++i) {
    found = frame_flaw(c.in_flight[i].frame, uint64_t{c.in_flight[i].first} + c.in_flight[i].rows, committed);
  }
  for (size_t i = 0; found.empty() && i < c.accepted.size(); ++i) {
    found = frame_flaw(c.accepted[i].frame, c.accepted[i].rows, committed);
  }
  return found;
}

}  // namespace relay
