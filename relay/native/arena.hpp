// The shared memory of one family of relay processes: control words, client blocks and their rings of row ranges.
//
// Every word has one writer. Nothing is locked and nothing is compared and swapped, so a process may be killed between
// any two stores without harm to the others. What must change together stands in a Flip: a record with two copies, of
// which one store selects the valid one. ARCHITECTURE.md, "Client queues", tells the protocol and why it holds.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.hpp"
#include "deliveries.hpp"
#include "words.hpp"

namespace relay {

struct ArenaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Row numbers are a client's own: its first queued row has number 0, and a boundary n stands before row n. What clients
// and people see as a row's sequence is its number + 1.

// The broker's half of a client's queue.
struct BrokerRecord {
  uint64_t scan = 0;         // journal position; everything before max(scan, the broker's) is decided for this client
  uint64_t matched = 0;      // rows that matched its filters
  uint64_t queued = 0;       // rows that were queued: the number of the next one
  uint64_t tail = 0;         // slots ever published
  uint64_t ring_offset = 0;  // in the arena, bytes
  uint64_t ring_slots = 0;
  uint64_t ring_epoch = 0;   // counts replacements of the ring
  uint64_t lag = 0;          // journal position from which rows are queued but in no slot; 0: all are in slots
  uint64_t lag_number = 0;   // number of the first row at or after `lag`
  uint64_t floor_limit = 0;  // rows below a floor are dropped: by a drop-oldest limit,
  uint64_t floor_cut = 0;    // by retention,
  uint64_t floor_flush = 0;  // by a person
  uint64_t dropped_newest = 0;
  uint64_t newest_at = 0;  // journal positions of the last drops
  uint64_t oldest_at = 0;
  uint64_t cut_at = 0;
  uint64_t flush_at = 0;
  uint64_t most_waiting = 0;  // the longest queue of which rows were dropped by a floor

  uint64_t floor() const {
    uint64_t f = floor_limit > floor_cut ? floor_limit : floor_cut;
    return f > floor_flush ? f : floor_flush;
  }
};

// The owning server's half.
struct ServerRecord {
  uint64_t lo = 0;      // rows [lo, hi) are in flight
  uint64_t hi = 0;
  uint64_t base = 0;    // number of the first row of the in-flight area
  uint64_t ranges = 0;  // entries of the in-flight area
  uint64_t hint = 0;    // slot index at or before the one that holds row hi
  uint64_t confirmed = 0;
  uint64_t dropped_limit = 0;  // floors passed, by reason
  uint64_t dropped_cut = 0;
  uint64_t dropped_flush = 0;
  uint64_t undecodable = 0;
  uint64_t undecodable_at = 0;  // frame of the last one
  uint64_t served = 0;          // rows handed out, each time
  uint64_t most_waiting = 0;    // the longest queue from which rows were taken
  uint64_t repeats = 0;         // replies with row `lo` that the client took whole, and asked again without confirming it
  uint64_t skipped = 0;         // rows left out because of that
  uint64_t skipped_at = 0;      // frame of the last one
};

// Rows [first, first + rows) of the ROWS frame at journal position `frame`.
struct Range {
  uint64_t frame = 0;
  uint32_t first = 0;
  uint32_t rows = 0;
};

// One range in a ring. The tag is the slot's index + 1, or 0 while the slot is being written.
struct Slot {
  Word tag;
  Word number;
  Word frame;
  Word span;  // first row, and the number of rows above it

  static uint64_t pack(uint32_t first, uint32_t rows) { return uint64_t{rows} << 32 | first; }
  static uint32_t first_of(uint64_t packed) { return static_cast<uint32_t>(packed); }
  static uint32_t rows_of(uint64_t packed) { return static_cast<uint32_t>(packed >> 32); }

  // Where a ring of `slots`, a power of two, has the slot of that index.
  static uint64_t place(uint64_t index, uint64_t slots) { return index & (slots - 1); }
};
static_assert(sizeof(Slot) == 32);

constexpr bool is_power_of_two(uint64_t n) { return n && !(n & (n - 1)); }

constexpr size_t kInFlightRanges = 192;
constexpr size_t kNameBytes = 256;
constexpr size_t kProcesses = 72;  // the others, and up to 64 servers
constexpr size_t kMaxWorkers = 64;
constexpr uint64_t kDefaultSlots = 256;

struct alignas(64) ServerLine {
  Word waiting;  // 1: wake me when rows come
  Word connected;
  Word last_poll;  // monotonic clock, ns
  Word taken;      // the boundary after the last row of the last reply that was sent whole; 0: counted already
};

// Where a client's connection comes from, cut to size and padded with zeros; holds while it is connected.
struct PeerRecord {
  char address[64] = {};
};

constexpr size_t kHiWord = offsetof(ServerRecord, hi) / 8;

struct ClientBlock {
  struct alignas(64) Identity {
    Word id;  // 0: the block is free
    Word name_size;
    Word name[kNameBytes / 8];
  } identity;
  Flip<BrokerRecord> broker;
  Flip<ServerRecord> server;
  struct alignas(64) InFlight {
    Word frame[kInFlightRanges];
    Word span[kInFlightRanges];
  } in_flight;
  ServerLine line;
  Flip<PeerRecord> peer;
  Deliveries deliveries;
};

// Counts of the reader; plain words, since only it adds to them and a count read late does no harm.
struct alignas(64) Counters {
  uint64_t events[256];
  uint64_t rows_insert;
  uint64_t rows_update;
  uint64_t rows_delete;
  uint64_t transactions;
  uint64_t bytes;
  uint64_t skipped;  // events and tables that were not understood, as the configuration allows
};

// Texts are cut to size and padded with zeros.

// Why a process stopped.
struct StopRecord {
  uint64_t at = 0;  // monotonic clock, ns
  char code[32] = {};
  char text[512] = {};
  char hint[256] = {};
};

struct SourceStatus {
  char state[32] = {};  // of the reader's connection
  char host[256] = {};
  char file[256] = {};
  char gtid_set[4096] = {};
  uint64_t position = 0;
  uint64_t last_event = 0;  // on the source's clock, Unix seconds
  uint64_t heard = 0;       // when it last sent something, Unix nanoseconds
};

struct alignas(64) ReaderWords {
  Word committed;  // journal positions
  Word flushed;
  Word first;
  Word sequence;     // next row's, journal-wide
  Word cut_request;  // frames before it are about to be deleted, whoever needs them
};

struct alignas(64) BrokerWords {
  Word scan;        // everything before it is decided for every client
  Word needed;      // the lowest journal position that a client needs, also after a cold start
  Word waiting;     // 1: wake me when there is something to do
  Word cut_done;
  Word generation;  // of the journal that the queues belong to
};

struct alignas(64) ExporterWords {
  Word exported;  // the journal position up to which the lake has everything; Arena::kNobody: nobody exports
};

struct alignas(64) LoggerWords {
  Word logged;  // the journal position up to which the log has everything; Arena::kNobody: there is none
};

struct alignas(64) SupervisorWords {
  Word paused;
  Word draining;
  Word stops_cleared;  // stops at or before this time are mended; monotonic clock, ns
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
  SupervisorWords supervisor;
  ProcessWords processes[kProcesses];
  Flip<StopRecord> stops[kProcesses];
  Flip<SourceStatus> source;
  Counters counters;
};

struct alignas(64) ArenaHeader {
  uint64_t magic;
  uint64_t layout;
  uint64_t size;
  uint64_t max_clients;
  uint64_t workers;
  uint64_t default_slots;
  uint64_t clients_offset;
  uint64_t rings_offset;
  uint64_t pool_offset;
  uint64_t pool_size;
};

// A client's two records as they were at one instant, and what follows from them.
struct ClientView {
  BrokerRecord broker;
  ServerRecord server;

  uint64_t head() const {  // number of the next row to hand out
    uint64_t floor = broker.floor();
    return server.hi > floor ? server.hi : floor;
  }
  uint64_t waiting() const { return broker.queued - head(); }
  uint64_t in_flight() const { return server.hi - server.lo; }
  // The longest queue so far: it gets shorter only where one of the two notes how long it was.
  uint64_t most_waiting() const {
    uint64_t most = broker.most_waiting > server.most_waiting ? broker.most_waiting : server.most_waiting;
    return most > waiting() ? most : waiting();
  }
};

// How many of the rows [hi, head) each floor dropped: retention first, then a flush, then a limit.
struct FloorDrops {
  uint64_t cut = 0;
  uint64_t flush = 0;
  uint64_t limit = 0;
  static FloorDrops between(uint64_t hi, const BrokerRecord& b);
};

// A view of a formatted block of memory; any number of them may exist, in any process.
class Arena {
 public:
  static constexpr uint64_t kMagic = 0x31414e4552414c52;  // "RLARENA1"
  static constexpr uint64_t kLayout = 7;
  static constexpr size_t kPage = 4096;
  static constexpr uint64_t kNobody = ~uint64_t{0};

  static size_t size_for(uint64_t max_clients, uint64_t pool_bytes, uint64_t default_slots = kDefaultSlots);
  // Formats zeroed memory of size_for() bytes, aligned to 64.
  static void format(void* memory, uint64_t max_clients, uint64_t pool_bytes, uint64_t workers,
                     uint64_t default_slots = kDefaultSlots);
  // Throws ArenaError unless the memory was formatted by this version.
  Arena(void* memory, size_t size);

  const ArenaHeader& header() const { return *reinterpret_cast<const ArenaHeader*>(base_); }
  Control& control() const { return *reinterpret_cast<Control*>(base_ + control_offset()); }
  ClientBlock& client(size_t slot) const { return clients_[slot]; }
  size_t max_clients() const { return header().max_clients; }
  Slot* ring(uint64_t offset) const { return reinterpret_cast<Slot*>(base_ + offset); }
  uint64_t default_ring(size_t slot) const {
    return header().rings_offset + slot * header().default_slots * sizeof(Slot);
  }

  std::string name(size_t slot) const;
  ClientView view(size_t slot) const;

  static constexpr size_t control_offset() { return sizeof(ArenaHeader); }

 private:
  uint8_t* base_;
  ClientBlock* clients_;
};

// A slot as a reader copied it; false if its tag was not, or did not stay, that of `index`.
struct SlotCopy {
  uint64_t number = 0;
  uint64_t frame = 0;
  uint64_t span = 0;
  uint64_t end() const { return number + Slot::rows_of(span); }
  bool load(const Slot* ring, uint64_t slots, uint64_t index);
};

// Index of the first published slot that ends above row `number`, starting the search at `hint`; `tail` if there is
// none.
uint64_t find_slot(const Slot* ring, const BrokerRecord& b, uint64_t hint, uint64_t number);

}  // namespace relay
