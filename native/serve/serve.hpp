// Turns a client's queue into reply payloads: what a server does for each poll.
#pragma once

#include <utility>

#include "formats/columns.hpp"
#include "journal/cursor.hpp"
#include "queue/queue.hpp"
#include "serve/row_cache.hpp"
#include "values/payload.hpp"

namespace relay {

struct ServeOptions {
  RenderOptions render;
  EventPosition event_position = EventPosition::position;
  bool at_most_once = false;
  uint64_t max_repeats = 0;  // repeats of an unconfirmed row before it is left out; 0: unlimited
};

// What a connection knows of its client.
struct ClientHandle {
  uint32_t client_id = 0;
  uint32_t slot = 0;
  uint64_t handed = 0;  // number after the last row that this connection was given; 0: none yet
};

struct ManyRequest {
  uint32_t max_rows = 0;
  uint32_t max_bytes = 0;  // 0: the maximum of a reply
  uint32_t wait_ms = 0;
  uint64_t confirmed = 0;  // sequence of the last row that the client has processed
  RowFormat format = RowFormat::text;
};

// What tells that a client's queue has no rows still, and that the client was not forgotten. Servers with many clients
// that wait look at all of them at each wake-up.
struct Watch {
  const DoubleBuffered<BrokerRecord>* record = nullptr;
  uint64_t seen = 0;  // its version
  const Word* id = nullptr;
  uint64_t client_id = 0;

  bool is_quiet() const { return record->version() == seen && id->relaxed() == client_id; }
};

// `failed` comes with a text for the client; `gone` means that the client was forgotten.
enum class Outcome : uint8_t { rows, empty, failed, gone };

// Serves the clients of this process. Not thread-safe.
//
// Rows that are handed out stay in flight until they are confirmed: by the next Poll on the same connection, or by the
// sequence in a PollMany. Rows in flight are handed out before all others, so a new connection begins with them.
class Server {
 public:
  Server(const Arena& arena, std::string journal_directory, ServeOptions options);

  // Confirms what this connection was given, and appends the payload of a Poll (version 1) or PollV2 (2) reply. `out`
  // is unchanged unless the outcome is `rows`.
  Outcome poll(ClientHandle& handle, int version, Output& out, std::string* error);
  // Confirms first, then appends the payload of a PollMany reply in text or msgpack; `sum` is that of its bytes. `out`
  // is unchanged unless the outcome is `rows`.
  Outcome poll_many(ClientHandle& handle, const ManyRequest& request, Output& out, uint32_t* sum, std::string* error);
  // The same as columns: `batches`, and the number of their rows, where an update counts once.
  Outcome poll_columns(ClientHandle& handle, const ManyRequest& request, ColumnBatches& batches, uint32_t* rows,
                       std::string* error);
  // Confirms rows handed out, up to the one with the sequence `through`.
  void confirm(const ClientHandle& handle, uint64_t through);

  // Skips row `number` of the client, if it is the next row to be handed out.
  void skip_row(const ClientHandle& handle, uint64_t number);
  // Call when a reply with rows was sent whole.
  void sent(const ClientHandle& handle);

  // Asks the broker for a wake when the client's queue gets rows. True if it may have some already.
  // Otherwise `seen` is what `watch` needs.
  bool wait(const ClientHandle& handle, uint64_t* seen);
  Watch watch(const ClientHandle& handle, uint64_t seen) const {
    return {&arena_.client(handle.slot).broker, seen, &arena_.id(handle.slot), handle.client_id};
  }
  void stop_waiting(const ClientHandle& handle);
  // Records for monitoring that the client is connected, and from which address.
  void connect(const ClientHandle& handle, std::string_view address);
  void disconnect(const ClientHandle& handle);
  // Whether the broker sleeps although a ring has room and rows are due. The call resets this.
  bool take_broker_wake();
  // Describes damage in the journal found since the last call; "" if there was none.
  std::string take_damage() { return std::exchange(damage_, {}); }
  // Unmaps segments that no client needs any more.
  void release_before(uint64_t position);

  uint64_t max_reply = 256 << 20;  // size of the largest payload
  // Whether the caller encodes columns as Arrow streams. Until it does, it gets a PollMany for columns as a request.
  bool encodes_arrow = false;

 private:
  struct Batch;
  class ManyRows;
  enum class Fit : uint8_t;

  // Whether the client was forgotten. If not, this process holds its block from now on.
  bool gone(const ClientHandle& handle) { return !QueueServer(arena_, handle.slot).enter(handle.client_id); }
  uint64_t limit(const ManyRequest& request) const;
  RowCursor& cursor(const ClientHandle& handle) { return cursors_[handle.slot]; }
  template <typename Encode>
  Outcome hand_out(ClientHandle& handle, uint64_t max_rows, std::string* error, Encode& encode);
  template <typename Encode>
  void fill(Batch& batch, RowCursor& at, Encode& encode);
  template <typename Encode>
  Fit fill_range(Batch& batch, RowCursor& at, Encode& encode, uint64_t want);
  static void end_range(Batch& batch);
  uint64_t frame_of(const ClientHandle& handle, const Range& range);

  Arena arena_;
  JournalReader journal_;
  ServeOptions options_;
  std::vector<RowCursor> cursors_;  // by slot
  std::vector<Range> ranges_;
  RowCache cache_;
  std::vector<uint32_t> starts_;  // of the rows of a range under way
  bool broker_wake_ = false;
  std::string damage_;
};

}  // namespace relay
