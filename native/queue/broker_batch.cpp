// Decides a batch of frames client by client. Frames of a run, and rows that a limit drops, take no decision each.
#include <algorithm>

#include "queue/broker.hpp"

namespace relay {

// Finds the frames that continue the run of batch_[first], for a client that keeps rows of these kinds.
void Broker::find_run(size_t first, uint32_t kinds) {
  uint64_t rows = batch_[first].frame.rows;
  size_t end = first + 1;
  for (; end < batch_.size(); ++end) {
    const auto& [position, frame] = batch_[end];
    if (!(frame.kind & kinds) || !continues_run(batch_[first], rows, position, frame)) break;
    rows += frame.rows;
  }
  runs_[first] = {batches_, kinds, rows, end};
}

// Decides the run that begins with batch_[first]. Returns the index after it.
size_t Broker::keep_run(size_t slot, size_t first, uint32_t kinds) {
  touch(slot);
  const Run& run = runs_[first];  // most clients of a table keep the same rows
  if (run.batch != batches_ || run.kinds != kinds) find_run(first, kinds);
  keep(slot, batch_[first].position, run.rows, batch_[first].position);
  clients_[slot].w.scan = batch_[run.end - 1].frame.next;
  return run.end;
}

// Skips rows that a drop-oldest limit drops within their batch, unless more rows than the limit wait. They need no
// slots: they are counted, and the floor rises to their end before any later row is in a slot. Returns the number of
// these frames.
size_t Broker::pass_over(const Interest& who) {
  Client& c = clients_[who.slot];
  if (batch_.size() == 1 || batch_.front().position < c.w.scan) return 0;
  if (c.w.lag && c.w.lag_rows.kept != c.w.queued.kept) return 0;  // rows that stay are not all in slots yet
  const uint64_t limit = common_limit(who.verdicts);
  if (!limit) return 0;
  if (c.w.queued.limited - done(who.slot).limited > limit) return 0;
  auto matching = [&](const FrameSource::Frame& frame) {
    return who.verdicts[index_of(frame.kind)].rule == Rule::none ? 0 : frame.rows;
  };
  uint64_t kept = 0;
  uint64_t last = 0;  // position of the last frame that matches
  size_t first = batch_.size();
  while (first && kept < limit) {
    const uint64_t rows = matching(batch_[--first].frame);
    kept += rows;
    if (rows) last = std::max(last, batch_[first].position);
  }
  uint64_t passed = 0;
  for (size_t i = 0; i < first; ++i) passed += matching(batch_[i].frame);
  if (!passed) return 0;
  touch(who.slot);
  note_length(who.slot, done(who.slot));
  c.w.queued.limited += passed;
  c.w.floor_limit = c.w.queued.limited;
  c.w.oldest_at = last;
  if (c.w.lag) end_lag(who.slot);
  c.w.scan = batch_[first].position;
  queued_rows_ += passed;
  return first;
}

// Adds up the batch's rows of these kinds, once for all clients that ask for them.
const Broker::Rest& Broker::rest_of_batch(uint32_t kinds) {
  Rest& rest = rests_[kinds];
  if (rest.batch == batches_) return rest;
  rest.batch = batches_;
  rest.last = 0;
  uint64_t rows = 0;
  for (size_t i = batch_.size(); i-- > 0;) {
    const FrameSource::Frame& frame = batch_[i].frame;
    if (frame.kind & kinds) {
      if (!rows) rest.last = i;
      rows += frame.rows;
    }
    rest.rows[i] = rows;
  }
  return rest;
}

// Drops all rows of the batch from batch_[first] on, if they find the queue as full as the row before them, which a
// limit that drops the newest has dropped. Returns the index of the first frame that is still to be decided.
size_t Broker::turn_away(const Interest& who, size_t first, uint64_t limit, uint32_t kinds) {
  if (first == batch_.size()) return first;
  for (uint32_t kind : {1u, 2u, 4u}) {
    const Verdict& v = who.verdicts[index_of(kind)];
    if ((who.wanted & kinds & kind) && (v.rule != Rule::newest || v.limit > limit)) return first;
  }
  const Rest& rest = rest_of_batch(who.wanted & kinds);
  if (!rest.rows[first]) return batch_.size();
  BrokerRecord& w = clients_[who.slot].w;
  w.dropped_newest += rest.rows[first];
  w.newest_at = batch_[rest.last].position;
  w.scan = batch_[rest.last].frame.next;
  return batch_.size();
}

void Broker::decide_batch() {
  if (batch_.empty()) return;
  uint32_t kinds = 0;
  for (const Rows& each : batch_) kinds |= each.frame.kind;
  ++batches_;
  for (const Interest& each : batch_for_->interests) {
    if (!(each.wanted & kinds)) continue;
    const Client& c = clients_[each.slot];
    for (size_t next = pass_over(each); next < batch_.size();) {
      const size_t i = next++;
      const auto& [position, frame] = batch_[i];
      const Verdict& v = each.verdicts[index_of(frame.kind)];
      if (position < c.w.scan) continue;
      if (v.rule == Rule::keep && batch_.size() > 1) {
        next = keep_run(each.slot, i, each.kept & kinds);
      } else {
        decide(each.slot, v, position, frame, true);
        if (v.rule == Rule::newest && c.w.newest_at == position) next = turn_away(each, next, v.limit, kinds);
      }
    }
  }
  batch_.clear();
}

}  // namespace relay
