// Polls, confirmations and rows that are left out.
#include "serve/serve.hpp"

#include <algorithm>
#include <ctime>

#include "base/checksum.hpp"

namespace relay {
namespace {

// One request skips at most this many rows that cannot be handed out, because other clients wait meanwhile.
constexpr int kMaxPassed = 4096;
constexpr uint64_t kWholeRepeats = 2;  // repeats of all rows in flight: a connection may break at any time

// Encodes rows one by one.
template <typename EncodeRow>
struct Each {
  EncodeRow row;
  bool copies(const Range&, uint64_t, RowNumbers, RowOrigin*) { return false; }
  void ends(const Range&, uint64_t, RowNumbers, RowOrigin) {}
};

template <typename EncodeRow>
Each(EncodeRow) -> Each<EncodeRow>;

std::string too_large(size_t bytes) {
  return "the next row takes " + std::to_string(bytes) + " bytes, more than MaxBufferedBytes";
}

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// The number of rows to hand out again. A client that cannot process a row gets fewer and fewer rows with it, and
// finally that row alone.
uint64_t rows_again(uint64_t in_flight, uint64_t repeats) {
  const uint64_t halved = repeats > kWholeRepeats ? std::min<uint64_t>(repeats - kWholeRepeats, 63) : 0;
  return std::max<uint64_t>(in_flight >> halved, 1);
}

}  // namespace

enum class Server::Fit : uint8_t { taken, full, failed };

// Rows being put into a reply.
struct Server::Batch {
  Range* ranges = nullptr;
  size_t count = 0;
  uint64_t number = 0;   // number of the first row
  uint64_t waiting = 0;  // rows from the first one to the end of the queue
  uint64_t max_rows = 0;

  uint64_t rows = 0;     // encoded
  RowOrigin origin;      // of the first one
  size_t used = 0;       // ranges that they use; the last one is shortened to fit
  uint32_t got = 0;      // rows of the next range that are encoded
  RowOrigin begin;       // of the first one of that range
  bool full = false;     // the next row did not fit
  bool lost = false;     // the journal lacks the next row,
  bool damaged = false;  // because that part is damaged,
  bool later = false;    // or because the process currently lacks descriptors or memory to read it
  uint64_t frame = 0;    // frame of the next row, if reading it failed
  std::string error;
};

Server::Server(const Arena& arena, std::string journal_directory, ServeOptions options)
    : arena_(arena),
      journal_(std::move(journal_directory)),
      options_(std::move(options)),
      cursors_(arena.max_clients()),
      ranges_(kInFlightRanges) {}

// Rows of PollMany in text or msgpack. If another client had the same rows a moment ago, they are copied.
class Server::ManyRows {
 public:
  ManyRows(Server& server, const ManyRequest& request, uint32_t slot, Output& out)
      : server_(server),
        out_(out),
        start_(out.size()),
        format_(request.format),
        most_(server.limit(request)),
        cache_(server.cache_.use(slot) ? &server.cache_ : nullptr) {
    out_.skip(sizeof rows_);
    summed_ = out_.size();
  }

  // Takes `count` rows of a range from the cache. False if it does not have them, or if they do not fit.
  bool copies(const Range& range, uint64_t count, RowNumbers numbers, RowOrigin* origin) {
    if (!cache_) return false;
    server_.starts_.clear();
    begin_ = out_.size();
    const RowCache::Rows* found = cache_->find(format_, range, static_cast<uint32_t>(count));
    if (!found || begin_ - start_ + found->starts[count] > most_) return false;
    out_.append({found->bytes, found->starts[count]});
    renumber(out_.at(begin_), found->starts, count, format_, numbers);
    if (count == found->count) {
      sum_up_to(begin_);
      sum_ += found->sum + numbers_sum(count, format_, numbers);
      summed_ = out_.size();
    }
    rows_ += static_cast<uint32_t>(count);
    *origin = found->origin;
    return true;
  }

  Fit row(const Row& row, uint64_t number, uint64_t waiting, std::string* why) {
    const size_t before = out_.size();
    const RenderOptions& render = server_.options_.render;
    const bool decoded = format_ == RowFormat::msgpack ? append_many_msgpack(out_, number + 1, row, render, why)
                         : format_ == RowFormat::extended
                             ? append_many_extended(out_, number + 1, row, render, why)
                             : append_many_text(out_, number + 1, row, queue_size(waiting), render, why);
    if (!decoded) return Fit::failed;
    if (const size_t size = out_.size() - start_; size > most_ && (rows_ > 0 || size > server_.max_reply)) {
      *why = too_large(out_.size() - before);
      out_.truncate(before);
      return Fit::full;
    }
    if (cache_) server_.starts_.push_back(static_cast<uint32_t>(before - begin_));
    ++rows_;
    return Fit::taken;
  }

  // Keeps the rows of a range that were encoded one by one.
  void ends(const Range& range, uint64_t count, RowNumbers numbers, RowOrigin origin) {
    if (!cache_) return;
    std::vector<uint32_t>& starts = server_.starts_;
    starts.push_back(static_cast<uint32_t>(out_.size() - begin_));
    sum_up_to(begin_);
    const uint32_t sum = sum_up_to(out_.size()) - numbers_sum(count, format_, numbers);
    cache_->keep(format_, range, {out_.at(begin_), starts.data(), static_cast<uint32_t>(count), origin, sum});
  }

  // Puts the number of rows before them. Returns the sum of all bytes.
  uint32_t finish() {
    sum_up_to(out_.size());
    store(out_.at(start_), rows_);
    return sum_ + byte_sum({out_.at(start_), sizeof rows_});
  }

 private:
  // Adds the bytes up to there to the sum, and returns what they add.
  uint32_t sum_up_to(size_t end) {
    const uint32_t added = byte_sum({out_.at(summed_), end - summed_});
    sum_ += added;
    summed_ = end;
    return added;
  }

  Server& server_;
  Output& out_;
  size_t start_;  // where the payload begins
  RowFormat format_;
  uint64_t most_;
  RowCache* cache_;
  size_t begin_ = 0;  // where the range under way begins
  uint32_t rows_ = 0;
  uint32_t sum_ = 0;  // of the bytes of rows up to summed_, modulo 2^32
  size_t summed_ = 0;
};

template <typename Encode>
void Server::fill(Batch& batch, RowCursor& at, Encode& encode) {
  Fit fit = Fit::taken;
  try {
    while (fit == Fit::taken && batch.used < batch.count && batch.rows < batch.max_rows) {
      Range& range = batch.ranges[batch.used];
      batch.frame = range.frame;
      const uint64_t want = std::min<uint64_t>(range.rows, batch.max_rows - batch.rows);
      const RowNumbers numbers{batch.number + batch.rows + 1, batch.waiting - batch.rows - 1};
      if (encode.copies(range, want, numbers, &batch.begin)) {
        batch.rows += want;
        batch.got = static_cast<uint32_t>(want);
      } else {
        fit = fill_range(batch, at, encode, want);
        if (batch.got > 0) encode.ends(range, batch.got, numbers, batch.begin);
      }
      end_range(batch);
    }
  } catch (const JournalError& error) {
    end_range(batch);
    batch.frame = at.frame();
    batch.lost = true;
    batch.damaged = error.code == "journal_corrupt";
    batch.later = error.code == "environment";
    batch.error = error.what();
  }
  batch.full = fit == Fit::full;
}

// Shortens the range under way to its rows that were encoded.
void Server::end_range(Batch& batch) {
  if (batch.used == batch.count) return;
  batch.ranges[batch.used].rows = batch.got;
  if (batch.used == 0) batch.origin = batch.begin;
  if (batch.got > 0) ++batch.used;
  batch.got = 0;
}

// Encodes `want` rows of the next range.
template <typename Encode>
Server::Fit Server::fill_range(Batch& batch, RowCursor& at, Encode& encode, uint64_t want) {
  const Range& range = batch.ranges[batch.used];
  while (batch.got < want) {
    const bool found = at.seek(journal_, range.frame, range.first + batch.got, &batch.error);
    batch.frame = at.frame();
    if (batch.got == 0) batch.begin = {at.frame(), at.kind()};
    if (!found) return Fit::failed;
    for (; batch.got < want && !at.at_end(); ++batch.got, ++batch.rows) {
      Row row;
      if (!at.read(options_.event_position, &row, &batch.error)) return Fit::failed;
      const Fit fit = encode.row(row, batch.number + batch.rows, batch.waiting - batch.rows - 1, &batch.error);
      if (fit != Fit::taken) return fit;
      at.advance();
    }
  }
  return Fit::taken;
}

// The frame of the first row of a range; that of its run, if the journal cannot be read.
uint64_t Server::frame_of(const ClientHandle& handle, const Range& range) {
  RowCursor& at = cursor(handle);
  std::string ignored;
  try {
    return at.seek(journal_, range.frame, range.first, &ignored) ? at.frame() : range.frame;
  } catch (const JournalError&) {
    return range.frame;
  }
}

template <typename Encode>
Outcome Server::hand_out(ClientHandle& handle, uint64_t max_rows, std::string* error, Encode& encode) {
  QueueServer queue(arena_, handle.slot);
  const uint64_t now = monotonic_ns();
  queue.line().last_poll.put(now);
  for (int passed = 0; passed < kMaxPassed; ++passed) {
    Batch batch;
    batch.ranges = ranges_.data();
    batch.max_rows = max_rows;
    Peek peek;
    batch.number = queue.in_flight(ranges_.data(), &batch.count);
    bool again = batch.count > 0;
    if (again) {
      ClientView view = queue.view();
      batch.waiting = view.in_flight() + view.waiting();
      const uint64_t repeats = queue.repeats();
      batch.max_rows = std::min(max_rows, rows_again(view.in_flight(), repeats));
      const bool alone = repeats > 0 && rows_again(view.in_flight(), repeats - 1) == 1;  // as it was last handed out
      if (options_.max_repeats && repeats >= options_.max_repeats && alone) {
        queue.skip_in_flight(frame_of(handle, ranges_[0]));
        continue;
      }
    } else {
      peek = queue.peek(ranges_.data(), kInFlightRanges, max_rows);
      batch.count = peek.ranges;
      batch.number = peek.number;
      batch.waiting = peek.waiting();
    }
    if (batch.count == 0) {
      broker_wake_ |= batch.waiting > 0 && queue.broker_must_wake();
      return Outcome::empty;
    }
    uint64_t in_first = ranges_[0].rows;
    fill(batch, cursor(handle), encode);
    if (batch.rows > 0) {
      if (again) {
        queue.repeat(batch.rows);
      } else {
        queue.publish(peek, ranges_.data(), batch.used, batch.rows, options_.at_most_once);
        broker_wake_ |= queue.broker_must_wake();
      }
      if (!options_.at_most_once) handle.handed = batch.number + batch.rows;
      const auto kind = static_cast<uint32_t>(batch.origin.kind);
      queue.deliveries().add({now, batch.origin.frame, kind, static_cast<uint32_t>(batch.rows)});
      return Outcome::rows;
    }
    if (batch.later) return Outcome::empty;
    if (batch.full || (batch.lost && batch.frame >= arena_.control().reader.first.get())) {
      if (batch.damaged) damage_ = batch.error;
      *error = batch.error;
      return Outcome::failed;
    }
    if (batch.lost) {
      if (again) queue.forfeit(batch.number + in_first);  // otherwise the broker raises the floor
    } else if (again) {
      queue.confirm(batch.number + 1);
    } else {
      queue.skip(peek, batch.frame);
    }
  }
  return Outcome::empty;
}

Outcome Server::poll(ClientHandle& handle, int version, Output& out, std::string* error) {
  if (gone(handle)) return Outcome::gone;
  if (handle.handed > 0) {
    QueueServer(arena_, handle.slot).confirm(handle.handed);
    handle.handed = 0;
  }
  const size_t start = out.size();
  Each encode{[&](const Row& row, uint64_t, uint64_t waiting, std::string* why) {
    if (!append_poll(out, version, row, queue_size(waiting), options_.render, why)) return Fit::failed;
    const size_t size = out.size() - start;
    if (size <= max_reply) return Fit::taken;
    *why = too_large(size);
    return Fit::full;
  }};
  const Outcome outcome = hand_out(handle, 1, error, encode);
  if (outcome != Outcome::rows) out.truncate(start);
  return outcome;
}

void Server::skip_row(const ClientHandle& handle, uint64_t number) {
  if (gone(handle)) return;
  QueueServer queue(arena_, handle.slot);
  queue.skip_row(number, [&](const Range& range) { return frame_of(handle, range); });
  if (!queue.line().connected.relaxed()) queue.release(handle.client_id);
}

void Server::sent(const ClientHandle& handle) {
  if (handle.handed > 0 && !gone(handle)) QueueServer(arena_, handle.slot).line().taken.put(handle.handed);
}

void Server::confirm(const ClientHandle& handle, uint64_t through) {
  if (through > 0 && !gone(handle)) QueueServer(arena_, handle.slot).confirm(through);
}

Outcome Server::poll_many(ClientHandle& handle, const ManyRequest& request, Output& out, uint32_t* sum,
                          std::string* error) {
  if (gone(handle)) return Outcome::gone;
  const size_t start = out.size();
  ManyRows encode(*this, request, handle.slot, out);
  Outcome outcome = hand_out(handle, request.max_rows, error, encode);
  if (outcome == Outcome::rows)
    *sum = encode.finish();
  else
    out.truncate(start);
  return outcome;
}

Outcome Server::poll_columns(ClientHandle& handle, const ManyRequest& request, ColumnBatches& batches, uint32_t* rows,
                             std::string* error) {
  if (gone(handle)) return Outcome::gone;
  uint64_t most = limit(request);
  *rows = 0;
  const RowCursor& at = cursor(handle);
  Each encode{[&](const Row& row, uint64_t number, uint64_t, std::string* why) {
    ColumnBatch::Added added = batches.add(at.definition(), row, number + 1, why);
    if (added == ColumnBatch::Added::undecodable) return Fit::failed;
    if (added == ColumnBatch::Added::full) return Fit::full;
    if (batches.stream_bytes() > most && (*rows > 0 || batches.stream_bytes() > max_reply)) {
      *why = too_large(batches.stream_bytes());
      batches.undo();
      return Fit::full;
    }
    ++*rows;
    return Fit::taken;
  }};
  return hand_out(handle, request.max_rows, error, encode);
}

uint64_t Server::limit(const ManyRequest& request) const {
  return request.max_bytes > 0 ? std::min<uint64_t>(max_reply, request.max_bytes) : max_reply;
}

bool Server::wait(const ClientHandle& handle, uint64_t* seen) {
  return gone(handle) || QueueServer(arena_, handle.slot).wait(seen);
}

void Server::stop_waiting(const ClientHandle& handle) {
  if (!gone(handle)) QueueServer(arena_, handle.slot).stop_waiting();
}

void Server::connect(const ClientHandle& handle, std::string_view address) {
  if (gone(handle)) return;
  QueueServer queue(arena_, handle.slot);
  AddressRecord record;
  std::memcpy(record.text, address.data(), std::min(address.size(), sizeof record.text));
  queue.address().publish(record);
  queue.line().connected.set(1);
}

void Server::disconnect(const ClientHandle& handle) {
  if (gone(handle)) return;
  QueueServer queue(arena_, handle.slot);
  queue.line().connected.set(0);
  queue.stop_waiting();
  queue.release(handle.client_id);
}

bool Server::take_broker_wake() {
  bool wake = broker_wake_;
  broker_wake_ = false;
  return wake;
}

void Server::release_before(uint64_t position) {
  for (size_t slot = 0; slot < arena_.slots(); ++slot)
    if (cursors_[slot].before(position)) cursors_[slot].reset();
  journal_.release_before(position);
}

}  // namespace relay
