// Splitting of requests, and replies to polls.
#include "serve/session.hpp"

#include <algorithm>
#include <cstdio>

#include "base/checksum.hpp"

namespace relay {
namespace {

constexpr uint32_t kMajorVersion = 1;
constexpr size_t kPollManyPayload = 21;

// Whether the command's payload has no meaning and may have any size: the original's PHP class sends the previous row
// with each poll.
bool ignores_payload(uint16_t command) {
  auto c = static_cast<Command>(command);
  return c == Command::ping || c == Command::poll || c == Command::poll_v2;
}

void append_u32(Output& out, size_t v) {
  out.ensure(sizeof(uint32_t));
  store(out.p, static_cast<uint32_t>(v));
  out.p += sizeof(uint32_t);
}

uint32_t payload_sum(const Output& out, size_t start) { return byte_sum(out.bytes().from(start + kReplyHeader)); }

bool polls(uint16_t command) {
  auto c = static_cast<Command>(command);
  return c == Command::poll || c == Command::poll_v2 || c == Command::poll_many;
}

}  // namespace

void seal_reply(Output& out, size_t start, Result result, uint32_t sum) {
  auto size = static_cast<uint32_t>(out.size() - start - kReplyHeader);
  uint8_t* header = out.at(start);
  store(header, static_cast<uint8_t>(result));
  store(header + 1, size);
  store(header + 5, static_cast<uint8_t>(result) + size + sum);
}

void append_reply(Output& out, Result result, Bytes payload) {
  size_t start = out.size();
  out.skip(kReplyHeader);
  out.append(payload);
  seal_reply(out, start, result, byte_sum(payload));
}

void append_error(Output& out, std::string_view text) {
  append_reply(out, Result::error, Bytes(std::string(text) + '\0'));
}

void Session::feed(Bytes data) {
  if (closing_) return;
  if (!backlog_.empty() || stopped()) {
    backlog_.append(data.text());
    proceed();
    return;
  }
  size_t used = consume(data);
  if (used < data.size && !closing_) backlog_.append(data.from(used).text());
}

void Session::proceed() {
  if (backlog_.empty() || stopped()) return;
  size_t used = consume(Bytes(backlog_));
  if (closing_ || used == backlog_.size()) {
    std::string().swap(backlog_);
  } else {
    backlog_.erase(0, used);
  }
}

size_t Session::consume(Bytes data) {
  size_t used = 0;
  while (!stopped()) {
    if (!in_payload_) {
      size_t n = read_header(data.from(used));
      used += n;
      if (!in_payload_) break;
      if (closing_) break;
    }
    size_t n = std::min<size_t>(left_, data.size - used);
    Bytes part = data.sub(used, n);
    sum_ += byte_sum(part);
    if (keep_) request_.payload.append(part.text());
    used += n;
    left_ -= static_cast<uint32_t>(n);
    if (left_ > 0) break;
    end_request();
  }
  return used;
}

// Reads what is there of a header. Starts the request when the header is complete.
size_t Session::read_header(Bytes data) {
  if (head_size_ == 0 && data.size >= kRequestHeader) {
    begin_request(data.data);
    return kRequestHeader;
  }
  size_t n = std::min(kRequestHeader - head_size_, data.size);
  if (n > 0) std::memcpy(head_ + head_size_, data.data, n);
  head_size_ += n;
  if (head_size_ == kRequestHeader) begin_request(head_);
  return n;
}

void Session::begin_request(const uint8_t* header) {
  head_size_ = 0;
  in_payload_ = true;
  request_.command = load<uint16_t>(header);
  left_ = load<uint32_t>(header + 4);
  request_.version = load<uint32_t>(header + 8);
  request_.client_id = load<uint32_t>(header + 12);
  request_.token = load<uint32_t>(header + 16);
  request_.payload.clear();
  checksum_ = load<uint32_t>(header + 20);
  sum_ = request_.command + uint32_t{load<uint16_t>(header + 2)} + left_ + request_.version + request_.client_id +
         request_.token + load<uint32_t>(header + 24) + load<uint32_t>(header + 28);
  keep_ = !ignores_payload(request_.command);
  uint32_t limit = keep_ ? std::min<uint32_t>(max_payload_, kMaxKept) : max_payload_;
  if (left_ > limit)
    refuse_and_close("payload of " + std::to_string(left_) + " bytes is too large for this command, at most " +
                     std::to_string(limit) + " are taken");
}

void Session::end_request() {
  in_payload_ = false;
  if (sum_ != checksum_) return refuse_and_close("Invalid Checksum");
  if (request_.version >> 16 != kMajorVersion) {
    char text[80];
    std::snprintf(text, sizeof text, "unsupported protocol version %#x, this relay speaks 0x0001xxxx",
                  request_.version);
    return refuse(text);
  }
  if (!identified_ || !polls(request_.command)) {
    waits_for_ = WaitsFor::request;
    return;
  }
  if (!authorised()) return refuse("wrong ClientID or ClientToken");
  auto command = static_cast<Command>(request_.command);
  if (command == Command::poll_many) return poll_many();
  poll(command == Command::poll ? 1 : 2);
}

void Session::refuse_and_close(std::string_view text) {
  refuse(text);
  close();
}

bool Session::authorised() const {
  if (!identified_) return false;
  bool own = request_.client_id == handle_.client_id && request_.token == token_;
  bool by_key =
      request_.client_id == static_cast<uint32_t>(key_) && request_.token == static_cast<uint32_t>(key_ >> 32);
  return own || by_key;
}

void Session::answer(Bytes reply) {
  out.append(reply);
  waits_for_ = WaitsFor::no;
}

void Session::identify(uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key) {
  identified_ = true;
  token_ = token;
  key_ = key;
  handle_ = ClientHandle{client_id, slot};
}

void Session::replace() {
  identified_ = false;
  if (waits_for_ == WaitsFor::rows) disconnect();
}

void Session::disconnect() {
  waits_for_ = WaitsFor::no;
  append_reply(out, Result::disconnected, {});
  close();
}

// Completes a poll: seals the payload begun at `start` if there are rows; otherwise replies, unless there are no rows.
bool Session::conclude(Outcome outcome, size_t start, uint32_t sum, const std::string& error) {
  if (outcome == Outcome::rows) {
    seal_reply(out, start, Result::ok, sum);
    return true;
  }
  out.truncate(start);
  if (outcome == Outcome::failed) refuse(error);
  if (outcome == Outcome::gone) disconnect();
  return outcome != Outcome::empty;
}

void Session::poll(int version) {
  size_t start = out.size();
  out.skip(kReplyHeader);
  std::string error;
  const Outcome outcome = server_.poll(handle_, version, out, &error);
  if (!conclude(outcome, start, payload_sum(out, start), error)) append_reply(out, Result::empty, {});
}

void Session::poll_many() {
  if (request_.payload.size() != kPollManyPayload)
    return refuse("PollMany: payload of " + std::to_string(request_.payload.size()) + " bytes instead of 21");
  Reader reader{Bytes(request_.payload)};
  many_.max_rows = reader.u32();
  many_.max_bytes = reader.u32();
  many_.wait_ms = reader.u32();
  many_.confirmed = reader.u64();
  uint8_t format = reader.u8();
  many_.format = static_cast<RowFormat>(format);
  if (many_.format > RowFormat::extended)
    return refuse("PollMany: unknown format " + std::to_string(format) + " (0 text, 1 msgpack, 2 Arrow, 3 extended)");
  if (many_.format == RowFormat::arrow && !server_.encodes_arrow) {
    waits_for_ = WaitsFor::request;
    return;
  }
  server_.confirm(handle_, many_.confirmed);
  waits_for_ = WaitsFor::rows;
  if (many_.max_rows == 0) return expire();
  if (answer_many()) return;
  if (many_.wait_ms == 0) return expire();
  ++waits_;
  wake();
}

void Session::poll_again() {
  waits_for_ = WaitsFor::no;
  poll_many();
}

bool Session::answer_many() {
  if (many_.format == RowFormat::arrow) return wait_for_columns();
  size_t start = out.size();
  out.skip(kReplyHeader);
  uint32_t sum = 0;
  std::string error;
  const Outcome outcome = server_.poll_many(handle_, many_, out, &sum, &error);
  if (!conclude(outcome, start, sum, error)) return false;
  waits_for_ = WaitsFor::no;
  return true;
}

bool Session::wait_for_columns() {
  std::string error;
  Outcome outcome = server_.poll_columns(handle_, many_, batches_, &batch_rows_, &error);
  if (outcome == Outcome::rows) {
    waits_for_ = WaitsFor::columns;
    return true;
  }
  batches_.take();
  if (!conclude(outcome, out.size(), 0, error)) return false;
  waits_for_ = WaitsFor::no;
  return true;
}

void Session::answer_columns(const std::vector<Bytes>& streams) {
  size_t start = out.size(), size = kReplyHeader + 2 * sizeof(uint32_t);
  for (Bytes stream : streams) size += sizeof(uint32_t) + stream.size;
  out.ensure(size);
  out.skip(kReplyHeader);
  append_u32(out, batch_rows_);
  append_u32(out, streams.size());
  for (Bytes stream : streams) {
    append_u32(out, stream.size);
    out.append(stream);
  }
  seal_reply(out, start, Result::ok, payload_sum(out, start));
  waits_for_ = WaitsFor::no;
}

void Session::refuse_columns(const std::string& text) {
  refuse(text);
  waits_for_ = WaitsFor::no;
}

bool Session::wake() {
  const bool has_rows = server_.wait(handle_, &seen_);
  if (has_rows) seen_ = kUnseen;  // those that nobody can read are passed over, some at a time
  if (!has_rows || !answer_many()) return false;
  server_.stop_waiting(handle_);
  return true;
}

void Session::expire() {
  server_.stop_waiting(handle_);
  waits_for_ = WaitsFor::no;
  const uint32_t none[2] = {0, 0};  // number of rows; in format 2 also of streams
  append_reply(out, Result::ok, {none, many_.format == RowFormat::arrow ? sizeof none : sizeof none[0]});
}

}  // namespace relay
