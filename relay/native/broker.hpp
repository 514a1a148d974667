// Decides which rows go to which client: committed frames in, row ranges in the clients' queues out.
#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arena.hpp"

namespace relay {

// What the broker needs of a journal.
class FrameSource {
 public:
  struct Frame {
    uint64_t next = 0;   // position of the frame after it
    uint32_t rows = 0;   // 0 unless a ROWS frame
    uint32_t kind = 0;   // RowKind: 1 insert, 2 update, 4 delete
    uint64_t table = 0;  // position of its TABLE frame
  };
  struct Names {
    std::string schema;
    std::string table;
    bool proven = true;  // the definition's columns are known for certain
  };

  virtual ~FrameSource() = default;
  // The frame at a position below the committed watermark; throws if it is gone or damaged.
  virtual Frame frame(uint64_t position) = 0;
  virtual Names names(uint64_t table) = 0;
};

constexpr uint32_t kDropOldest = 1;  // of the discard types; all others drop the newest

// Asks for rows of tables; in force for frames with from <= position < to.
struct Filter {
  static constexpr uint64_t kOpen = UINT64_MAX;

  std::string schema;  // "*" matches every name
  std::string table;
  uint32_t kinds = 7;   // bits of RowKind
  uint32_t discard = 0;
  uint64_t limit = 0;   // of the client's whole queue, rows; 0: none
  uint64_t from = 0;
  uint64_t to = kOpen;
};

// What a cold start needs to know of a client beside its name and filters. Valid once the journal is flushed up to
// broker.scan. What waits begins with the frame at broker.lag; with drop-newest limits, part of it is in `waiting`.
struct Checkpoint {
  BrokerRecord broker;
  ServerRecord server;
  std::vector<Range> in_flight;
  std::vector<Range> waiting;

  std::string pack() const;
  static Checkpoint unpack(Bytes packed);  // throws ArenaError
  // The lowest frame of what is in flight or waits; UINT64_MAX if there is nothing.
  uint64_t held() const;

 private:
  void fit();
};

// What a client's queue and its checkpoint follow from; they are the same as long as these are.
struct Marks {
  uint64_t broker = 0;  // versions of its records
  uint64_t server = 0;
  uint64_t filters = 0;
  bool operator==(const Marks& o) const { return broker == o.broker && server == o.server && filters == o.filters; }
};

uint64_t power_of_two_above(uint64_t n);

// The broker's side of all queues; one per arena, in the one broker process. A successor of a killed one is made on the
// same arena, is given the same filters again, and goes on: nothing is repaired.
class Broker {
 public:
  struct Step {
    uint64_t frames = 0;
    uint64_t rows = 0;          // that were queued, counted once per client
    uint64_t wake = 0;          // bit w: a client of server w waits and has rows now
    uint64_t position = 0;      // everything before it is decided
  };
  struct Extent {  // a part of the arena; length 0: none
    uint64_t offset = 0;
    uint64_t length = 0;
  };

  // Clients of an arena that belongs to another generation of the journal, or where no step was ever taken, are
  // removed.
  Broker(const Arena& arena, FrameSource& frames, uint64_t generation);

  uint64_t position() const { return position_; }  // everything before it is decided; 0 before the first step

  // A free block becomes the client's; its queue is empty and begins at position(). Throws ArenaError if all are taken.
  size_t add_client(uint64_t id, std::string_view name);
  // Its owning server must have let go of it. The block and its ring become free.
  void remove_client(size_t slot);

  // The part of the arena that set_filters would take for a larger ring, of at least `slots`, so that the caller can
  // allocate it first. Throws ArenaError if the pool has no room.
  Extent plan_ring(size_t slot, const std::vector<Filter>& filters, uint64_t slots = 0) const;
  // Replaces all filters of a client. A filter that ended stays in the list while its `to` is above needed(slot); a new
  // one has `from` at or above position().
  void set_filters(size_t slot, std::vector<Filter> filters);

  // Decides committed frames for about `max_bytes` of the journal, and fills rings that had been full. Throws
  // StreamError (schema_unproven) at the first row of a definition that is not proven, if somebody asked for it and
  // `refuse_unproven`, and what the source of frames throws. What was decided before that holds: its clients are
  // published, and their servers woken by the step before the one that throws.
  Step step(uint64_t max_bytes);
  // Whether step() has anything to do; with control().broker.waiting set before, a false is safe to sleep on.
  bool pending();

  // Drops all rows that wait; how many these were.
  uint64_t flush(size_t slot);
  // Drops what waits and queues again what its filters match from `position` on. Rows keep rising in number. The order
  // that survives a kill: flush, store the filters with their new `from`, set_filters, seek. If a frame cannot be read,
  // it throws, and the queue is empty.
  void seek(size_t slot, uint64_t position);
  // Before frames below `position`, or position() if that is less, are deleted: drops rows that need them.
  void cut(uint64_t position);
  // The lowest journal position that the client's queue, or what it has in flight, needs.
  uint64_t needed(size_t slot);
  // The lowest of all clients and of the broker itself.
  uint64_t needed();

  // Where clients stand, for a cold start. All clients that are not among `clients` stand where they stood when they
  // last were, and nothing is left to be decided for them before `position`.
  struct Snapshot {
    struct Client {
      size_t slot;
      uint64_t id;
      Marks marks;
      uint64_t scan;
      uint64_t held;
      std::string packed;
    };
    uint64_t position = 0;
    uint64_t reach = 0;  // the journal position up to which it speaks
    std::vector<Client> clients;
  };

  Checkpoint checkpoint(size_t slot);
  // The newest snapshot that reaches no farther than `flushed`, by this or an earlier call; none if there is none yet.
  // It is the same one until stored(), or a newer one that has all that it had.
  const Snapshot* snapshot(uint64_t flushed);
  // The one that snapshot() returned last can be restored from now on.
  void stored();
  // Frames below this position will not be matched again for the client, not even after a cold start.
  uint64_t decided(size_t slot) const;
  // The lowest position that is needed of all clients, also after a cold start; 0 while one of them has no checkpoint.
  uint64_t stored_needed() const;
  // As plan_ring, for restore.
  Extent plan_restore(size_t slot, const Checkpoint& from) const;
  // Gives a client that was just added the queue of a checkpoint, after set_filters. `position`: of the last snapshot.
  void restore(size_t slot, const Checkpoint& from, uint64_t position);

  bool refuse_unproven = false;

 private:
  struct Client {
    uint64_t id = 0;  // 0: none
    BrokerRecord w;   // being written; published by flip
    uint64_t floor = 0;   // of the published record
    uint64_t reusable = 0;  // rows below it may be overwritten; rises
    uint64_t writable = 0;  // slots of the ring before this one may be overwritten
    uint64_t blocked = 0;   // end of what stands in the next slot: as long as it is not reusable, there is no room
    bool touched = false;
    std::vector<Filter> filters;
    uint64_t filters_set = 0;  // how often
    bool is_stored = false;  // there is a checkpoint:
    Marks stored;
    uint64_t stored_scan = 0;
    uint64_t stored_held = 0;
  };
  enum class Rule { none, keep, oldest, newest };
  struct Verdict {
    Rule rule = Rule::none;
    uint64_t limit = 0;
  };
  struct Interest {
    size_t slot = 0;
    std::array<Verdict, 3> verdicts;  // by kind; hold where the audience says
    std::vector<size_t> filters;      // that name the table, whenever they are in force
  };
  // Who asked for a table, by ascending slot.
  struct Audience {
    uint64_t from = 0;  // verdicts hold for frames in [from, to)
    uint64_t to = 0;
    std::vector<Interest> interests;
  };
  struct Rows {
    uint64_t position;
    FrameSource::Frame frame;
  };

  void begin(uint64_t committed);
  Client& at(size_t slot);
  const Client& at(size_t slot) const { return const_cast<Broker*>(this)->at(slot); }
  std::vector<Interest> interests(const FrameSource::Names& names) const;
  Audience& audience(uint64_t table);
  void settle(Audience* who, uint64_t position);
  void forget_audiences();
  static size_t index_of(uint32_t kind) { return kind >> 1; }  // of RowKind: 1, 2 or 4
  static Verdict judge(const Client& c, const std::vector<size_t>& filters, uint64_t position, uint32_t kind);
  static uint64_t common_limit(const std::array<Verdict, 3>& verdicts);
  Verdict judge_one(size_t slot, uint64_t position, const FrameSource::Frame& frame);
  // Rows that only drop-newest filters match are dropped while the ring is full: its rows are more than any limit.
  static bool queued_in_lag(Rule rule);
  uint64_t walk(uint64_t committed, uint64_t max_bytes, Step* out, std::exception_ptr* failure);
  void decide_run();
  size_t pass_over(const Interest& who);
  void note_lag(size_t slot);
  void touch(size_t slot);
  void publish(size_t slot, uint64_t scan);
  void publish_touched(uint64_t position);
  uint64_t hi(size_t slot) const { return arena_.client(slot).server.word(kHiWord); }
  uint64_t head(size_t slot) const { return std::max(hi(slot), clients_[slot].w.floor()); }
  uint64_t scan_of(size_t slot) const;
  bool has_room(size_t slot);
  bool is_reusable(size_t slot, uint64_t end);
  void note_length(size_t slot, uint64_t from);
  bool push(size_t slot, uint64_t number, uint64_t frame, uint32_t rows, uint64_t scan);
  void decide(size_t slot, Verdict v, uint64_t position, const FrameSource::Frame& frame, bool may_publish);
  void refill(size_t slot, uint64_t end);
  std::exception_ptr refill_all();
  uint64_t ring_slots_for(size_t slot, const std::vector<Filter>& filters, uint64_t slots) const;
  Extent find_extent(size_t slot, uint64_t slots) const;
  void require_ring(size_t slot) const;
  void replace_ring(size_t slot, uint64_t slots);
  void clear_ring(uint64_t offset, uint64_t slots);
  uint64_t rows_in_lag(size_t slot, uint64_t from, uint64_t to);
  void cut_client(size_t slot, uint64_t position);
  uint64_t wake_mask();
  Marks marks(size_t slot) const;
  void take_snapshot();

  Arena arena_;
  FrameSource& frames_;
  std::vector<Client> clients_;
  std::vector<size_t> live_;     // slots in use, ascending
  std::vector<size_t> lagging_;  // slots that may have rows in no slot of their ring; refilled at each step
  std::vector<size_t> touched_;  // changed since they were last published and woken
  size_t next_slot_ = 0;
  uint64_t position_ = 0;
  uint64_t first_ = 0;  // oldest frames known to be there
  std::unordered_map<std::string, Audience> audiences_;  // by schema and table
  std::unordered_map<uint64_t, Audience*> tables_;       // the same by TABLE frame: each segment has its own
  std::array<std::pair<uint64_t, Audience*>, 64> recent_{};  // of the last tables
  std::vector<Rows> run_;  // ROWS frames that follow each other and have one audience, still to be decided
  Audience* run_for_ = nullptr;
  uint64_t queued_rows_ = 0;
  std::unique_ptr<Snapshot> snapshot_;
  uint64_t stored_position_ = 0;
};

}  // namespace relay
