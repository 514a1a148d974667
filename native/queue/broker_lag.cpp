// The part of a client's queue beyond its ring: a position in the journal (the lag), and a list of accepted
// rows.
//
// After the lag, rows are found again in the journal by the filters that were in force there. That gives everything
// except how many rows were accepted that a filter which drops the newest matches: that depended on how many waited at
// the time. So these rows are listed. A limit bounds its list. Rows are accepted only while fewer wait than the limit. A row that displaces
// a listed one leaves as many waiting, and no limited row behind it can be taken before it leaves the list.
#include <algorithm>

#include "base/failure.hpp"
#include "queue/broker.hpp"

namespace relay {

void Broker::begin_lag(size_t slot, uint64_t position) {
  BrokerRecord& w = clients_[slot].w;
  w.lag = position;
  w.lag_rows = w.queued;
  w.lag_limited_at = 0;
  if (std::find(lagging_.begin(), lagging_.end(), slot) == lagging_.end()) lagging_.push_back(slot);
}

void Broker::end_lag(size_t slot) {
  BrokerRecord& w = clients_[slot].w;
  w.lag = 0;
  w.accepted_head = w.accepted_tail;
}

Queued Broker::accepted(size_t slot, uint64_t index) const {
  const BrokerRecord& w = clients_[slot].w;
  const Accepted& entry = arena_.accepted(w)[Slot::place(index, w.accepted_room)];
  return {entry.frame.relaxed(), entry.before.relaxed(), static_cast<uint32_t>(entry.rows.relaxed()), true, true};
}

// Lists accepted rows.
void Broker::accept(size_t slot, const Queued& queued) {
  BrokerRecord& w = clients_[slot].w;
  if (w.accepted_tail - w.accepted_head == w.accepted_room) {
    throw ArenaError("client '" + arena_.name(slot) + "' has more rows than its limits allow (" +
                     std::to_string(w.accepted_room) + " ranges are listed)");
  }
  Accepted& entry = arena_.accepted(w)[Slot::place(w.accepted_tail, w.accepted_room)];
  entry.frame.put(queued.frame);
  entry.before.put(queued.before);
  entry.rows.put(queued.rows);
  ++w.accepted_tail;
}

// What was queued of the frame at `lag`. No rows if none were queued, or if they are limited rows dropped long ago.
Queued Broker::behind_lag(size_t slot, const FrameSource::Frame& frame) {
  const BrokerRecord& w = clients_[slot].w;
  const Rule rule = judge_one(slot, w.lag, frame).rule;
  if (rule == Rule::newest) {
    const bool is_next = w.accepted_head < w.accepted_tail && accepted(slot, w.accepted_head).frame == w.lag;
    return is_next ? accepted(slot, w.accepted_head) : Queued{};
  }
  Queued q{w.lag, 0, frame.rows, rule != Rule::keep, false};
  q.before = w.lag_rows.of(q.is_limited);
  if (rule == Rule::none || (q.is_limited && w.lag < w.lag_limited_at)) q.rows = 0;
  return q;
}

// Adds the rows of frames before `end` that continue the run of `queued`, whose first frame is `first`. Returns the
// position after the frames that need no other slot.
uint64_t Broker::extend_run(size_t slot, const FrameSource::Frame& first, uint64_t end, Queued* queued) {
  const Rows run{queued->frame, first};
  uint64_t position = first.next;
  try {
    while (position < end && frames_.has_runs() && in_one_block(queued->frame, position)) {
      const FrameSource::Frame frame = frames_.frame(position);
      const Rule rule = judge_one(slot, position, frame).rule;
      if (rule == Rule::keep && continues_run(run, queued->rows, position, frame)) {
        queued->rows += frame.rows;
      } else if (rule != Rule::none || (frame.rows && frame.table == first.table)) {
        break;
      }
      position = frame.next;
    }
  } catch (const std::exception&) {
    return position;  // met again when the rows before it have their slot
  }
  return position;
}

// Moves rows that are in no slot yet, from the frames [lag, end), to the ring as far as it has room.
void Broker::refill(size_t slot, uint64_t end) {
  Client& c = clients_[slot];
  while (c.w.lag && c.w.lag < end) {
    const FrameSource::Frame frame = frames_.frame(c.w.lag);
    Queued q = behind_lag(slot, frame);
    uint64_t next = frame.next;
    if (q.rows && !q.is_limited) next = extend_run(slot, frame, end, &q);
    if (q.rows) {
      if (q.end() > c.w.floor().of(q.is_limited)) {
        if (!push(slot, q, end)) return;
        touch(slot);  // wakes as well
      }
      c.w.lag_rows.of(q.is_limited) = q.end();
      if (q.is_newest) ++c.w.accepted_head;
    }
    c.w.lag = next;
  }
  if (!c.w.lag) return;
  if (c.w.lag_rows != c.w.queued) {
    auto counts = [](const Counts& t) { return std::to_string(t.kept) + " and " + std::to_string(t.limited); };
    throw StreamError("state_damaged", "fill the queue", "client '" + arena_.name(slot) + "'",
                      "its filters are not those its rows were counted with (" + counts(c.w.queued) +
                          " queued without and with a limit, " + counts(c.w.lag_rows) + " found again)");
  }
  end_lag(slot);
  touch(slot);
}

// A failure for one client is reported at the end, so that it stops no other client.
std::exception_ptr Broker::refill_all() {
  std::exception_ptr failure;
  for (size_t slot : lagging_) {
    if (!clients_[slot].w.lag || !has_room(slot)) continue;
    try {
      refill(slot, scan_of(slot));
    } catch (...) {
      failure = std::current_exception();
    }
    publish(slot, scan_of(slot));
  }
  auto caught_up = [this](size_t slot) { return !clients_[slot].w.lag; };
  lagging_.erase(std::remove_if(lagging_.begin(), lagging_.end(), caught_up), lagging_.end());
  return failure;
}

// Counts the rows of frames [from, to), both after the lag; limited rows only where they are counted.
Counts Broker::rows_in_lag(size_t slot, uint64_t from, uint64_t to) {
  const BrokerRecord& w = clients_[slot].w;
  Counts rows;
  for (uint64_t i = w.accepted_head; i < w.accepted_tail; ++i) {
    const Queued each = accepted(slot, i);
    if (each.frame >= from && each.frame < to) rows.limited += each.rows;
  }
  while (from < to) {
    const FrameSource::Frame frame = frames_.frame(from);
    const Rule rule = judge_one(slot, from, frame).rule;
    if (rule == Rule::keep) rows.kept += frame.rows;
    if (rule == Rule::oldest && from >= w.lag_limited_at) rows.limited += frame.rows;
    from = frame.next;
  }
  return rows;
}

// Drops rows of frames before `position`, which are about to be deleted or are gone.
void Broker::cut_lag(size_t slot, uint64_t position) {
  BrokerRecord& w = clients_[slot].w;
  if (w.lag < arena_.control().reader.first.relaxed()) {  // the slow path
    const Counts rest = rows_in_lag(slot, position, scan_of(slot));
    w.lag_rows = {w.queued.kept - rest.kept, w.queued.limited - rest.limited};
  } else {
    const Counts gone = rows_in_lag(slot, w.lag, position);
    w.lag_rows = {w.lag_rows.kept + gone.kept, w.lag_rows.limited + gone.limited};
  }
  while (w.accepted_head < w.accepted_tail && accepted(slot, w.accepted_head).frame < position) ++w.accepted_head;
  w.lag = position;
  if (position >= scan_of(slot)) end_lag(slot);
}

}  // namespace relay
