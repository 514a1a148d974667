// The journal as broker and servers read it: rows go into the queues of clients, and from there into the replies to
// polls, to the end or to a named failure of the broker. What cannot be read, a client is told.
#include "queue/journal_frames.hpp"
#include "base/checksum.hpp"
#include "serve/session.hpp"
#include "journals.hpp"

using namespace relay;
using namespace relay::journals;
using build::bytes;

namespace {

constexpr size_t kClients = 4;
constexpr uint64_t kRing = 8;  // slots, so that queues outgrow their rings
constexpr uint64_t kPool = 1 << 20;
constexpr uint32_t kToken = 9;

// The shared memory, formatted anew for each input.
class Memory {
 public:
  Memory() : size_(Arena::size_for(kClients, kPool, 1, kRing)), memory_(std::aligned_alloc(4096, rounded(size_))) {}
  Arena arena() {
    std::memset(memory_, 0, size_);
    Arena::format(memory_, kClients, kPool, 1, kRing);
    return Arena(memory_, size_);
  }

 private:
  static size_t rounded(size_t size) { return (size + 4095) / 4096 * 4096; }
  const size_t size_;
  void* const memory_;
};

Filter filter(uint32_t kinds, uint32_t discard, uint64_t limit, uint64_t from) {
  Filter made;
  made.schema = "shop";
  made.table = "*";
  made.kinds = kinds;
  made.discard = discard;
  made.limit = limit;
  made.from = from;
  return made;
}

struct Client {
  uint32_t id;
  size_t slot;
};

std::vector<Client> add_clients(Broker& broker, uint64_t from) {
  std::vector<Client> clients;
  for (const Filter& each : {filter(7, 0, 0, from), filter(7, kDropOldest, 3, from), filter(5, 0, 2, from)}) {
    const auto id = static_cast<uint32_t>(clients.size() + 1);
    const size_t slot = broker.add_client(id, "client" + std::to_string(id));
    broker.set_filters(slot, {each});
    broker.admit(slot);
    clients.push_back({id, slot});
  }
  return clients;
}

std::string request(Command command, uint32_t id, const std::string& payload) {
  constexpr uint32_t kVersion1 = 0x10100;
  const auto size = static_cast<uint32_t>(payload.size());
  std::string made(kRequestHeader, '\0');
  store(&made[0], static_cast<uint16_t>(command));
  store(&made[4], size);
  store(&made[8], kVersion1);
  store(&made[12], id);
  store(&made[16], kToken);
  store(&made[20], static_cast<uint32_t>(command) + size + kVersion1 + id + kToken + byte_sum(Bytes(payload)));
  return made + payload;
}

// The requests of a client: polls of both versions, and of several rows in each format.
std::string requests(uint32_t id) {
  std::string made = request(Command::poll, id, "") + request(Command::poll_v2, id, "");
  for (const char* format : {"00", "01", "02"})
    made += request(Command::poll_many, id, bytes(std::string("03000000 00000000 00000000 0000000000000000 ") + format));
  return made;
}

// As relay/server.py does: every request gets a reply, with rows or with a text.
void poll(Server& server, Client client) {
  Session session(server, 1 << 20);
  session.identify(client.id, static_cast<uint32_t>(client.slot), kToken, 0);
  session.feed(Bytes(requests(client.id)));
  while (session.waits_for() == Session::WaitsFor::columns) {
    std::vector<Bytes> streams;
    for (const auto& columns : session.take_columns()) {
      REQUIRE(columns->rows() > 0);
      streams.emplace_back("stream", 6);
    }
    session.answer_columns(streams);
    session.proceed();
  }
  REQUIRE(session.waits_for() == Session::WaitsFor::no && !session.closing());
  REQUIRE(session.out.size() >= 5 * kReplyHeader);
  session.sent();
}

void serve(const Arena& arena, const std::string& path, const std::vector<Client>& clients) {
  ServeOptions options;
  options.max_repeats = 2;
  Server server(arena, path, options);
  server.encodes_arrow = true;
  for (const Client client : clients) {
    QueueServer(arena, client.slot).enter(client.id);
    for (int times = 0; times < 4; ++times) poll(server, client);
    const std::string damage = server.take_damage();
    REQUIRE(damage.empty() || is_named(JournalError("journal_corrupt", damage)));
  }
}

// As relay/broker.py does: in steps, until everything is decided.
void decide(Broker& broker, uint64_t end) {
  while (broker.position() < end) {
    const uint64_t before = broker.position();
    broker.step(512);
    REQUIRE(broker.position() >= before && broker.position() <= end);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Memory memory;
  const Flushed journal(Bytes(data, size));
  const Arena arena = memory.arena();
  JournalFrames frames(journal.path());
  Broker broker(arena, frames, frames.generation());
  broker.refuse_unproven = true;
  Control& control = arena.control();
  control.reader.committed.set(journal.begin);
  broker.step(1);
  const std::vector<Client> clients = add_clients(broker, broker.position());
  control.reader.committed.set(journal.end);
  control.reader.flushed.set(journal.end);
  expect_named([&] { decide(broker, journal.end); });
  serve(arena, journal.path(), clients);
  expect_named([&] { decide(broker, journal.end); });
  expect_named([&] { broker.seek(clients[0].slot, journal.begin); });
  serve(arena, journal.path(), clients);
  return 0;
}

std::vector<std::string> fuzz_seeds() { return seeds(); }
