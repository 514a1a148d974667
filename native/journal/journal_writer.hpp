// The journal's only writer: appends frames directly to the mapping, recovers after a crash, flushes, and retires
// segments.
#pragma once

#include <functional>
#include <mutex>

#include "base/gtid.hpp"
#include "journal/segment.hpp"
#include "journal/sync_note.hpp"
#include "journal/watermarks.hpp"

namespace relay {

// Where the stream continues: after the last complete transaction in the journal.
struct JournalState {
  std::string file;
  uint64_t position = 0;
  GtidSet gtids;
  std::string identity;   // of the source, as passed to `source`
  uint64_t sequence = 1;  // number of the next change
};

// The writer. An append either succeeds, or throws JournalError and changes nothing that a reader or a recovery could
// see; after disk_full the same call may be repeated. All methods except `flush`, `prepare` and `drop_before` belong to
// one thread.
class JournalWriter {
 public:
  using Handle = uint32_t;

  // Opens the journal in the directory, creates it if there is none, and cuts it after its last complete transaction.
  // `segment_bytes` is the size of new segments; `generation` identifies a new journal (0: random).
  JournalWriter(std::string directory, uint64_t segment_bytes, uint64_t generation = 0);
  ~JournalWriter();

  uint64_t generation() const { return generation_; }
  const JournalState& state() const { return state_; }
  uint64_t first() const;                // base of the oldest segment
  uint64_t end() const { return end_; }  // position of the next frame
  uint64_t committed() const { return marks_.committed(); }
  bool in_transaction() const { return open_; }
  uint64_t sequence() const { return sequence_; }  // of the next change, in the open transaction if there is one
  // From now on, also stores `committed` in the word, each time with release order.
  void publish_to(Word* word) { marks_.show(word); }

  // Adds a definition (packed) that rows refer to. Its TABLE frame is written before the first rows of a segment that
  // use it. From the first rows of a pending definition on, nothing is published until it is resolved: by the proven
  // definition, or by empty bytes, which accept it unchanged. Within a transaction that takes effect at its end.
  Handle define(Bytes definition, bool pending = false);
  void resolve(Handle table, Bytes definition);
  void forget(Handle table);  // no more rows will refer to it
  // The last two and `rows` throw `unexpected` for a handle that did not come from `define` of this writer.

  void rows(Handle table, RowKind kind, uint64_t end_position, uint32_t timestamp, uint32_t rows, Bytes body);
  // Appends a statement, which takes a number like a row. `dialect` and `tables`, packed: how it was read, and the
  // tables that it leaves.
  void ddl(uint64_t end_position, uint32_t timestamp, std::string_view schema, std::string_view statement,
           Bytes dialect, Bytes tables);
  // Ends a transaction, also one without rows or DDL. `server` is the id of the server where it was made.
  void commit(uint64_t position, uint32_t timestamp, const Gtid& gtid, uint32_t server);
  void rollback();  // removes what was appended since the last commit
  // The next three are called between transactions.
  void source(uint64_t position, std::string_view file, const GtidSet& gtids, std::string_view identity);
  void file(uint64_t position, std::string_view file);
  void gap(uint64_t position, std::string_view file, std::string_view reason);

  void pause_publishing(bool on);  // while on, nothing is published
  // Writes everything committed to disk. Returns the position up to which that is done, which the header of the last
  // segment shows to other processes. Callable from any thread. Throws sync_failed, then and ever after, if the disk
  // failed: nothing after `flushed` can be trusted any more, and the next writer cuts it away.
  uint64_t flush();
  // Loads the pages of the next `bytes` after the committed position into memory, up to the end of the segment, so that
  // a burst of rows does not wait for them. For the thread that flushes.
  void prepare(uint64_t bytes);
  uint64_t flushed() const { return marks_.flushed(); }
  struct SegmentFacts {
    uint64_t base;
    uint64_t end;
    int64_t modified;  // Unix seconds
  };
  std::vector<SegmentFacts> segments() const;  // oldest first
  // Deletes whole segments that end at or before `position`, never the current one. Callable from any thread.
  void drop_before(uint64_t position);

 private:
  struct Table {
    bool defined = false;
    std::string definition;
    uint64_t position = 0;  // of its TABLE frame in the current segment; 0: none
    bool pending = false;
    bool forgotten = false;
    std::vector<uint64_t> unresolved;  // its TABLE frames without a link yet
    bool resolving = false;            // at the end of the open transaction
    std::string resolution;
  };

  // Defined in journal_recovery.cpp.
  void recover();
  uint64_t find_cut(size_t from) const;
  void replay_state(size_t from, uint64_t cut);
  void cut_to(uint64_t position);

  void start_segment(uint64_t base, uint64_t room, const JournalState& state);
  void make_room(uint64_t bytes);
  bool has_room(uint64_t bytes) const { return end_ + bytes + kFrameHeader <= segment_->end(); }
  uint8_t* payload() const { return segment_->at(end_) + kFrameHeader; }
  void append(const uint8_t* payload_end);
  Table& known(Handle handle);
  void put_table(Table& table, uint64_t link);
  void resolve_now(Table& table);
  void release(Handle table);
  void link(uint64_t table_position, uint64_t resolved);
  void end_at_boundary();
  void sync(const Mapping& segment);
  [[noreturn]] void fail_sync(const std::string& path, int error);

  const std::string directory_;
  const uint64_t segment_bytes_;
  uint64_t generation_;
  JournalState state_;
  std::shared_ptr<Mapping> segment_;
  uint64_t end_ = 0;
  uint64_t boundary_ = 0;  // end of the last complete transaction
  uint64_t sequence_ = 1;  // of the next change; copied to state_ when the transaction is complete
  bool open_ = false;      // rows or DDL since the boundary
  bool publishing_paused_ = false;
  size_t unresolved_ = 0;  // tables with TABLE frames without a link
  std::vector<Table> tables_;
  std::vector<Handle> free_;

  std::unique_ptr<Directory> folder_;
  std::unique_ptr<SyncNote> note_;
  Watermarks marks_;
  uint64_t prepared_ = 0;                        // pages before this position are in memory
  mutable std::mutex mutex_;                     // guards what flush and drop_before use: the next two members
  std::vector<std::shared_ptr<Mapping>> dirty_;  // written since their last flush; the current one last
  std::vector<uint64_t> bases_;                  // of all segments, ascending
};

// Repeats the sync of everything that a process was syncing when it died, since nobody saw its result. Nobody may read
// the journal meanwhile. Throws JournalError; after sync_failed nothing of it is trusted.
void settle_syncs(const std::string& directory);

}  // namespace relay
