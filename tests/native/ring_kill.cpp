// Kills the broker and the server of a set of client queues at random and between every two stores to shared memory, and
// checks what arrives against what a journal of made-up frames says must arrive.
//
// usage: ring_kill SEED ROUNDS PASSAGES [MUTANT]
//   ROUNDS    of random kills and of paused servers
//   PASSAGES  how often each place that stores is passed, in turn, before the kill
// Exit 0 and a line of counts, or 1 and what broke.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "broker.hpp"
#include "queue.hpp"

#ifdef RING_MUTANTS
int relay_mutant = 0;
#endif

namespace {

using namespace relay;

constexpr uint64_t kStart = 64;
constexpr size_t kClients = 8;
constexpr size_t kTables = 4;
constexpr size_t kSlots = 8;  // of a default ring
constexpr size_t kBatch = 32;
constexpr int kSites = 1024;
enum Role { kBroker, kServer, kRoles };
enum Client { kAll, kInserts, kOldest, kNewest, kMixed, kTiny, kMoving, kOnce };

// ---- randomness and the made-up journal

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t g_random = 1;
uint64_t dice(uint64_t n) { return mix(++g_random) % n; }

struct MadeUpJournal final : FrameSource {
  Frame frame(uint64_t position) override {
    uint64_t h = mix(position);
    Frame f;
    f.next = position + 8;
    if (h % 8 == 0) return f;
    f.table = 1 + (h >> 8) % kTables;
    f.kind = 1u << (h >> 16) % 3;
    f.rows = static_cast<uint32_t>((h >> 24) % 32 == 0 ? 30 : 1 + (h >> 32) % 5);
    return f;
  }
  Names names(uint64_t table) override { return {"s", "t" + std::to_string(table - 1)}; }
};

bool undecodable(uint64_t frame) { return mix(frame + 1) % 16 == 0; }  // for the client kInserts

std::vector<Filter> filters_of(size_t client, uint64_t variant) {
  auto make = [](const char* table, uint32_t kinds, uint32_t discard, uint64_t limit) {
    Filter f;
    f.schema = "s";
    f.table = table;
    f.kinds = kinds;
    f.discard = discard;
    f.limit = limit;
    return f;
  };
  switch (client) {
    case kInserts: return {make("t1", 1, 0, 0), make("t2", 1, 2, 0)};
    case kOldest: return {make("*", 7, 1, 20)};
    case kNewest: return {make("*", 3, 2, 15), make("t0", 1, 0, 12)};
    case kMixed: return {make("t0", 7, 0, 0), make("t1", 7, 2, 6), make("t2", 7, 1, 5), make("t2", 1, 1, 7)};
    case kTiny: return {make("*", 7, 1, 3)};
    // A limit of a table that never comes changes nothing but the size of the ring.
    case kMoving: return {make("t3", 7, 0, 0), make("none", 7, 1, variant % 2 ? 40 : 0)};
    default: return {make("*", 7, 0, 0)};
  }
}

// What one row does to a queue, told by the rules of the protocol: -1 no match, 0 dropped, 1 queued, 2 queued and oldest
// dropped down to `limit`.
int judge_row(size_t client, uint64_t table, uint32_t kind, size_t waiting, uint64_t* limit) {
  bool any = false, queue = false, all_oldest = true, some_limit = false;
  uint64_t most = 0;
  for (const Filter& f : filters_of(client, 0)) {
    if (f.table != "*" && f.table != "t" + std::to_string(table - 1)) continue;
    if (!(f.kinds & kind)) continue;
    any = true;
    if (!f.limit || f.discard == 1 || waiting < f.limit) queue = true;
    if (f.limit) {
      some_limit = true;
      most = std::max(most, f.limit);
      if (f.discard != 1) all_oldest = false;
    }
  }
  *limit = most;
  if (!any) return -1;
  if (!queue) return 0;
  return some_limit && all_oldest ? 2 : 1;
}

struct Row {
  uint64_t frame = 0;
  uint32_t row = 0;
  bool operator==(const Row& o) const { return frame == o.frame && row == o.row; }
  bool operator<(const Row& o) const { return frame != o.frame ? frame < o.frame : row < o.row; }
};

// ---- what all processes share besides the arena

struct Shared {
  std::atomic<int> role, site, left;     // kill this role at the n-th passage of this place
  std::atomic<int> odds;                 // or at any passage, once in so many; 0: never
  std::atomic<int> passages[kRoles][kSites];
  std::atomic<int> command;              // 1: other filters for kMoving, 2: flush it
  std::atomic<uint64_t> variant;
  std::atomic<int> mood;                 // of the server: how eager it polls
};

Shared* g_shared;
int g_role = -1;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "ring_kill: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace

void relay::ring_step(int site) {
  if (g_role < 0) return;
  int at = site % kSites;
  g_shared->passages[g_role][at].fetch_add(1, std::memory_order_relaxed);
  bool now = g_shared->role == g_role && g_shared->site == at && g_shared->left > 0 && --g_shared->left == 0;
  int odds = g_shared->odds.load(std::memory_order_relaxed);
  if (now || (odds && dice(static_cast<uint64_t>(odds)) == 0)) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
}

namespace {

struct Message {
  uint64_t client = 0;
  uint64_t number = 0;
  uint64_t count = 0;
  Range ranges[kBatch];
  size_t bytes() const { return offsetof(Message, ranges) + count * sizeof(Range); }
};

struct Wiring {
  int to_broker = eventfd(0, EFD_NONBLOCK);
  int to_server = eventfd(0, EFD_NONBLOCK);
  int pipe_in = -1;
  int pipe_out = -1;
};

void ring_bell(int fd) {
  uint64_t one = 1;
  if (write(fd, &one, 8) != 8) fail("eventfd");
}

void sleep_on(int fd) {
  pollfd p{fd, POLLIN, 0};
  if (poll(&p, 1, -1) < 0) return;
  uint64_t n = 0;
  if (read(fd, &n, 8) != 8) return;
}

// ---- the two processes

void run_broker(const Arena& arena, const Wiring& w) {
  MadeUpJournal journal;
  Broker broker(arena, journal);
  for (size_t c = 0; c < kClients; ++c) broker.set_filters(c, filters_of(c, g_shared->variant));
  Control& control = arena.control();
  control.broker.waiting.set(0);
  for (;;) {
    int command = g_shared->command;
    if (command == 1) broker.set_filters(kMoving, filters_of(kMoving, g_shared->variant));
    if (command == 2) broker.flush(kMoving);
    if (command) g_shared->command = 0;
    Broker::Step step = broker.step(1 + dice(30));
    if (step.wake) ring_bell(w.to_server);
    if (dice(8) == 0) broker.needed();
    if (broker.pending() || g_shared->command) continue;
    control.broker.waiting.set(1);
    if (!broker.pending() && !g_shared->command) sleep_on(w.to_broker);
    control.broker.waiting.set(0);
  }
}

void send(const Wiring& w, const Message& m) {
  if (write(w.pipe_out, &m, m.bytes()) != static_cast<ssize_t>(m.bytes())) fail("pipe");
}

void confirm_some(QueueServer& q, uint64_t number, uint64_t rows) {
  if (rows > 1 && dice(4) == 0) q.confirm(number + rows / 2);
  if (dice(16)) q.confirm(number + rows);
}

bool serve(const Arena& arena, size_t client, const Wiring& w) {
  QueueServer q(arena, client);
  Message m;
  m.client = client;
  Range ranges[kInFlightRanges];
  size_t count = 0;
  m.number = q.in_flight(ranges, &count);
  if (count) {
    uint64_t rows = 0;
    for (m.count = 0; m.count < count; ++m.count) rows += (m.ranges[m.count] = ranges[m.count]).rows;
    send(w, m);
    q.confirm(m.number + rows);
    return true;
  }
  const Peek p = q.peek(ranges, 1 + dice(kBatch), 1 + dice(60));
  if (!p.rows) return false;
  uint64_t rows = 0;
  size_t n = 0;
  uint64_t most = dice(2) ? p.rows : 1 + dice(p.rows);
  for (; n < p.ranges && rows < most; ++n) {
    if (client == kInserts && undecodable(ranges[n].frame)) break;
    if (ranges[n].rows > most - rows) ranges[n].rows = static_cast<uint32_t>(most - rows);
    rows += ranges[n].rows;
  }
  if (!n) {
    q.skip(p, ranges[0].frame);
    if (q.broker_must_wake()) ring_bell(w.to_broker);
    return true;
  }
  m.number = p.number;
  m.count = n;
  std::copy(ranges, ranges + n, m.ranges);
  q.publish(p, ranges, n, rows, client == kOnce);
  if (q.broker_must_wake()) ring_bell(w.to_broker);
  send(w, m);
  confirm_some(q, p.number, rows);
  return true;
}

void run_server(const Arena& arena, const Wiring& w) {
  for (size_t c = 0; c < kClients; ++c) {
    QueueServer q(arena, c);
    q.stop_waiting();
    if (q.broker_must_wake()) ring_bell(w.to_broker);
  }
  for (;;) {
    bool any = false;
    int mood = g_shared->mood;
    for (size_t c = 0; c < kClients; ++c) {
      if (mood && dice(static_cast<uint64_t>(mood))) {
        any = true;
        continue;
      }
      any |= serve(arena, c, w);
    }
    if (mood && dice(64) == 0) usleep(50);
    if (any) continue;
    bool ready = false;
    for (size_t c = 0; c < kClients; ++c) ready |= QueueServer(arena, c).wait();
    if (!ready) sleep_on(w.to_server);
    for (size_t c = 0; c < kClients; ++c) QueueServer(arena, c).stop_waiting();
  }
}

// ---- the supervisor: it is reader, clients and judge

// The rows that match one client's filters, in order, with their numbers among them.
struct Oracle {
  std::vector<Range> frames;
  std::vector<uint64_t> before;  // rows before each
  uint64_t rows = 0;
  uint64_t broken = 0;  // rows that kInserts cannot decode

  Row at(uint64_t number) const {
    size_t i = static_cast<size_t>(std::upper_bound(before.begin(), before.end(), number) - before.begin()) - 1;
    return {frames[i].frame, static_cast<uint32_t>(number - before[i])};
  }
};

struct Received {
  uint64_t next = 0;  // number of the next row that never came
  uint64_t first = 0;  // number of last[0]
  std::vector<Row> last;
  Row latest;
  uint64_t rows = 0;
};

class Supervisor {
 public:
  explicit Supervisor(const Arena& arena) : arena_(arena) {
    int ends[2];
    if (pipe(ends)) fail("pipe");
    w_.pipe_in = ends[0];
    w_.pipe_out = ends[1];
    fcntl(w_.pipe_in, F_SETFL, O_NONBLOCK);
    arena_.control().reader.committed.set(kStart);
    MadeUpJournal journal;
    Broker broker(arena_, journal);
    broker.begin(kStart);
    for (size_t c = 0; c < kClients; ++c) {
      broker.add_client(c + 1, "client" + std::to_string(c));
      broker.set_filters(c, filters_of(c, 0));
    }
  }
  ~Supervisor() { stop_all(); }

  void start(int role) {
    uint64_t seed = dice(UINT64_MAX);
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid) {
      pids_[role] = pid;
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    g_role = role;
    g_random = seed;
    try {
      role == kBroker ? run_broker(arena_, w_) : run_server(arena_, w_);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "ring_kill: %s: %s\n", role == kBroker ? "broker" : "server", e.what());
    }
    _exit(1);
  }

  void stop(int role) {
    if (!pids_[role]) return;
    kill(pids_[role], SIGKILL);
    int status = 0;
    waitpid(pids_[role], &status, 0);
    if (!WIFSIGNALED(status)) fail("a process gave up");
    pids_[role] = 0;
    ++kills_;
  }
  void stop_all() {
    stop(kBroker);
    stop(kServer);
  }

  // Restarts who was killed; true if somebody was.
  bool reap() {
    bool any = false;
    for (int role = 0; role < kRoles; ++role) {
      int status = 0;
      if (!pids_[role] || waitpid(pids_[role], &status, WNOHANG) <= 0) continue;
      pids_[role] = 0;
      if (!WIFSIGNALED(status)) fail("a process gave up");
      ++kills_;
      any = true;
      start(role);
    }
    return any;
  }

  void advance(uint64_t frames) {
    uint64_t committed = arena_.control().reader.committed.get();
    MadeUpJournal journal;
    for (uint64_t i = 0; i < frames; ++i, committed += 8) {
      const FrameSource::Frame f = journal.frame(committed);
      uint64_t limit = 0;
      if (!f.rows) continue;
      for (size_t c = 0; c < kClients; ++c) {
        if (judge_row(c, f.table, f.kind, 0, &limit) < 0) continue;
        Oracle& o = oracle_[c];
        o.frames.push_back({committed, 0, f.rows});
        o.before.push_back(o.rows);
        o.rows += f.rows;
        if (undecodable(committed)) o.broken += f.rows;
      }
    }
    arena_.control().reader.committed.set(committed);
    bell_broker();
  }

  void command(int n) {
    if (g_shared->command) return;
    if (n == 1) ++g_shared->variant;
    g_shared->command = n;
    bell_broker();
  }

  // One turn: restart who died, take what was sent, look at the accounts.
  bool turn(int wait_ms) {
    pollfd p{w_.pipe_in, POLLIN, 0};
    poll(&p, 1, wait_ms);
    bool died = reap();
    drain();
    for (size_t c = 0; c < kClients; ++c) check_accounts(c);
    return died;
  }

  void load(uint64_t turns) {
    for (uint64_t i = 0; i < turns; ++i) {
      work();
      turn(0);
    }
  }

  void work() {
    if (behind() < 400) advance(1 + dice(40));
    if (dice(4) == 0) command(1);
    if (dice(16) == 0) command(2);
  }

  void settle() {
    g_shared->mood = 0;
    wait_until([this] { return drained(); }, "everything arrives");
    for (size_t c = 0; c < kClients; ++c) check_settled(c);
    ++settled_;
  }

  void paused();
  void random_kills();
  void systematic_kills(int passages);
  void report(int mutant) const {
    std::printf("ring_kill: %llu kills, %llu at chosen places, %llu repeats, %llu settled, %llu rows, mutant %d: all right\n",
                ull(kills_), ull(chosen_), ull(repeats_), ull(settled_), ull(oracle_[kAll].rows), mutant);
  }

 private:
  static unsigned long long ull(uint64_t n) { return n; }

  void bell_broker() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (arena_.control().broker.waiting.get() || g_shared->command) ring_bell(w_.to_broker);
  }
  uint64_t behind() const {
    uint64_t at = arena_.control().broker.scan.get();
    return (arena_.control().reader.committed.get() - at) / 8;
  }
  bool decided() const { return behind() == 0 && !g_shared->command; }
  bool drained() const {
    if (!decided()) return false;
    for (size_t c = 0; c < kClients; ++c) {
      ClientView v = arena_.view(c);
      if (v.waiting() || v.in_flight()) return false;
    }
    return true;
  }

  template <typename F>
  void wait_until(F done, const char* what) {
    auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    uint64_t mark = 0;
    while (!done()) {
      turn(1);
      if (mark != progress_ + kills_) {
        mark = progress_ + kills_;
        patience = std::chrono::steady_clock::now() + std::chrono::seconds(3);
      }
      if (std::chrono::steady_clock::now() > patience) fail(std::string("stands still before ") + what);
    }
    turn(0);
  }

  void drain() {
    char buffer[65536];
    for (;;) {
      ssize_t n = read(w_.pipe_in, buffer, sizeof buffer);
      if (n <= 0) break;
      inbox_.append(buffer, static_cast<size_t>(n));
    }
    size_t at = 0;
    Message m;
    while (inbox_.size() - at >= offsetof(Message, ranges)) {
      std::memcpy(static_cast<void*>(&m), inbox_.data() + at, offsetof(Message, ranges));
      if (inbox_.size() - at < m.bytes()) break;
      std::memcpy(static_cast<void*>(&m), inbox_.data() + at, m.bytes());
      at += m.bytes();
      receive(m);
    }
    inbox_.erase(0, at);
  }

  void receive(const Message& m) {
    ++progress_;
    Received& r = received_[m.client];
    const std::string who = "client " + std::to_string(m.client) + " row " + std::to_string(m.number) + ": ";
    std::vector<Row> rows;
    for (uint64_t i = 0; i < m.count; ++i) {
      for (uint32_t k = 0; k < m.ranges[i].rows; ++k) rows.push_back({m.ranges[i].frame, m.ranges[i].first + k});
    }
    if (m.number < r.next) {
      ++repeats_;
      if (m.client == kOnce) fail(who + "repeated in spite of at-most-once");
      if (m.number < r.first || m.number + rows.size() > r.next) fail(who + "repeats more than what was in flight");
      if (!std::equal(rows.begin(), rows.end(), r.last.begin() + static_cast<long>(m.number - r.first))) {
        fail(who + "repeated with other rows");
      }
      return;
    }
    bool numbered = m.client != kNewest && m.client != kMixed;  // every matching row has a number
    bool may_drop = m.client != kAll;
    for (uint64_t n = r.next; m.client == kInserts && n < m.number; ++n) {
      if (!undecodable(oracle_[kInserts].at(n).frame)) fail(who + "rows before it are lost");
    }
    if (!may_drop && m.number != r.next) fail(who + "rows before it are lost");
    for (size_t i = 0; i < rows.size(); ++i) {
      if (numbered && m.number + i >= oracle_[m.client].rows) fail(who + "more rows than match");
      if (numbered && !(rows[i] == oracle_[m.client].at(m.number + i))) fail(who + "is another row");
      if (!(r.latest < rows[i])) fail(who + "out of order");
      uint64_t limit = 0;
      MadeUpJournal journal;
      const FrameSource::Frame f = journal.frame(rows[i].frame);
      if (rows[i].row >= f.rows || judge_row(m.client, f.table, f.kind, 0, &limit) < 0) fail(who + "does not match");
      r.latest = rows[i];
    }
    r.first = m.number;
    r.next = m.number + rows.size();
    r.rows += rows.size();
    r.last = std::move(rows);
  }

  void check_accounts(size_t c) const {
    const ClientView v = arena_.view(c);
    const FloorDrops d = FloorDrops::between(v.server.hi, v.broker);
    uint64_t dropped = v.broker.dropped_newest + v.server.dropped_limit + v.server.dropped_cut + v.server.dropped_flush +
                       v.server.undecodable + d.cut + d.flush + d.limit;
    uint64_t sum = v.server.confirmed + v.in_flight() + v.waiting() + dropped;
    const std::string who = "client " + std::to_string(c) + ": ";
    if (sum != v.broker.matched) {
      fail(who + "matched " + std::to_string(v.broker.matched) + ", accounted " + std::to_string(sum));
    }
    uint64_t limit = c == kOldest ? 20 : c == kNewest ? 15 : c == kTiny ? 3 : UINT64_MAX;
    if (v.waiting() > limit) fail(who + std::to_string(v.waiting()) + " rows wait, more than its limit");
  }

  void check_settled(size_t c) const {
    const ClientView v = arena_.view(c);
    const Received& r = received_[c];
    const std::string who = "client " + std::to_string(c) + ": ";
    if (v.broker.matched != oracle_[c].rows) {
      fail(who + "counted " + std::to_string(v.broker.matched) + " of " + std::to_string(oracle_[c].rows) + " rows");
    }
    if (c == kOnce ? v.server.confirmed < r.rows : v.server.confirmed != r.rows) {
      fail(who + "got " + std::to_string(r.rows) + " rows, confirmed " + std::to_string(v.server.confirmed));
    }
    if (c == kInserts && v.server.undecodable != oracle_[c].broken) fail(who + "wrong count of undecodable rows");
    if ((c == kAll || c == kOnce) && v.server.confirmed != v.broker.matched) fail(who + "lost rows");
  }

  std::deque<Row> content(size_t c) const {
    std::vector<Range> ranges(4096);
    const Peek p = QueueServer(arena_, c).peek(ranges.data(), ranges.size(), UINT64_MAX);
    std::deque<Row> out;
    for (size_t i = 0; i < p.ranges; ++i) {
      for (uint32_t k = 0; k < ranges[i].rows; ++k) out.push_back({ranges[i].frame, ranges[i].first + k});
    }
    return out;
  }

  Arena arena_;
  Wiring w_;
  pid_t pids_[kRoles] = {0, 0};
  Oracle oracle_[kClients];
  Received received_[kClients];
  std::string inbox_;
  uint64_t kills_ = 0, chosen_ = 0, repeats_ = 0, settled_ = 0, progress_ = 0;
};

// Without a server, what a queue holds follows from the rules alone, however often the broker is killed.
void Supervisor::paused() {
  stop(kServer);
  wait_until([this] { return decided(); }, "the broker decides");
  drain();
  std::deque<Row> queue[kClients];
  bool known[kClients];
  for (size_t c = 0; c < kClients; ++c) {
    queue[c] = content(c);
    known[c] = queue[c].size() == arena_.view(c).waiting();
  }
  uint64_t from = arena_.control().reader.committed.get();
  g_shared->odds = 300;
  advance(1 + dice(60));
  wait_until([this] { return decided(); }, "the broker decides");
  g_shared->odds = 0;
  MadeUpJournal journal;
  for (uint64_t p = from; p < arena_.control().reader.committed.get(); p += 8) {
    const FrameSource::Frame f = journal.frame(p);
    for (uint32_t row = 0; row < f.rows; ++row) {
      for (size_t c = 0; c < kClients; ++c) {
        uint64_t limit = 0;
        int verdict = judge_row(c, f.table, f.kind, queue[c].size(), &limit);
        if (verdict > 0) queue[c].push_back({p, row});
        while (verdict == 2 && queue[c].size() > limit) queue[c].pop_front();
      }
    }
  }
  for (size_t c = 0; c < kClients; ++c) {
    if (!known[c]) continue;
    const std::deque<Row> now = content(c);
    const std::string who = "client " + std::to_string(c) + ", paused: ";
    if (arena_.view(c).waiting() != queue[c].size()) {
      fail(who + std::to_string(arena_.view(c).waiting()) + " rows wait instead of " + std::to_string(queue[c].size()));
    }
    if (now.size() > queue[c].size() || !std::equal(now.begin(), now.end(), queue[c].begin())) fail(who + "holds other rows");
    if (now.size() < queue[c].size() && !arena_.view(c).broker.lag) fail(who + "rows are missing from the ring");
  }
  start(kServer);
}

void Supervisor::random_kills() {
  g_shared->mood = static_cast<int>(dice(4)) * 4;
  for (int i = 0; i < 12; ++i) {
    g_shared->odds = dice(2) ? 0 : static_cast<int>(100 + dice(2000));
    load(1 + dice(4));
    g_shared->odds = 0;
    int role = static_cast<int>(dice(kRoles));
    stop(role);
    if (dice(2)) load(1 + dice(3));
    start(role);
  }
}

void Supervisor::systematic_kills(int passages) {
  int since = 0;
  for (int role = 0; role < kRoles; ++role) {
    for (int site = 0; site < kSites; ++site) {
      int seen = g_shared->passages[role][site];
      if (!seen) continue;
      for (int n = 1; n <= std::min(passages, seen); ++n) {
        g_shared->mood = static_cast<int>(dice(3)) * 3;
        g_shared->role = role;
        g_shared->site = site;
        g_shared->left = n;
        for (int i = 0; i < 30 && g_shared->left > 0; ++i) {
          work();
          turn(1);
        }
        if (g_shared->left.exchange(0) == 0) ++chosen_;
        if (++since % 40 == 0) settle();
      }
    }
  }
  settle();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) fail("usage: ring_kill SEED ROUNDS PASSAGES [MUTANT]");
  g_random = std::strtoull(argv[1], nullptr, 10);
  const int rounds = std::atoi(argv[2]);
  const int passages = std::atoi(argv[3]);
  const int mutant = argc > 4 ? std::atoi(argv[4]) : 0;
#ifdef RING_MUTANTS
  relay_mutant = mutant;
#endif
  const uint64_t pool = 16 * Arena::kPage;
  const size_t size = Arena::size_for(kClients, pool, kSlots);
  void* memory = mmap(nullptr, size + sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  g_shared = reinterpret_cast<Shared*>(static_cast<char*>(memory) + size);
  Arena::format(memory, kClients, pool, 1, 1, kSlots);
  Supervisor supervisor(Arena(memory, size));
  supervisor.start(kBroker);
  supervisor.start(kServer);
  supervisor.load(60);
  supervisor.settle();
  for (int i = 0; i < rounds; ++i) {
    supervisor.random_kills();
    if (i % 2) supervisor.paused();
    if (i % 4 == 3) supervisor.settle();
  }
  supervisor.systematic_kills(passages);
  supervisor.report(mutant);
  return 0;
}
