// From a client's queue to reply payloads: what the servers do for each poll.
#pragma once

#include <utility>

#include "columns.hpp"
#include "cursor.hpp"
#include "payload.hpp"
#include "queue.hpp"

namespace relay {

struct ServeOptions {
  RenderOptions render;
  EventPosition event_position = EventPosition::position;
  bool at_most_once = false;
  uint64_t max_repeats = 0;  // of a row that the client takes and does not confirm, before it is left out; 0: no end
};

// What a connection holds of its client.
struct Hold {
  uint32_t client_id = 0;
  uint32_t slot = 0;
  uint64_t handed = 0;  // the boundary after the last row handed out on this connection, 0 if none was
};

enum class RowFormat : uint8_t { text = 0, msgpack = 1, arrow = 2 };

struct ManyRequest {
  uint32_t max_rows = 0;
  uint32_t max_bytes = 0;  // 0: as many as a reply may have
  uint32_t wait_ms = 0;
  uint64_t confirmed = 0;  // sequence of the last row that the client is done with
  RowFormat format = RowFormat::text;
};

// `failed` comes with a text for the client, `gone` means that the client was forgotten.
enum class Outcome : uint8_t { rows, empty, failed, gone };

// Serves the clients that belong to this process. Not thread-safe.
//
// Whatever is handed out stays in flight until it is confirmed: by the next Poll on the same connection, or by the sequence
// that a PollMany carries. What is in flight is handed out before anything else, so a new connection begins with it.
class Server {
 public:
  Server(const Arena& arena, std::string journal_directory, ServeOptions options);

  // Confirms what this connection was handed out, and appends the payload of a Poll (version 1) or PollV2 (2) reply.
  // `out` is as before unless the outcome is `rows`.
  Outcome poll(Hold& hold, int version, std::string& out, std::string* error);
  // Appends the payload of a PollMany reply in text or msgpack; `confirm` first. `out` is as before unless the outcome
  // is `rows`.
  Outcome poll_many(Hold& hold, const ManyRequest& request, std::string& out, std::string* error);
  // The same as columns: `batches` and their number of rows, of which an update is one.
  Outcome poll_columns(Hold& hold, const ManyRequest& request, ColumnBatches& batches, uint32_t* rows,
                       std::string* error);
  // Confirms the rows handed out up to the one with the sequence `through`.
  void confirm(const Hold& hold, uint64_t through);

  // Leaves out row `number` of the client, if it is the one that it would be handed out next.
  void leave_out(const Hold& hold, uint64_t number);
  // A reply with rows was sent whole.
  void sent(const Hold& hold);

  // Asks the broker for a wake-up when the client's queue gets rows. True if it may have some already.
  bool wait(const Hold& hold);
  void stop_waiting(const Hold& hold);
  // Whether the client is connected, and from which address, for those who look on.
  void connect(const Hold& hold, std::string_view address);
  void disconnect(const Hold& hold);
  // The connections of the clients whose id mod `workers` is `index` ended with the process that served them before.
  void clear_connections(uint64_t index, uint64_t workers);
  // Whether the broker sleeps although a ring waits to be filled; asking withdraws it.
  bool take_broker_wake();
  // What was found damaged in the journal since the last call, in words; "" if nothing was.
  std::string take_damage() { return std::exchange(damage_, {}); }
  // Lets go of mapped segments that nobody needs any more.
  void release_before(uint64_t position);

  uint64_t max_reply = 256 << 20;  // bytes of the largest payload
  // Whether the caller encodes columns as Arrow streams. Until it does, a PollMany for these is held as a request.
  bool encodes_arrow = false;

 private:
  struct Batch;

  bool gone(const Hold& hold) const { return arena_.client(hold.slot).identity.id.relaxed() != hold.client_id; }
  uint64_t limit(const ManyRequest& request) const;
  RowCursor& cursor(const Hold& hold) { return cursors_[hold.slot]; }
  template <typename Encode>
  Outcome hand_out(Hold& hold, uint64_t max_rows, std::string* error, Encode encode);
  template <typename Encode>
  void fill(Batch& batch, RowCursor& at, Encode encode);

  Arena arena_;
  JournalReader journal_;
  ServeOptions options_;
  std::vector<RowCursor> cursors_;  // by slot
  std::vector<Range> ranges_;
  bool broker_wake_ = false;
  std::string damage_;
};

}  // namespace relay
