// The broker decides which rows go to which client: it reads committed frames and writes row ranges to the clients'
// queues.
#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "journal/runs.hpp"
#include "queue/arena.hpp"

namespace relay {

// What the broker needs from a journal.
class FrameSource {
 public:
  struct Frame {
    uint64_t next = 0;   // position of the next frame
    uint32_t rows = 0;   // 0 unless it is a ROWS frame
    uint32_t kind = 0;   // RowKind: 1 insert, 2 update, 4 delete
    uint64_t table = 0;  // position of its TABLE frame
  };
  struct Names {
    std::string schema;
    std::string table;
    bool proven = true;  // the definition's column names are proven
  };

  virtual ~FrameSource() = default;
  // The frame at a position below the committed watermark. Throws if it is gone or damaged.
  virtual Frame frame(uint64_t position) = 0;
  virtual Names names(uint64_t table) = 0;
  // Whether servers find the frames of a run: they read the same journal.
  virtual bool has_runs() const { return false; }
};

constexpr uint32_t kDropOldest = 1;  // the discard type; all others drop the newest

// A request for rows of tables. In force for frames with from <= position < to.
struct Filter {
  static constexpr uint64_t kOpen = UINT64_MAX;

  std::string schema;  // "*" matches every name
  std::string table;
  uint32_t kinds = 7;  // bits of RowKind
  uint32_t discard = 0;
  uint64_t limit = 0;  // of the client's waiting limited rows; 0: no limit
  uint64_t from = 0;
  uint64_t to = kOpen;
};

// What a cold start needs to know of a client besides its name and filters. Valid once the journal is flushed up to
// broker.scan. Waiting rows begin with the frame at broker.lag; those that a
// filter which drops the newest matches are in `accepted`.
struct Checkpoint {
  BrokerRecord broker;
  ServerRecord server;
  std::vector<Range> in_flight;
  std::vector<Queued> accepted;

  std::string pack() const;
  static Checkpoint unpack(Bytes packed);  // throws ArenaError
  // The lowest frame that is in flight or waiting; UINT64_MAX if there is none.
  uint64_t lowest_frame() const;

  static constexpr uint64_t kFormat = 5;
  // Up to format 4, a row of drop-oldest and drop-newest filters was always queued, and is not in `accepted`. Up to
  // format 3, all rows were counted as one class, and `waiting` rows waited before the frame at broker.lag.
  uint64_t format = kFormat;
  std::vector<Range> waiting;
};

// Versions of everything that a client's queue and checkpoint depend on. Equal marks mean that neither has changed.
struct Marks {
  uint64_t broker = 0;  // versions of its records
  uint64_t server = 0;
  uint64_t filters = 0;
  bool operator==(const Marks& o) const { return broker == o.broker && server == o.server && filters == o.filters; }
};

uint64_t power_of_two_above(uint64_t n);

// The broker's side of all queues: one per arena, in the one broker process. The successor of a killed broker is
// created on the same arena, gets the same filters again, and continues without repair.
class Broker {
 public:
  struct Step {
    uint64_t frames = 0;
    uint64_t rows = 0;      // queued rows, counted once per client
    uint64_t wake = 0;      // bit w: a client of server w waits and now has rows
    uint64_t position = 0;  // everything before this position is decided
  };
  struct Extent {  // a part of the arena; length 0: none
    uint64_t offset = 0;
    uint64_t length = 0;
  };

  // Removes clients of an arena that belongs to another generation of the journal.
  Broker(const Arena& arena, FrameSource& frames, uint64_t generation);

  uint64_t position() const { return position_; }  // everything before it is decided; 0 before the first step

  // Gives a free block to the client; its queue is empty and begins at position(). No server sees the client before
  // admit(), so a death in between leaves a free block. Throws ArenaError if all blocks are taken.
  size_t add_client(uint64_t id, std::string_view name);
  void admit(size_t slot);
  // Removes the client at once. Its block becomes free when no server holds it any more.
  void remove_client(size_t slot);

  // The part of the arena that set_filters would use for a longer list of accepted ranges, of at least `entries`, so
  // that the caller can allocate it first. Throws ArenaError if the pool has no room.
  Extent plan_list(size_t slot, const std::vector<Filter>& filters, uint64_t entries = 0) const;
  // Replaces all filters of a client. A filter that ended stays in the list while its `to` is above needed(slot). A new
  // filter has a `from` at or above position().
  void set_filters(size_t slot, std::vector<Filter> filters);

  // Decides committed frames for about `max_bytes` of the journal, and refills rings that were full. Throws StreamError
  // (schema_unproven) at the first row with an unproven definition that somebody asked for, if `refuse_unproven`, and
  // whatever the frame source throws. Decisions before the failure stand: their clients are published, and their
  // servers are woken by the step before the one that throws.
  Step step(uint64_t max_bytes);
  // Whether step() has work to do. If control().broker.waiting was set before, it is safe to sleep after a false.
  bool pending();

  // Drops all waiting rows; returns their number.
  uint64_t flush(size_t slot);
  // Drops all waiting rows and queues again what the client's filters match from `position` on. Row numbers keep
  // rising. The order that survives a kill: flush, store the filters with their new `from`, set_filters, seek. If a
  // frame cannot be read, it throws and the queue is empty.
  void seek(size_t slot, uint64_t position);
  // Drops rows that need frames below `position`, or below position() if that is less. Call it before those are
  // deleted. No run crosses the position: it is that of a segment.
  void cut(uint64_t position);
  // The lowest journal position that the client's waiting or in-flight rows need.
  uint64_t needed(size_t slot);
  // The lowest journal position that any client or the broker itself needs.
  uint64_t needed();

  // The state of clients for a cold start. A client that is missing in `clients` has not changed since the last snapshot
  // that had it. Everything before `position` is decided for every client.
  struct Snapshot {
    struct Client {
      size_t slot;
      uint64_t id;
      Marks marks;
      uint64_t scan;
      uint64_t lowest_frame;
      std::string packed;
    };
    uint64_t position = 0;
    uint64_t reach = 0;  // the snapshot covers the journal up to this position
    std::vector<Client> clients;
  };

  Checkpoint checkpoint(size_t slot);
  // The newest snapshot, of this or an earlier call, that covers no more than `flushed`; nullptr if there is none yet,
  // or if all of it is stored. Until stored() it stays the same, or becomes a newer one that includes it.
  const Snapshot* snapshot(uint64_t flushed);
  // The snapshot that snapshot() returned last is stored: it can be restored from now on.
  void stored();
  // Frames below this position are never matched again for the client, not even after a cold start.
  uint64_t decided(size_t slot) const;
  // The lowest position that any client needs, also after a cold start; 0 while a client has no checkpoint.
  uint64_t stored_needed() const;
  // Why a stored checkpoint cannot be of a client of this journal; empty if it can. `position`: of the last snapshot.
  std::string flaw(Bytes packed, uint64_t position) const;
  // Makes a checkpoint what it would be at `position`, that of the last snapshot, from this release. After set_filters.
  void bring_up_to_date(size_t slot, uint64_t position, Checkpoint* from);
  // As plan_list, for restore.
  Extent plan_restore(size_t slot, const Checkpoint& from) const;
  // Gives a new client the queue of a checkpoint that is up to date.
  void restore(size_t slot, const Checkpoint& from);

  bool refuse_unproven = false;

 private:
  struct Client {
    uint64_t id = 0;        // 0: none
    BrokerRecord w;         // working copy; published by a flip
    Counts floor;           // floor of the published record
    Counts reusable;        // slots with rows below these counts may be overwritten; rises
    uint64_t writable = 0;  // ring slots before this one may be overwritten
    Counts blocked;         // reach of the rows in the next slot: there is no room until they are reusable
    bool touched = false;
    std::vector<Filter> filters;
    uint64_t filters_set = 0;  // number of set_filters calls
    bool is_stored = false;    // there is a checkpoint, with:
    Marks stored;
    uint64_t stored_scan = 0;
    uint64_t stored_lowest = 0;
  };
  enum class Rule { none, keep, oldest, newest };
  struct Verdict {
    Rule rule = Rule::none;
    uint64_t limit = 0;
    bool is_mixed = false;  // some of its filters drop the oldest, others the newest
  };
  struct Interest {
    size_t slot = 0;
    std::vector<size_t> filters;  // filters that name the table, in force at any time
    // Valid where the audience says:
    std::array<Verdict, 3> verdicts;  // by kind
    uint32_t wanted = 0;              // kinds of rows that a filter matches
    uint32_t kept = 0;                // kinds of rows that are all queued
  };
  // The clients that asked for a table, by ascending slot.
  struct Audience {
    uint64_t from = 0;  // verdicts are valid for frames in [from, to)
    uint64_t to = 0;
    std::vector<Interest> interests;
  };
  static constexpr size_t kBatch = 1024;  // frames; several times a usual limit, and still fits the processor's cache

  struct Rows {
    uint64_t position;
    FrameSource::Frame frame;
  };
  struct Run {
    uint64_t batch = 0;  // number of its batch
    uint32_t kinds = 0;  // of its rows
    uint64_t rows = 0;
    size_t end = 0;  // of its frames
  };
  // What a batch has of some kinds of rows.
  struct Rest {
    uint64_t batch = 0;                                          // its number
    size_t last = 0;                                             // its last frame with such rows
    std::vector<uint64_t> rows = std::vector<uint64_t>(kBatch);  // in each frame and those after it
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
  uint64_t walk(uint64_t committed, uint64_t max_bytes, Step* out, std::exception_ptr* failure);
  void decide_batch();
  size_t pass_over(const Interest& who);
  void touch(size_t slot);
  void publish(size_t slot, uint64_t scan);
  void publish_touched(uint64_t position);
  Counts taken(size_t slot) const;
  Counts done(size_t slot) const { return highest(taken(slot), clients_[slot].w.floor()); }
  uint64_t scan_of(size_t slot) const;
  bool has_room(size_t slot);
  bool is_reusable(size_t slot, const Counts& reach);
  void note_length(size_t slot, const Counts& from);
  bool push(size_t slot, const Queued& queued, uint64_t scan);
  bool continues_run(const Rows& run, uint64_t rows, uint64_t position, const FrameSource::Frame& frame) const;
  void keep(size_t slot, uint64_t position, uint64_t rows, uint64_t scan);
  void find_run(size_t first, uint32_t kinds);
  size_t keep_run(size_t slot, size_t first, uint32_t kinds);
  void decide(size_t slot, Verdict v, uint64_t position, const FrameSource::Frame& frame, bool may_publish);
  void begin_lag(size_t slot, uint64_t position);
  void end_lag(size_t slot);
  Queued accepted(size_t slot, uint64_t index) const;
  void accept(size_t slot, const Queued& queued);
  Queued behind_lag(size_t slot, const FrameSource::Frame& frame);
  uint64_t extend_run(size_t slot, const FrameSource::Frame& first, uint64_t end, Queued* queued);
  const Rest& rest_of_batch(uint32_t kinds);
  size_t turn_away(const Interest& who, size_t first, uint64_t limit, uint32_t kinds);
  void let_in(size_t slot, uint64_t limit, uint64_t position, const FrameSource::Frame& frame, uint64_t scan);
  void queue_limited(size_t slot, Verdict v, uint64_t position, const FrameSource::Frame& frame, uint64_t scan);
  void refill(size_t slot, uint64_t end);
  std::exception_ptr refill_all();
  uint64_t room_for(size_t slot, const std::vector<Filter>& filters, uint64_t entries) const;
  void retire(size_t slot);
  bool is_leased(size_t slot) const;
  bool is_free(size_t slot) const;
  Extent find_extent(size_t slot, uint64_t entries) const;
  void require_list(size_t slot) const;
  void replace_list(size_t slot, uint64_t entries);
  Counts rows_in_lag(size_t slot, uint64_t from, uint64_t to);
  void cut_lag(size_t slot, uint64_t position);
  void cut_client(size_t slot, uint64_t position);
  uint64_t wake_mask();
  Marks marks(size_t slot) const;
  void take_snapshot();
  void list_mixed(size_t slot, Checkpoint* from);
  void class_rows(size_t slot, Checkpoint* from);
  void find_lag(size_t slot, Checkpoint* out) const;
  uint64_t rows_of_run(uint64_t position, uint64_t most, uint64_t committed) const;
  std::string frame_flaw(uint64_t position, uint64_t rows, uint64_t committed) const;

  Arena arena_;
  FrameSource& frames_;
  std::vector<Client> clients_;
  std::vector<size_t> live_;     // slots in use, ascending
  std::vector<size_t> lagging_;  // slots that may have rows outside their ring; refilled at each step
  std::vector<size_t> touched_;  // changed since the last publish and wake
  uint64_t position_ = 0;
  uint64_t first_ = 0;                                       // the oldest frames known to exist
  std::unordered_map<std::string, Audience> audiences_;      // by schema and table
  std::unordered_map<uint64_t, Audience*> tables_;           // the same by TABLE frame, which each segment repeats
  std::array<std::pair<uint64_t, Audience*>, 64> recent_{};  // the last tables
  std::vector<Rows> batch_;  // consecutive ROWS frames with one audience, still to be decided
  uint64_t batches_ = 0;     // number of this batch
  // Runs of the last client, by their first frame in the batch.
  std::vector<Run> runs_ = std::vector<Run>(kBatch);
  std::array<Rest, 8> rests_;  // by kinds
  Audience* batch_for_ = nullptr;
  uint64_t queued_rows_ = 0;
  std::unique_ptr<Snapshot> snapshot_;
  uint64_t stored_position_ = 0;
};

}  // namespace relay
