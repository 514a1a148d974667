// The shared memory of the relay's processes: control words, client blocks, and their rings of row ranges.
//
// Every word has one writer at a time. There are no locks and no compare-and-swap, so a process may be killed between
// any two stores without harm to the others. Values that must change together are in a DoubleBuffered: a record with
// two copies, of which one store selects the valid one. docs/internals/queue.md describes the protocol and why it is
// correct.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/words.hpp"
#include "queue/deliveries.hpp"

namespace relay {

struct ArenaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A number of a client's rows, in two classes. Kept rows match a filter without a limit and are never dropped by a
// limit. Limited rows match only filters with a limit; they count towards limits, and limits may drop them.
struct Counts {
  uint64_t kept = 0;
  uint64_t limited = 0;

  uint64_t total() const { return kept + limited; }
  uint64_t& of(bool is_limited) { return is_limited ? limited : kept; }
  uint64_t of(bool is_limited) const { return is_limited ? limited : kept; }
  bool covers(const Counts& o) const { return kept >= o.kept && limited >= o.limited; }
  bool operator!=(const Counts& o) const { return kept != o.kept || limited != o.limited; }
};

inline Counts highest(const Counts& a, const Counts& b) {
  return {a.kept > b.kept ? a.kept : b.kept, a.limited > b.limited ? a.limited : b.limited};
}

// The rows of a client are counted per class in the order in which they were queued, which is also the order in which
// they are handed out or dropped. So two counts define a client's position, and their sum numbers its rows: the number
// of the next row to hand out is the number of rows handed out or dropped before. The sequence of a row that clients
// and people see is its number + 1.

// The half of a client's queue that the broker writes.
struct BrokerRecord {
  uint64_t scan = 0;  // journal position; everything before max(scan, the broker's) is decided for this client
  Counts queued;
  uint64_t tail = 0;            // slots ever published
  uint64_t lag = 0;             // journal position from which rows are queued but not in a slot; 0: all are in slots
  Counts lag_rows;              // rows before `lag`; limited rows: before the later of `lag` and
  uint64_t lag_limited_at = 0;  // this position: all limited rows between the two are dropped
  uint64_t floor_limit = 0;     // rows below a floor are dropped: limited rows by a drop-oldest limit,
  Counts floor_cut;             // all by retention,
  Counts floor_flush;           // all by a flush
  uint64_t dropped_newest = 0;  // rows that matched, but were not queued
  uint64_t newest_at = 0;       // journal positions of the last drops
  uint64_t oldest_at = 0;
  uint64_t cut_at = 0;
  uint64_t flush_at = 0;
  uint64_t most_waiting = 0;     // the longest queue from which a floor dropped rows
  uint64_t accepted_offset = 0;  // in the arena, bytes: the list of accepted rows after `lag`
  uint64_t accepted_room = 0;    // entries, a power of two; 0: no list
  uint64_t accepted_head = 0;    // entries ever removed,
  uint64_t accepted_tail = 0;    // and ever added

  uint64_t matched() const { return queued.total() + dropped_newest; }
  Counts floor() const {
    const Counts all = highest(floor_cut, floor_flush);
    return {all.kept, all.limited > floor_limit ? all.limited : floor_limit};
  }
};

// The half of a client's queue that the owning server writes.
struct ServerRecord {
  uint64_t lo = 0;  // rows [lo, hi) are in flight
  uint64_t hi = 0;
  uint64_t limited = 0;  // of the rows below hi
  uint64_t base = 0;     // number of the first row of the in-flight area
  uint64_t ranges = 0;   // entries in the in-flight area
  uint64_t hint = 0;     // index of the slot that holds the next row, or of one before it
  uint64_t confirmed = 0;
  uint64_t dropped_limit = 0;  // rows that floors dropped, by reason
  uint64_t dropped_cut = 0;
  uint64_t dropped_flush = 0;
  uint64_t undecodable = 0;
  uint64_t undecodable_at = 0;  // frame of the last one
  uint64_t served = 0;          // rows handed out, including repeats
  uint64_t most_waiting = 0;    // the longest queue from which rows were taken
  uint64_t repeats = 0;         // replies with row `lo`, sent whole, after which the client asked again unconfirmed
  uint64_t skipped = 0;         // rows skipped because of repeats
  uint64_t skipped_at = 0;      // frame of the last one

  Counts taken() const { return {hi - limited, limited}; }
};

// Rows [first, first + rows) of the run (journal/runs.hpp) that begins with the ROWS frame at journal position `frame`.
struct Range {
  uint64_t frame = 0;
  uint32_t first = 0;
  uint32_t rows = 0;
};

// Rows [first, first + rows) as one word.
struct RowSpan {
  static uint64_t pack(uint32_t first, uint32_t rows) { return uint64_t{rows} << 32 | first; }
  static uint32_t first_of(uint64_t packed) { return static_cast<uint32_t>(packed); }
  static uint32_t rows_of(uint64_t packed) { return static_cast<uint32_t>(packed >> 32); }
};

// The first rows of a frame, or all rows of a run, as they were queued.
struct Queued {
  uint64_t frame = 0;
  uint64_t before = 0;  // rows of the same class that were queued before
  uint32_t rows = 0;
  bool is_limited = false;
  bool is_newest = false;  // a filter that drops the newest matches them

  uint64_t end() const { return before + rows; }
  Counts reach() const { return is_limited ? Counts{0, end()} : Counts{end(), 0}; }
};

// A Queued in a ring. The tag is the slot's index + 1, or 0 while the slot is being written.
struct Slot {
  Word tag;
  Word before;
  Word frame;
  Word what;  // rows, and above them their flags

  static constexpr uint64_t kLimited = uint64_t{1} << 32;
  static constexpr uint64_t kNewest = uint64_t{1} << 33;

  // The position of the slot of an index in a ring of `slots`, a power of two.
  static uint64_t place(uint64_t index, uint64_t slots) { return index & (slots - 1); }
  void put(const Queued& q, int site = __builtin_LINE()) {
    before.put(q.before, site);
    frame.put(q.frame, site);
    what.put(q.rows | (q.is_limited ? kLimited : 0) | (q.is_newest ? kNewest : 0), site);
  }
};
static_assert(sizeof(Slot) == 32);

// An entry of the list of accepted rows: those that a filter which drops the newest matches. Only brokers use it.
struct Accepted {
  Word frame;
  Word before;  // limited rows that were queued before
  Word rows;
};

constexpr bool is_power_of_two(uint64_t n) { return n && !(n & (n - 1)); }

constexpr size_t kInFlightRanges = 192;
constexpr size_t kNameBytes = 256;
constexpr size_t kProcesses = 72;  // all other processes, and up to 64 servers
constexpr size_t kPrefetched = 8;  // blocks of clients that a loop over all of them fetches ahead
constexpr size_t kMaxWorkers = 64;
constexpr uint64_t kRingSlots = 256;

struct alignas(64) ServerLine {
  Word waiting;  // 1: wake me when rows come
  Word connected;
  Word last_poll;  // monotonic clock, ns
  Word taken;      // number after the last row of the last reply that was sent whole; 0: already counted
};

// The address of a client's connection, truncated and padded with zeros. Valid while the client is connected.
struct AddressRecord {
  char text[64] = {};
};

constexpr size_t kHiWord = offsetof(ServerRecord, hi) / 8;
constexpr size_t kLimitedWord = kHiWord + 1;
static_assert(offsetof(ServerRecord, limited) / 8 == kLimitedWord);

struct ClientBlock {
  struct alignas(64) Name {
    Word size;
    Word text[kNameBytes / 8];
  } name;
  DoubleBuffered<BrokerRecord> broker;
  DoubleBuffered<ServerRecord> server;
  struct alignas(64) InFlight {
    Word frame[kInFlightRanges];
    Word span[kInFlightRanges];
  } in_flight;
  ServerLine line;
  DoubleBuffered<AddressRecord> address;
  Deliveries deliveries;
};

// Counts of the reader. Plain words are enough, since only the reader adds to them and a slightly old count does no
// harm.
struct alignas(64) Counters {
  uint64_t events[256];
  uint64_t rows_insert;
  uint64_t rows_update;
  uint64_t rows_delete;
  uint64_t transactions;
  uint64_t bytes;
  uint64_t skipped;  // events and tables that were not understood and that the configuration allows to skip
};

// Texts are truncated and padded with zeros.

// The fatal error that stopped a process.
struct StopRecord {
  uint64_t at = 0;  // monotonic clock, ns
  char code[32] = {};
  char text[512] = {};
  char hint[256] = {};
};

struct SourceStatus {
  char state[32] = {};  // state of the reader's connection
  char host[256] = {};
  char file[256] = {};
  char gtid_set[4096] = {};
  uint64_t position = 0;
  uint64_t last_event = 0;  // on the clock of the source, Unix seconds
  uint64_t heard = 0;       // when the source last sent something, Unix nanoseconds
};

struct alignas(64) ReaderWords {
  Word committed;  // journal positions
  Word flushed;
  Word first;
  Word sequence;     // next row's, journal-wide
  Word cut_request;  // frames before this position are about to be deleted, even if somebody needs them
};

struct alignas(64) BrokerWords {
  Word scan;     // everything before this position is decided for every client
  Word needed;   // the lowest journal position that a client needs, also after a cold start
  Word waiting;  // 1: wake me when there is something to do
  Word cut_done;
  Word generation;  // of the journal that the queues belong to
  Word slots;       // so many blocks, the first ones, have had a client: loops end there, as each block is a page
};

struct alignas(64) ExporterWords {
  Word exported;  // journal position up to which the lake has everything; Arena::kNobody: no exporter
};

struct alignas(64) LoggerWords {
  Word logged;  // journal position up to which the log has everything; Arena::kNobody: no logger
};

struct alignas(64) StateWords {
  Word changes;  // of state.db that the stat document shows: of clients, filters and gaps
};

struct alignas(64) SupervisorWords {
  Word paused;
  Word draining;
  Word stops_cleared;  // fatal errors at or before this time are repaired; monotonic clock, ns
  Word restarts[kProcesses];
};

struct alignas(64) ProcessWords {
  Word beat;  // monotonic clock, ns
  Word pid;   // 0: down
  Word running;
};

struct Control {
  ReaderWords reader;
  BrokerWords broker;
  ExporterWords exporter;
  LoggerWords logger;
  StateWords state;
  SupervisorWords supervisor;
  ProcessWords processes[kProcesses];
  DoubleBuffered<StopRecord> stops[kProcesses];
  DoubleBuffered<SourceStatus> source;
  Counters counters;
};

struct alignas(64) ArenaHeader {
  uint64_t magic;
  uint64_t layout;
  uint64_t size;
  uint64_t max_clients;
  uint64_t workers;
  uint64_t ring_slots;
  uint64_t clients_offset;
  uint64_t ids_offset;
  uint64_t leases_offset;
  uint64_t rings_offset;
  uint64_t pool_offset;
  uint64_t pool_size;
};

// A snapshot of a client's two records, and what follows from them.
struct ClientView {
  BrokerRecord broker;
  ServerRecord server;
  uint64_t broker_version = 0;  // of the records
  uint64_t server_version = 0;

  Counts done() const { return highest(server.taken(), broker.floor()); }  // handed out or dropped
  uint64_t head() const { return done().total(); }                         // number of the next row to hand out
  uint64_t waiting() const { return broker.queued.total() - head(); }
  uint64_t waiting_limited() const { return broker.queued.limited - done().limited; }  // limited rows among these
  uint64_t in_flight() const { return server.hi - server.lo; }
  // The longest queue so far. A queue gets shorter only where one of the two processes records how long it was.
  uint64_t most_waiting() const {
    uint64_t most = broker.most_waiting > server.most_waiting ? broker.most_waiting : server.most_waiting;
    return most > waiting() ? most : waiting();
  }
};

// How many rows that were not handed out each floor dropped: retention first, then a flush, then a limit.
struct FloorDrops {
  uint64_t cut = 0;
  uint64_t flush = 0;
  uint64_t limit = 0;
  static FloorDrops between(const Counts& taken, const BrokerRecord& b);
};

// A view of a formatted block of memory. Any number of views may exist, in any process.
class Arena {
 public:
  static constexpr uint64_t kMagic = 0x31414e4552414c52;  // "RLARENA1"
  static constexpr uint64_t kLayout = 13;
  static constexpr uint64_t kNobody = ~uint64_t{0};

  static size_t size_for(uint64_t max_clients, uint64_t pool_bytes, uint64_t workers, uint64_t ring_slots = kRingSlots);
  // Formats zeroed memory of size_for() bytes, aligned to 64.
  static void format(void* memory, uint64_t max_clients, uint64_t pool_bytes, uint64_t workers,
                     uint64_t ring_slots = kRingSlots);
  // Throws ArenaError unless the memory was formatted by this version.
  Arena(void* memory, size_t size);

  const ArenaHeader& header() const { return *reinterpret_cast<const ArenaHeader*>(base_); }
  Control& control() const { return *reinterpret_cast<Control*>(base_ + control_offset()); }
  ClientBlock& client(size_t slot) const { return clients_[slot]; }
  size_t max_clients() const { return header().max_clients; }
  // The blocks from this one on have had no client yet. An older value only hides a client that has just come.
  size_t slots() const { return control().broker.slots.relaxed(); }
  uint64_t workers() const { return header().workers; }
  // The id of the block's client; 0: free, once no server holds it. Apart from the blocks: a loop over all ids then
  // fetches few cache lines.
  Word& id(size_t slot) const { return ids_[slot]; }
  // The client id for which the server uses the block; 0: it does not use it. Written by that server.
  Word& lease(uint64_t worker, size_t slot) const { return leases_[worker * words_row(max_clients()) + slot]; }
  // Clears all holds. No process that used this memory may be alive.
  void release_holds() const;
  // Whether the broker must be woken for earlier stores: it sleeps, or is about to sleep and may not have seen them.
  bool broker_sleeps() const;
  uint64_t ring_slots() const { return header().ring_slots; }
  Slot* ring(size_t slot) const { return reinterpret_cast<Slot*>(base_ + header().rings_offset) + slot * ring_slots(); }
  Accepted* accepted(const BrokerRecord& b) const { return reinterpret_cast<Accepted*>(base_ + b.accepted_offset); }

  std::string name(size_t slot) const;
  ClientView view(size_t slot) const;

  static constexpr size_t control_offset() { return sizeof(ArenaHeader); }

 private:
  // A word per client, in whole cache lines.
  static size_t words_row(uint64_t max_clients) { return (max_clients + 7) / 8 * 8; }

  uint8_t* base_;
  ClientBlock* clients_;
  Word* ids_;
  Word* leases_;
};

// Copies a slot. False if its tag is not that of `index`, before or after the copy.
bool load_slot(const Slot* ring, uint64_t slots, uint64_t index, Queued* out);

// The index of the first published slot with rows beyond `done`, or the tail if there is none. The search starts at
// `hint`; no slot before `hint` has such rows.
uint64_t find_slot(const Slot* ring, uint64_t slots, const BrokerRecord& b, uint64_t hint, const Counts& done);

}  // namespace relay
