// Turns the bytes of a binlog stream into journal frames. A state machine that is fed bytes and stops when it needs a
// definition or a decision.
#pragma once

#include <unordered_map>

#include "base/failure.hpp"
#include "binlog/events.hpp"
#include "binlog/packets.hpp"
#include "binlog/prepared.hpp"
#include "binlog/prepared_rows.hpp"
#include "queue/arena.hpp"

namespace relay {

enum class Asks : uint8_t { query = 1, table, unknown, partial, error, end, boundary };

// Why `step` stopped before the end of its bytes. Until the caller replies, each further step returns the same.
struct Attention {
  Asks asks = Asks::boundary;
  std::string file;
  uint64_t start = 0;     // start of the event in the file
  uint64_t position = 0;  // its end
  uint32_t timestamp = 0;
  uint8_t type = 0;       // of the event
  uint64_t table_id = 0;  // table, partial
  std::string body;       // table and query: the event's body, a statement inflated; unknown: its beginning
  std::string schema;     // query, and unknown statements
  std::string statement;
  uint16_t flags = 0;       // query: flags of the event
  std::string gtid;         // query: GTID of its group
  bool unfinished = false;  // query: begins a two-phase ALTER, or rolls it back
  bool in_transaction = false;
  uint32_t code = 0;    // error: from the server
  std::string message;  // error: from the server; unknown: what was not understood, if not the event itself
};

struct IngestLimits {
  size_t event_bytes = size_t{1} << 30;     // size of the largest event
  size_t whole_bytes = size_t{1} << 20;     // larger compressed transactions are inflated in parts
  size_t prepared_bytes = size_t{1} << 25;  // rows of prepared transactions that stay in memory; more go to a file
};

enum class Algorithm { zlib, zstd };

// Inflates compressed events, which the native code does not do itself. False on failure.
struct Inflate {
  bool (*call)(void* context, Algorithm algorithm, Bytes data, uint64_t size, std::string* out) = nullptr;
  // Inflates zstd in parts, one event at a time: `next` appends an event, or nothing after the last.
  bool (*begin)(void* context, Bytes data, uint64_t size) = nullptr;
  bool (*next)(void* context, std::string* out) = nullptr;
  void* context = nullptr;
};

class Ingest {
 public:
  Ingest(JournalWriter& writer, std::string directory, IngestLimits limits, Inflate inflate);

  void count_into(Counters* counters) { counters_ = counters; }

  // Where to resume the source: after the journal's state, but not after the start of a prepared transaction whose rows
  // are not in memory. `file` is empty if only GTIDs say where that is.
  struct Resume {
    std::string file;
    uint64_t position = 0;
    GtidSet gtids;
    bool by_gtid_possible = true;  // false: a position of MariaDB cannot leave out a prepared transaction
  };
  Resume resume() const;
  // Gives up all prepared transactions, because the source no longer has their beginning. Returns their number.
  size_t forget_prepared();
  // The stream continues at another server.
  void moved() { log_.forget_positions(); }
  // Begins a new stream at the position and drops the rest of the last one. What the journal already holds is skipped.
  void start(std::string_view file, uint64_t position, bool by_gtid);

  PacketBuffer::Room room(size_t least) { return packets_.room(least); }
  void received(size_t n) { packets_.filled(n); }
  // Processes the received bytes. True if it needs a reply, false if it needs more bytes. Throws StreamError and
  // JournalError; after disk_full it may be called again.
  bool step(Attention* out);

  // Replies.
  // To query: skip() keeps only its position; ddl() records it and the tables that it leaves, packed.
  void ddl(std::string statement, std::string dialect, std::string tables);
  void define(uint64_t table_id, Bytes definition, Bytes published,
              std::vector<bool> keep);  // to table; an empty `keep`: all columns
  void exclude(uint64_t table_id);
  JournalWriter::Handle pending(uint64_t table_id, Bytes provisional, Bytes published, std::vector<bool> keep);
  // The definition for a table map that may come: `map` is its body after the table id. Another map of the table is
  // asked about. It is no reply.
  void expect(Bytes map, Bytes definition, Bytes published, std::vector<bool> keep);
  void accept_partial(uint64_t table_id);  // to partial: images of this table may lack columns
  void skip();                             // to query, unknown and partial: skips the event
  void stop_at_boundary(bool on) { stop_at_boundary_ = on; }
  // Definitions may have changed: requests that table, or every table, again.
  void redefined(std::string_view schema, std::string_view table);
  void new_epoch() { ++epoch_; }

  const std::string& file() const { return file_; }
  uint64_t position() const { return at_; }
  uint32_t timestamp() const { return timestamp_; }  // of the last event
  // Distinguishes this history from another one in files of the same names: the file's creation time at the source, and
  // the last event in it that ended a group, as far as it was kept. Such an event has a number that the server does not
  // use again, such as an XID. Events between groups are equal in two histories that began in the same second.
  struct Mark {
    std::string file;
    uint32_t created = 0;
    uint64_t start = 0;
    std::string head;
  };
  static constexpr size_t kMarkBytes = 64;
  const Mark& mark() const { return mark_; }
  const std::string& server() const { return server_; }  // version of the server that wrote it; empty: not known yet
  uint64_t heartbeats() const { return heartbeats_; }
  uint64_t abandoned() const { return abandoned_; }  // groups that the source began and did not end
  bool in_transaction() const { return group_.open; }
  bool skipping() const { return skipping_; }  // the stream is still at events that the journal already holds

 private:
  // A table as one TABLE_MAP describes it. A source that opens it again maps it with another id.
  struct Table {
    std::string map;  // its TABLE_MAP after the id
    uint64_t epoch = 0;
    bool excluded = false;
    bool partial = false;                          // incomplete images were accepted
    std::shared_ptr<const Definition> definition;  // of all columns
    std::vector<bool> keep;                        // empty: all
    std::shared_ptr<TableUse> use;
  };

  struct Mapped {
    std::shared_ptr<Table> table;
    uint64_t statement = 0;  // the statement that last mapped it
  };

  enum class Mode {
    journal,
    skip,     // already in the journal
    collect,  // part of a transaction to be prepared: collected in memory
  };

  struct Group {
    bool open = false;
    bool begun = false;       // ends with XID or COMMIT, not with its first statement
    bool journaled = false;   // collected again: the journal's position is after it
    bool unfinished = false;  // part of an ALTER that changes nothing here
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

  // Defined in ingest_statements.cpp.
  bool query(const Event& event, Attention* out);
  bool statement(const Event& event, const QueryBody& query, std::string_view text, Attention* out);
  bool begin();
  void collect_group();
  void xa_prepared(const Event& event);
  bool xa_end(const Event& event, bool commits, const std::string& xid, std::string_view text, Attention* out);
  void append_prepared(const PreparedRows& group);
  void count_prepared(const PreparedRows& group);

  // Defined in ingest_rows.cpp.
  bool table_map(const Event& event, Attention* out);
  void remember(const std::shared_ptr<Table>& table);
  bool find_mapped(uint64_t table_id);
  Mapped* find_known(uint64_t id, Bytes map);
  void forget_known();
  void forget_ids();
  bool rows(const Event& event, Attention* out);
  Table& mapped(uint64_t table_id);
  bool take_rows(const Event& event, const RowsHead& head, Table& table, Attention* out);
  void append_rows(Table& table, const RowsHead& head, uint32_t timestamp, uint32_t rows, Bytes body);
  void count_rows(RowKind kind, uint64_t rows);
  std::shared_ptr<Table> new_table() const;
  std::shared_ptr<Table> new_table(Bytes definition, Bytes published, std::vector<bool> keep, bool pending);
  void put_table(uint64_t table_id, std::shared_ptr<Table> table);
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

  // The current event.
  uint64_t start_ = 0;
  uint64_t end_ = 0;
  Answer answer_ = Answer::none;
  Recorded recorded_;
  std::string inner_;        // events of a TRANSACTION_PAYLOAD,
  size_t inner_at_ = 0;      // the offset up to which they are processed,
  uint64_t inner_left_ = 0;  // and the bytes still to be inflated
  bool in_payload_ = false;

  // The state of the stream.
  std::string file_;
  uint64_t at_ = 0;  // end of the last event
  uint32_t timestamp_ = 0;
  Mark mark_;
  std::string server_;
  enum class Checksum { unknown, none, crc32 } checksum_ = Checksum::unknown;
  bool by_gtid_ = false;
  bool skipping_ = false;  // by position, up to:
  std::string skip_file_;
  uint64_t skip_to_ = 0;
  bool stop_at_boundary_ = false;
  uint64_t heartbeats_ = 0;
  uint64_t abandoned_ = 0;

  Group group_;
  uint64_t epoch_ = 0;
  uint64_t statement_ = 1;
  std::unordered_map<uint64_t, Mapped> tables_;
  std::unordered_map<std::string, std::shared_ptr<Table>> known_;  // by name: as it was last defined
  size_t known_columns_ = 0;
  uint64_t last_id_ = 0;
  Mapped* last_ = nullptr;
  std::string scratch_;

  PreparedLog log_;
  SpillFile spill_;
  std::unique_ptr<PreparedRows> collected_;  // rows of the current group, in Mode::collect
  std::map<std::string, std::unique_ptr<PreparedRows>> prepared_;
  size_t prepared_bytes_ = 0;  // memory that they use
};

}  // namespace relay
