// One connection of the classic protocol, without its socket: splits received bytes into requests, replies to polls
// itself, and holds every other request until the caller replies.
#pragma once

#include <utility>

#include "serve/serve.hpp"

namespace relay {

constexpr size_t kRequestHeader = 32;
constexpr size_t kReplyHeader = 9;

// Payloads up to this size are kept. Only commands that ignore their payload may have larger ones.
constexpr size_t kMaxKept = 64 * 1024;
// Requests are not processed while more than this waits to be sent, and bytes are not received while as much waits to
// be processed.
constexpr size_t kHighWater = 256 * 1024;
constexpr size_t kMaxBacklog = 64 * 1024;

enum class Command : uint16_t {
  ping = 1,
  auth = 2,
  add_filter = 3,
  poll = 4,
  poll_v2 = 5,
  poll_many = 6,
  remove_filter = 7,
  list_filters = 8
};

enum class Result : uint8_t { ok = 0x00, disconnected = 0xf0, empty = 0xfc, error = 0xff };

// Appends a whole reply.
void append_reply(Output& out, Result result, Bytes payload);
// Appends a whole error reply with the reason.
void append_error(Output& out, std::string_view text);
// Turns out[start, end) into a whole reply: the first kReplyHeader bytes are reserved, the rest is the payload. `sum`
// is that of the payload's bytes.
void seal_reply(Output& out, size_t start, Result result, uint32_t sum);

class Session {
 public:
  // What the current request waits for: a reply of the caller, rows, or the encoding of rows as Arrow streams.
  enum class WaitsFor : uint8_t { no, request, rows, columns };

  struct Request {
    uint16_t command = 0;
    uint32_t version = 0;
    uint32_t client_id = 0;
    uint32_t token = 0;
    std::string payload;
  };

  Session(Server& server, uint32_t max_payload) : server_(server), max_payload_(max_payload) {}

  // Takes received bytes.
  void feed(Bytes data);
  // Continues with bytes already received. Call it after `answer`, `wake` and `expire`, and when `out` got shorter.
  void proceed();
  // Processes the pending PollMany itself, now that the caller encodes Arrow streams.
  void poll_again();
  // The pending rows as columns. The caller replies with their streams, or with the reason why there are none.
  std::vector<std::shared_ptr<ColumnBatch>> take_columns() { return batches_.take(); }
  void answer_columns(const std::vector<Bytes>& streams);
  void refuse_columns(const std::string& text);
  // Appends the reply to the pending request (empty: no reply). `proceed` then processes the next requests.
  void answer(Bytes reply);
  // Stops reading. The connection ends when everything in `out` is sent.
  void close() { closing_ = true; }

  // From now on, polls are served from the queue of this client. `key` is the AuthKey of its login.
  void identify(uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key);
  // Removes the identity: from now on each request is pending, and a request that waits for rows gets an error.
  void replace();

  // Call when the queue may have got rows. True if the request that waits for rows now has its reply.
  bool wake();
  // `wake` changes nothing as long as this is quiet.
  Watch watch() const { return server_.watch(handle_, seen_); }
  // Called when all of `out` was sent.
  void sent() {
    if (identified_) server_.sent(handle_);
  }
  void expire();

  WaitsFor waits_for() const { return waits_for_; }
  bool closing() const { return closing_; }
  bool identified() const { return identified_; }
  const Request& request() const { return request_; }
  uint32_t wait_ms() const { return many_.wait_ms; }
  uint64_t waits() const { return waits_; }  // requests that have waited for rows so far
  const ClientHandle& handle() const { return handle_; }
  bool wants_input() const { return !closing_ && backlog_.size() < kMaxBacklog && out.size() < kHighWater; }
  // Whether ClientID and ClientToken of the pending request match the connection's identity.
  bool authorised() const;
  bool has_backlog() const { return !backlog_.empty(); }
  // The bytes that arrived after the pending request.
  std::string take_backlog() { return std::exchange(backlog_, {}); }

  Output out;  // to be sent

 private:
  static constexpr uint64_t kUnseen = ~uint64_t{0};

  size_t consume(Bytes data);
  size_t read_header(Bytes data);
  void begin_request(const uint8_t* header);
  void end_request();
  // Replies to a poll without Python and without a log line. If damage keeps rows from the client, Server::take_damage
  // returns it, and relay/server.py logs `rows_unreadable`.
  void poll(int version);
  void poll_many();
  bool answer_many();
  bool wait_for_columns();
  bool conclude(Outcome outcome, size_t start, uint32_t sum, const std::string& error);
  void disconnect();
  void refuse(std::string_view text) { append_error(out, text); }
  void refuse_and_close(std::string_view text);
  bool stopped() const { return closing_ || waits_for_ != WaitsFor::no || out.size() >= kHighWater; }

  Server& server_;
  uint32_t max_payload_;
  bool identified_ = false;
  bool closing_ = false;
  WaitsFor waits_for_ = WaitsFor::no;
  uint32_t token_ = 0;
  uint64_t key_ = 0;
  ClientHandle handle_;
  ManyRequest many_;
  ColumnBatches batches_;
  uint32_t batch_rows_ = 0;
  uint64_t waits_ = 0;
  uint64_t seen_ = kUnseen;  // version of the queue without rows

  uint8_t head_[kRequestHeader];
  size_t head_size_ = 0;
  bool in_payload_ = false;
  bool keep_ = false;
  uint32_t left_ = 0;  // remaining bytes of the payload
  uint32_t sum_ = 0;   // checksum so far
  uint32_t checksum_ = 0;
  Request request_;
  std::string backlog_;  // received, not processed yet
};

}  // namespace relay
