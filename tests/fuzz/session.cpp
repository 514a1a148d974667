// A connection of the classic protocol: whatever arrives, the replies are well formed, and the same however it was cut.
// Input: flags (1 checksums are made right, 2 the client is authenticated), then the bytes of the connection.
#include "serve/session.hpp"

#include "../native/build.hpp"
#include "base/checksum.hpp"
#include "fuzz.hpp"

using namespace relay;
using build::bytes;

namespace {

constexpr uint32_t kClient = 7, kToken = 9;
constexpr size_t kMaxPayload = 1 << 20;

// Requests as far as they are whole, each with the checksum that its bytes have.
void mend(std::string& s) {
  for (size_t at = 0; s.size() - at >= kRequestHeader;) {
    const uint32_t size = load<uint32_t>(&s[at + 4]);
    if (size > s.size() - at - kRequestHeader) return;
    uint32_t sum = load<uint16_t>(&s[at]) + load<uint16_t>(&s[at + 2]);
    for (size_t field : {4, 8, 12, 16, 24, 28}) sum += load<uint32_t>(&s[at + field]);
    store(&s[at + 20], sum + byte_sum(Bytes(s.data() + at + kRequestHeader, size)));
    at += kRequestHeader + size;
  }
}

void answer(Server& server, Session& session) {
  while (session.waits_for() != Session::WaitsFor::no) {
    if (session.waits_for() == Session::WaitsFor::rows) {
      session.expire();
    } else if (session.authorised() && session.request().command == static_cast<uint16_t>(Command::poll_many)) {
      server.encodes_arrow = true;
      session.poll_again();
    } else {
      Output reply;
      append_reply(reply, Result::ok, Bytes(session.request().payload));
      session.answer(reply.bytes());
    }
    session.proceed();
  }
}

// Everything that is sent for these bytes, which come in pieces of `piece` bytes.
std::string converse(Server& server, bool identified, const std::string& input, size_t piece) {
  server.encodes_arrow = false;
  Session session(server, kMaxPayload);
  if (identified) session.identify(kClient, 0, kToken, 0x1122334455667788);
  std::string sent;
  for (size_t at = 0; at < input.size() && !session.closing(); at += piece) {
    session.feed(Bytes(std::string_view(input).substr(at, piece)));
    answer(server, session);
    while (session.out.size() >= kHighWater) {
      sent += session.out.bytes().text();
      session.out.clear();
      session.proceed();
      answer(server, session);
    }
  }
  return sent.append(session.out.bytes().text());
}

void check_replies(const std::string& sent) {
  size_t at = 0;
  while (at < sent.size()) {
    REQUIRE(sent.size() - at >= kReplyHeader);
    const uint32_t size = load<uint32_t>(&sent[at + 1]);
    REQUIRE(size <= sent.size() - at - kReplyHeader);
    const uint8_t result = static_cast<uint8_t>(sent[at]);
    REQUIRE(load<uint32_t>(&sent[at + 5]) == result + size + byte_sum(Bytes(&sent[at + kReplyHeader], size)));
    at += kReplyHeader + size;
  }
}

Server& server() {
  static const size_t size = Arena::size_for(4, 1 << 16, 1);
  static void* memory = [] {
    void* made = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    std::memset(made, 0, size);
    Arena::format(made, 4, 1 << 16, 1);
    return made;
  }();
  static const Arena arena(memory, size);
  arena.id(0).put(kClient);
  static Server made(arena, "/nonexistent", ServeOptions{});
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] & 1) mend(input);
  const bool identified = data[0] & 2;
  const std::string whole = converse(server(), identified, input, input.size() + 1);
  check_replies(whole);
  REQUIRE(whole == converse(server(), identified, input, 1));
  REQUIRE(whole == converse(server(), identified, input, 33));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const auto request = [](const std::string& command, const std::string& payload) {
    const std::string head = command + " 0000 " + payload.substr(0, 2) + " 000000 00010100 07000000 09000000 00000000 ";
    return bytes(head + "00000000 00000000 " + payload.substr(2));
  };
  const std::string ping = request("0100", "00"), poll = request("0400", "00"), poll2 = request("0500", "03 010203");
  const std::string many = request("0600", "15 01000000 00000000 e8030000 0000000000000000 00");
  const std::string filter = request("0300", "16 07 00 00000000 05000000'shop'00 03000000'it'00");
  const std::string flags_both(1, '\3'), mended(1, '\1');
  const std::string columns = request("0600", "15 01000000 00000000 00000000 0000000000000000 02");
  return {mended + ping + filter, flags_both + poll + poll2 + ping, flags_both + many + poll,
          flags_both + columns + many + columns, std::string(1, '\0') + ping};
}
