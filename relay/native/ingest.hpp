// From the bytes of a binlog stream to frames in the journal. A machine that is fed, and asks when it needs to be told
// something.
#pragma once

#include <unordered_map>

#include "arena.hpp"
#include "events.hpp"
#include "failure.hpp"
#include "held.hpp"
#include "packets.hpp"
#include "prepared.hpp"

namespace relay {

enum class Asks : uint8_t { query = 1, table, unknown, partial, error, end, boundary };

// Why `step` stopped before the end of its bytes. Until it is answered each further step asks the same.
struct Attention {
  Asks asks = Asks::boundary;
  std::string file;
  uint64_t start = 0;  // of the event in the file
  uint64_t position = 0;  // its end
  uint32_t timestamp = 0;
  uint8_t type = 0;       // of the event
  uint64_t table_id = 0;  // table, partial
  std::string body;       // table and query: the event's body, a statement inflated; unknown: its beginning
  std::string schema;     // query, and unknown statements
  std::string statement;
  uint16_t flags = 0;       // query: of the event
  std::string gtid;         // query: of its group
  bool unfinished = false;  // query: begins an ALTER in two phases, or rolls it back
  bool in_transaction = false;
  uint32_t code = 0;    // error: the server's
  std::string message;  // error: the server's; unknown: what is not understood, if not the event as such
};

struct IngestLimits {
  size_t event_bytes = size_t{1} << 30;     // the largest event
  size_t whole_bytes = size_t{1} << 20;     // of a compressed transaction that is inflated at once, not in parts
  size_t prepared_bytes = size_t{1} << 25;  // rows of prepared transactions held in memory; more goes to a file
};

enum class Algorithm { zlib, zstd };

// How compressed events are inflated, which the core does not do itself. False if that fails.
struct Inflate {
  bool (*call)(void* context, Algorithm algorithm, Bytes data, uint64_t size, std::string* out) = nullptr;
  // In parts, of zstd, one event at a time: `next` appends one, and nothing after the last.
  bool (*begin)(void* context, Bytes data, uint64_t size) = nullptr;
  bool (*next)(void* context, std::string* out) = nullptr;
  void* context = nullptr;
};

class Ingest {
 public:
  Ingest(JournalWriter& writer, std::string directory, IngestLimits limits, Inflate inflate);

  void count_into(Counters* counters) { counters_ = counters; }

  // Where to ask the source to go on: after the journal's state, but not beyond the start of a prepared transaction
  // whose rows are not in memory. Without a file if only GTIDs tell where that is.
  struct Resume {
    std::string file;
    uint64_t position = 0;
    GtidSet gtids;
    bool by_gtid_possible = true;  // false: MariaDB's position cannot leave out a prepared transaction
  };
  Resume resume() const;
  // Gives up all prepared transactions, since the source no longer has what they begin with. Returns how many.
  size_t forget_prepared();
  // The stream goes on at another server.
  void moved() { log_.forget_places(); }
  // A new stream begins there; what was left of the last one is dropped. What the journal holds already is skipped.
  void start(std::string_view file, uint64_t position, bool by_gtid);

  PacketBuffer::Room room(size_t least) { return packets_.room(least); }
  void received(size_t n) { packets_.filled(n); }
  // Works through the bytes received. True if it asks for something, false if it needs more bytes. Throws StreamError,
  // and JournalError; after disk_full it may be called again.
  bool step(Attention* out);

  // Answers.
  // To query: only its place is kept, or it is recorded with what it leaves, packed.
  void pass();
  void ddl(std::string statement, std::string dialect, std::string tables);
  void define(uint64_t table_id, Bytes definition, Bytes published,
              std::vector<bool> keep);  // to table; no `keep`: all columns
  void exclude(uint64_t table_id);
  JournalWriter::Handle pending(uint64_t table_id, Bytes provisional, Bytes published, std::vector<bool> keep);
  void accept_partial(uint64_t table_id);  // to partial: this table's images may lack columns
  void skip();                             // to unknown and partial: leaves the event out
  void stop_at_boundary(bool on) { stop_at_boundary_ = on; }
  // Definitions may have changed: that table, or every one, is asked for again.
  void redefined(std::string_view schema, std::string_view table);
  void new_epoch() { ++epoch_; }

  const std::string& file() const { return file_; }
  uint64_t position() const { return at_; }
  uint32_t timestamp() const { return timestamp_; }  // of the last event
  // What tells this history from another one of the same files: when the source made the file, and the last event in it
  // that ended a group, as far as it was kept. Such an event has a number that the server does not give out again, as an
  // XID; those between groups are alike in two histories that began in the same second.
  struct Mark {
    std::string file;
    uint32_t created = 0;
    uint64_t start = 0;
    std::string head;
  };
  static constexpr size_t kMarkBytes = 64;
  const Mark& mark() const { return mark_; }
  const std::string& server() const { return server_; }  // the version of the one that wrote it; empty: not said yet
  uint64_t heartbeats() const { return heartbeats_; }
  uint64_t abandoned() const { return abandoned_; }  // groups that the source began and never ended
  bool in_transaction() const { return group_.open; }
  bool skipping() const { return skipping_; }  // what the journal holds already

 private:
  struct Table {
    std::string body;  // of its TABLE_MAP
    uint64_t epoch = 0;
    uint64_t statement = 0;  // in which it was mapped last
    bool excluded = false;
    bool partial = false;  // incomplete images were accepted
    std::shared_ptr<const Definition> definition;  // of all columns
    std::vector<bool> keep;                        // empty: all
    std::shared_ptr<TableUse> use;
  };

  enum class Mode {
    journal,
    skip,     // in the journal already
    collect,  // to be prepared: into memory
  };

  struct Group {
    bool open = false;
    bool begun = false;      // ends with XID or COMMIT, not with its first statement
    bool journaled = false;  // collected again: the journal's position is beyond it
    bool unfinished = false;  // of an ALTER that changes nothing here
    Mode mode = Mode::journal;
    Gtid gtid;
    uint64_t start = 0;
  };

  enum class Answer { none, record, recorded, skip };
  struct Recorded {
    std::string statement;
    std::string dialect;
    std::string tables;
  };

  bool packet(Bytes payload, Attention* out);
  bool outer_event(Bytes bytes, Attention* out);
  bool inner_events(Attention* out);
  bool event(const Event& event, Attention* out);
  uint64_t end_of(const Event& event, size_t size) const;
  Bytes verified(Bytes bytes);
  void format_description(const Event& event);
  void rotate(const Event& event);
  void leave_mark(Bytes bytes);
  bool payload(const Event& event);
  bool has_inner(size_t bytes);
  void begin_group(const Event& event);
  void open_group(const Gtid& gtid);
  void abandon_group();
  bool already_there(const Gtid& gtid) const;
  void commit_group(const Event& event);
  void end_group(const Event& event);

  // ingest_statements.cpp
  bool query(const Event& event, Attention* out);
  bool statement(const Event& event, const QueryBody& query, std::string_view text, Attention* out);
  void collect_group();
  void xa_prepared(const Event& event);
  bool xa_end(const Event& event, bool commits, const std::string& xid, std::string_view text, Attention* out);
  void append_held(const HeldRows& group);
  void count_held(const HeldRows& group);

  // ingest_rows.cpp
  bool table_map(const Event& event, Attention* out);
  void forget_tables();
  bool rows(const Event& event, Attention* out);
  Table& mapped(uint64_t table_id);
  bool take_rows(const Event& event, const RowsHead& head, Table& table, Attention* out);
  void append_rows(Table& table, const RowsHead& head, uint32_t timestamp, uint32_t rows, Bytes body);
  void count_rows(RowKind kind, uint64_t rows);
  Table& put_table(uint64_t table_id, Bytes definition, std::vector<bool> keep);
  std::string inflated(Algorithm algorithm, Bytes data, uint64_t size);

  bool ask(Asks asks, const Event& event, Attention* out) const;
  bool ask_unknown(const Event& event, std::string message, Attention* out);
  std::string where() const;
  [[noreturn]] void malformed(const std::string& what) const;

  JournalWriter& writer_;
  const IngestLimits limits_;
  const Inflate inflate_;
  Counters own_counters_{};
  Counters* counters_ = &own_counters_;
  PacketBuffer packets_;

  // The event at hand.
  uint64_t start_ = 0;
  uint64_t end_ = 0;
  Answer answer_ = Answer::none;
  Recorded recorded_;
  std::string inner_;        // events out of a TRANSACTION_PAYLOAD,
  size_t inner_at_ = 0;      // how far they are done,
  uint64_t inner_left_ = 0;  // and bytes that are yet to be inflated
  bool in_payload_ = false;

  // The stream.
  std::string file_;
  uint64_t at_ = 0;  // end of the last event
  uint32_t timestamp_ = 0;
  Mark mark_;
  std::string server_;
  enum class Checksum { unknown, none, crc32 } checksum_ = Checksum::unknown;
  bool by_gtid_ = false;
  bool skipping_ = false;  // by place, up to:
  std::string skip_file_;
  uint64_t skip_to_ = 0;
  bool stop_at_boundary_ = false;
  uint64_t heartbeats_ = 0;
  uint64_t abandoned_ = 0;

  Group group_;
  uint64_t epoch_ = 0;
  uint64_t statement_ = 1;
  std::unordered_map<uint64_t, Table> tables_;
  uint64_t last_id_ = 0;
  Table* last_ = nullptr;
  std::string scratch_;

  PreparedLog log_;
  SpillFile spill_;
  std::unique_ptr<HeldRows> collected_;  // of the group at hand, in Mode::collect
  std::map<std::string, std::unique_ptr<HeldRows>> prepared_;
  size_t prepared_bytes_ = 0;  // of their memory
};

}  // namespace relay
