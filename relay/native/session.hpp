// One connection of the classic protocol, without its socket: cuts what arrives into requests, answers polls itself and
// holds everything else until the caller has answered it.
#pragma once

#include <utility>

#include "serve.hpp"

namespace relay {

constexpr size_t kRequestHeader = 32;
constexpr size_t kReplyHeader = 9;

// Payloads of this size and less are kept; only commands that ignore their payload may have larger ones.
constexpr size_t kMaxKept = 64 * 1024;
// Requests are not looked at while more than this is to be sent, and not received while as much has not been looked at.
constexpr size_t kHighWater = 256 * 1024;
constexpr size_t kMaxBacklog = 64 * 1024;

enum class Command : uint16_t {
  ping = 1, auth = 2, add_filter = 3, poll = 4, poll_v2 = 5, poll_many = 6, remove_filter = 7, list_filters = 8
};

enum class Result : uint8_t { ok = 0x00, disconnected = 0xf0, empty = 0xfc, error = 0xff };

// Appends a whole reply.
void append_reply(std::string& out, Result result, Bytes payload);
// Appends a whole reply that refuses, with the reason.
void append_error(std::string& out, std::string_view text);
// Turns out[start, end) into a whole reply: its first kReplyHeader bytes are left free, the rest is the payload.
void seal_reply(std::string& out, size_t start, Result result);

class Session {
 public:
  // What the next request has to wait for: an answer, rows, or the encoding of rows as Arrow streams.
  enum class Held : uint8_t { no, request, rows, columns };

  struct Request {
    uint16_t command = 0;
    uint32_t version = 0;
    uint32_t client_id = 0;
    uint32_t token = 0;
    std::string payload;
  };

  Session(Server& server, uint32_t max_payload) : server_(server), max_payload_(max_payload) {}

  // Takes bytes as they arrived.
  void feed(Bytes data);
  // Goes on with what has arrived already; to be called after `answer`, `wake`, `expire`, and when `out` got shorter.
  void proceed();
  // Answers the held PollMany after all, now that the caller encodes Arrow streams.
  void poll_again();
  // The rows that are held as columns: to be answered with their streams, or with why there are none.
  std::vector<std::shared_ptr<ColumnBatch>> take_columns() { return batches_.take(); }
  void answer_columns(const std::vector<Bytes>& streams);
  void refuse_columns(const std::string& text);
  // Appends the reply to the held request (empty: none), and lets the next ones be looked at by `proceed`.
  void answer(Bytes reply);
  // Nothing is read any more; what is to be sent is sent, and then the connection ends.
  void close() { closing_ = true; }

  // From now on polls are answered from the queue of this client. `key` is the AuthKey that it authenticated with.
  void identify(uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key);
  // The identity is gone: each request from now on is held, and who waits for rows is told.
  void replace();

  // After the queue may have got rows: true if the request that waits for rows is answered now.
  bool wake();
  // The time of the request that waits for rows is over: it is answered with none.
  void sent() {  // everything in `out` was
    if (identified_) server_.sent(hold_);
  }
  void expire();

  Held held() const { return held_; }
  bool closing() const { return closing_; }
  bool identified() const { return identified_; }
  const Request& request() const { return request_; }
  uint32_t wait_ms() const { return many_.wait_ms; }
  uint64_t waits() const { return waits_; }  // requests that waited for rows, so far
  const Hold& hold() const { return hold_; }
  bool wants_input() const { return !closing_ && backlog_.size() < kMaxBacklog && out.size() < kHighWater; }
  // Whether ClientID and ClientToken of the held request are those of the connection's identity.
  bool authorised() const;
  bool has_backlog() const { return !backlog_.empty(); }
  // What arrived after the held request.
  std::string take_backlog() { return std::exchange(backlog_, {}); }

  std::string out;  // to be sent

 private:
  size_t consume(Bytes data);
  size_t read_header(Bytes data);
  void begin_request(const uint8_t* header);
  void end_request();
  void poll(int version);
  void poll_many();
  bool answer_many();
  bool hold_columns();
  bool conclude(Outcome outcome, size_t start, const std::string& error);
  void disconnect();
  void refuse(std::string_view text) { append_error(out, text); }
  void refuse_and_close(std::string_view text);
  bool stopped() const { return closing_ || held_ != Held::no || out.size() >= kHighWater; }

  Server& server_;
  uint32_t max_payload_;
  bool identified_ = false;
  bool closing_ = false;
  Held held_ = Held::no;
  uint32_t token_ = 0;
  uint64_t key_ = 0;
  Hold hold_;
  ManyRequest many_;
  ColumnBatches batches_;
  uint32_t batch_rows_ = 0;
  uint64_t waits_ = 0;

  uint8_t head_[kRequestHeader];
  size_t head_size_ = 0;
  bool in_payload_ = false;
  bool keep_ = false;
  uint32_t left_ = 0;  // of the payload
  uint32_t sum_ = 0;   // of what the checksum covers, so far
  uint32_t checksum_ = 0;
  Request request_;
  std::string backlog_;  // arrived, not looked at
};

}  // namespace relay
