// Kills the broker and the server of a set of client queues at random and between every two stores to shared memory,
// and checks what arrives against what a journal of made-up frames says must arrive.
//
// Other clients come and go meanwhile, in blocks that were others' before.
//
// usage: ring_kill SEED ROUNDS PASSAGES [MUTANT]
//   ROUNDS    of random kills and of paused servers
//   PASSAGES  how often each place that stores is passed, in turn, before the kill
// Exit 0 and a line of counts, or 1 and what broke.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "ring_processes.hpp"

#ifdef RING_MUTANTS
int relay_mutant = 0;
#endif

namespace {

using namespace ring_test;

// The rows that match one client's filters, in order, with their numbers among them.
struct Oracle {
  std::vector<Range> frames;
  std::vector<uint64_t> before;  // rows before each
  uint64_t rows = 0;
  uint64_t broken = 0;  // rows that kInserts cannot decode
  uint64_t kept = 0;    // rows that no limit concerns

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
  uint64_t kept = 0;  // of these, those that no limit concerns
  uint64_t all = 0;   // rows, repeated ones included
};

class Supervisor {
 public:
  Supervisor(const Arena& arena, std::chrono::seconds patience) : arena_(arena), patience_(patience) {
    int ends[2];
    if (pipe(ends)) fail("pipe");
    w_.pipe_in = ends[0];
    w_.pipe_out = ends[1];
    fcntl(w_.pipe_in, F_SETFL, O_NONBLOCK);
    arena_.control().reader.committed.set(kStart);
    MadeUpJournal journal;
    Broker broker(arena_, journal, 1);
    broker.step(1);
    for (size_t c = 0; c < kClients; ++c) {
      broker.add_client(c + 1, "client" + std::to_string(c));
      broker.set_filters(c, filters_of(c, 0));
      broker.admit(c);
    }
  }
  ~Supervisor() { stop_all(); }

  void start(int role) {
    uint64_t seed = dice(UINT64_MAX);
    const pid_t supervisor = getpid();
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid) {
      pids_[role] = pid;
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(0);  // it ended before the tie was made; an orphan would hold its pipes for ever
    g_role = role;
    g_random = seed;
    try {
      role == kBroker ? run_broker(arena_, w_) : run_server(arena_, w_, static_cast<uint64_t>(role - kServer));
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
    for (int role = 0; role < kRoles; ++role) stop(role);
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
      if (!f.rows) continue;
      for (size_t c = 0; c < kClients; ++c) {
        if (!matches(c, f.table, f.kind)) continue;
        Oracle& o = oracle_[c];
        if (is_kept(c, f.table, f.kind)) o.kept += f.rows;
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
    if (n == 1) g_shared->variant = dice(4);
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
    if (dice(4) == 0) command(3);
  }

  void settle() {
    g_shared->mood = 0;
    wait_until([this] { return drained(); }, "everything arrives");
    const uint64_t came = g_shared->came;
    auto one_more = [this, came] {
      command(3);
      ring_all();
      return g_shared->came > came;
    };
    wait_until(one_more, "a block becomes free");
    for (size_t c = 0; c < kClients; ++c) check_settled(c);
    ++settled_;
  }

  void ring_all() {
    bell_broker();
    for (int bell : w_.to_server) ring_bell(bell);
  }

  void paused();
  void random_kills();
  void moving_rings();
  void systematic_kills(int passages);
  void report(int mutant) const {
    std::printf("ring_kill: %llu kills, %llu at chosen places, %llu repeats, %llu settled, %llu rows, "
                "%llu guests with %llu rows, mutant %d: all right\n",
                ull(kills_), ull(chosen_), ull(repeats_), ull(settled_), ull(oracle_[kAll].rows), ull(g_shared->came),
                ull(guest_rows_), mutant);
  }

 private:
  static unsigned long long ull(uint64_t n) { return n; }

  static void delay_all(int odds) {
    for (auto& delay : g_shared->delays) delay = odds;
  }
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
    auto patience = std::chrono::steady_clock::now() + patience_;
    uint64_t mark = 0;
    while (!done()) {
      turn(1);
      uint64_t progress = progress_ + arena_.control().broker.scan.get();
      if (mark != progress) {
        mark = progress;
        patience = std::chrono::steady_clock::now() + patience_;
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

  // Rows of a client that came meanwhile: all that match from its first frame on, and nothing that matched another's.
  void receive_guest(const Message& m) {
    const uint64_t id = m.client + 1;
    const std::string who = "guest " + std::to_string(id) + " row " + std::to_string(m.number) + ": ";
    const Guest& guest = g_shared->guests[(id - kClients) % kRemembered];
    if (guest.id != id) fail(who + "long forgotten");
    MadeUpJournal journal;
    Received& r = guests_[id];
    std::vector<Row> rows;
    for (uint64_t i = 0; i < m.count; ++i) {
      for (uint32_t k = 0; k < m.ranges[i].rows; ++k) rows.push_back({m.ranges[i].frame, m.ranges[i].first + k});
    }
    if (m.number < r.next) {
      const bool same = m.number >= r.first && m.number + rows.size() <= r.next &&
                        std::equal(rows.begin(), rows.end(), r.last.begin() + static_cast<long>(m.number - r.first));
      if (!same) fail(who + "repeated with other rows");
      return;
    }
    if (m.number != r.next) fail(who + "rows before it are lost");
    if (!r.next) r.latest = {guest.from, UINT32_MAX};
    for (const Row& row : rows) {
      if (!(row == after(r, journal, id))) fail(who + "is another row");
      r.latest = row;
    }
    r.first = m.number;
    r.next = m.number + rows.size();
    r.last = std::move(rows);
    guest_rows_ += r.next - r.first;
    ++progress_;
  }

  // The row that the guest has to get next.
  static Row after(const Received& r, MadeUpJournal& journal, uint64_t id) {
    Row next = r.latest;
    const bool first = next.row == UINT32_MAX;
    if (!first && next.row + 1 < journal.frame(next.frame).rows) return {next.frame, next.row + 1};
    for (uint64_t at = first ? next.frame : next.frame + 8;; at += 8) {
      const FrameSource::Frame f = journal.frame(at);
      if (f.rows && f.table == 1 + table_of_guest(id)) return {at, 0};
    }
  }

  void receive(const Message& m) {
    if (is_guest(m.client + 1)) return receive_guest(m);
    Received& r = received_[m.client];
    const std::string who = "client " + std::to_string(m.client) + " row " + std::to_string(m.number) + ": ";
    std::vector<Row> rows;
    for (uint64_t i = 0; i < m.count; ++i) {
      for (uint32_t k = 0; k < m.ranges[i].rows; ++k) rows.push_back({m.ranges[i].frame, m.ranges[i].first + k});
    }
    r.all += rows.size();
    if (m.number < r.next) {
      ++repeats_;
      if (m.client == kOnce) fail(who + "repeated in spite of at-most-once");
      if (m.number < r.first || m.number + rows.size() > r.next) fail(who + "repeats more than what was in flight");
      if (!std::equal(rows.begin(), rows.end(), r.last.begin() + static_cast<long>(m.number - r.first))) {
        fail(who + "repeated with other rows");
      }
      return;
    }
    ++progress_;
    bool numbered = m.client != kNewest && m.client != kMixed;  // every matching row has a number
    if (numbered && m.number + rows.size() > oracle_[m.client].rows) fail(who + "more rows than match");
    bool may_drop = m.client != kAll;
    for (uint64_t n = r.next; m.client == kInserts && n < m.number; ++n) {
      if (!undecodable(oracle_[kInserts].at(n).frame)) fail(who + "rows before it are lost");
    }
    if (!may_drop && m.number != r.next) fail(who + "rows before it are lost");
    for (size_t i = 0; i < rows.size(); ++i) {
      if (numbered && !(rows[i] == oracle_[m.client].at(m.number + i))) fail(who + "is another row");
      if (!(r.latest < rows[i])) fail(who + "out of order");
      MadeUpJournal journal;
      const FrameSource::Frame f = journal.frame(rows[i].frame);
      if (rows[i].row >= f.rows || !matches(m.client, f.table, f.kind)) fail(who + "does not match");
      r.kept += is_kept(m.client, f.table, f.kind);
      r.latest = rows[i];
    }
    r.first = m.number;
    r.next = m.number + rows.size();
    r.rows += rows.size();
    r.last = std::move(rows);
  }

  void check_accounts(size_t c) const {
    const ClientView v = arena_.view(c);
    const FloorDrops d = FloorDrops::between(v.server.taken(), v.broker);
    uint64_t passed = v.server.dropped_limit + v.server.dropped_cut + v.server.dropped_flush + v.server.undecodable +
                      v.server.skipped;
    uint64_t dropped = v.broker.dropped_newest + passed + d.cut + d.flush + d.limit;
    uint64_t sum = v.server.confirmed + v.in_flight() + v.waiting() + dropped;
    const std::string who = "client " + std::to_string(c) + ": ";
    if (sum != v.broker.matched()) {
      fail(who + "matched " + std::to_string(v.broker.matched()) + ", accounted " + std::to_string(sum));
    }
    uint64_t limit = c == kOldest ? 20 : c == kNewest ? 15 : c == kTiny ? 3 : c == kUneven ? 18 : UINT64_MAX;
    if (v.most_waiting() > limit) fail(who + std::to_string(v.most_waiting()) + " rows waited, more than its limit");
    if (v.most_waiting() < longest_[c]) fail(who + "its queue was longer than is told");
    if (v.server.served < v.server.confirmed + v.in_flight()) fail(who + "served fewer rows than it was given");
    check_deliveries(c);
  }

  void check_deliveries(size_t c) const {
    Delivery last[Deliveries::kShown];
    const size_t count = arena_.client(c).deliveries.last(last);
    for (size_t i = 0; i < count; ++i) {
      const std::string what = "client " + std::to_string(c) + ", a delivery ";
      if (!whole(last[i])) fail(what + "is not whole");
      if (i && last[i].at < last[i - 1].at) fail(what + "is out of order");
    }
  }

  void check_settled(size_t c) const {
    const ClientView v = arena_.view(c);
    const Received& r = received_[c];
    const std::string who = "client " + std::to_string(c) + ": ";
    if (v.broker.matched() != oracle_[c].rows) {
      fail(who + "counted " + std::to_string(v.broker.matched()) + " of " + std::to_string(oracle_[c].rows) + " rows");
    }
    if (c == kMixed && r.kept != oracle_[c].kept) {
      fail(who + "got " + std::to_string(r.kept) + " of " + std::to_string(oracle_[c].kept) + " rows without a limit");
    }
    const uint64_t done = v.server.confirmed + v.server.skipped;  // what was skipped may not have been sent before
    if (c == kOnce ? done < r.rows : v.server.confirmed > r.rows || r.rows > done) {
      fail(who + "got " + std::to_string(r.rows) + " rows, confirmed " + std::to_string(v.server.confirmed));
    }
    if (v.server.served < r.all) fail(who + "got more rows than were served");
    if (c == kInserts && v.server.undecodable != oracle_[c].broken) fail(who + "wrong count of undecodable rows");
    if ((c == kAll || c == kOnce) && v.server.confirmed != v.broker.matched()) fail(who + "lost rows");
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
  std::chrono::seconds patience_;  // how long nothing may move
  Wiring w_;
  pid_t pids_[kRoles] = {0, 0};
  Oracle oracle_[kClients];
  Received received_[kClients];
  std::map<uint64_t, Received> guests_;
  uint64_t guest_rows_ = 0;
  uint64_t longest_[kClients] = {};  // queues, while no server ran
  std::string inbox_;
  uint64_t kills_ = 0, chosen_ = 0, repeats_ = 0, settled_ = 0, progress_ = 0;
};

// Without a server, what a queue holds follows from the rules alone, however often the broker is killed.
void Supervisor::paused() {
  stop(kServer);
  stop(kSecondServer);
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
  auto counts = [&journal](size_t c, const Row& row) {
    const FrameSource::Frame f = journal.frame(row.frame);
    return !is_kept(c, f.table, f.kind);
  };
  for (uint64_t p = from; p < arena_.control().reader.committed.get(); p += 8) {
    const FrameSource::Frame f = journal.frame(p);
    for (size_t c = 0; c < kClients && f.rows; ++c) {
      auto is_limited = [&](const Row& row) { return counts(c, row); };
      size_t waiting = static_cast<size_t>(std::count_if(queue[c].begin(), queue[c].end(), is_limited));
      for (uint32_t row = 0; row < f.rows; ++row) {
        const Fate fate = judge_row(c, f.table, f.kind, waiting);
        if (fate == Fate::no_match || fate == Fate::dropped) continue;
        queue[c].push_back({p, row});
        if (fate == Fate::limited) ++waiting;
        if (fate == Fate::displacing) queue[c].erase(std::find_if(queue[c].begin(), queue[c].end(), is_limited));
      }
    }
  }
  for (size_t c = 0; c < kClients; ++c) {
    longest_[c] = std::max(longest_[c], arena_.view(c).waiting());
    if (!known[c]) continue;
    const std::deque<Row> now = content(c);
    const std::string who = "client " + std::to_string(c) + ", paused: ";
    if (arena_.view(c).waiting() != queue[c].size()) {
      fail(who + std::to_string(arena_.view(c).waiting()) + " rows wait instead of " + std::to_string(queue[c].size()));
    }
    if (now.size() > queue[c].size() || !std::equal(now.begin(), now.end(), queue[c].begin())) {
      fail(who + "holds other rows");
    }
    if (now.size() < queue[c].size() && !arena_.view(c).broker.lag) fail(who + "rows are missing from the ring");
  }
  // At first always: the queue is longer than any that a server has seen, so its length must be noted.
  if (!settled_ || dice(2)) {
    command(2);
    wait_until([this] { return decided(); }, "the broker flushes");
  }
  start(kServer);
  start(kSecondServer);
}

void Supervisor::random_kills() {
  g_shared->mood = static_cast<int>(dice(4)) * 4;
  delay_all(dice(2) ? 0 : static_cast<int>(50 + dice(500)));
  for (int i = 0; i < 12; ++i) {
    g_shared->odds = dice(2) ? 0 : static_cast<int>(100 + dice(2000));
    load(1 + dice(4));
    g_shared->odds = 0;
    int role = static_cast<int>(dice(kRoles));
    stop(role);
    if (dice(2)) load(1 + dice(3));
    start(role);
  }
  delay_all(0);
}

// A server that is slow to read while rings move and rows come, and nobody dies.
void Supervisor::moving_rings() {
  for (int server : {kServer, kSecondServer}) g_shared->delays[server] = static_cast<int>(5 + dice(60));
  g_shared->delays[kSupervisor] = 200;
  for (int i = 0; i < 100; ++i) {
    if (behind() < 400) advance(1 + dice(12));
    command(dice(2) ? 1 : 3);
    turn(0);
  }
  delay_all(0);
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
  // A broken reader may retry for ever, slowed down at each load.
  signal(SIGALRM, [](int) {
    static const char text[] = "ring_kill: does not come to an end\n";
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
  });
  if (mutant) alarm(30);
#endif
  const uint64_t pool = 16 * kPage;
  const size_t size = Arena::size_for(kBlocks, pool, kWorkers, kSlots);
  void* memory = mmap(nullptr, size + sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  g_shared = reinterpret_cast<Shared*>(static_cast<char*>(memory) + size);
  Arena::format(memory, kBlocks, pool, kWorkers, kSlots);
  try {
    interleave();
    Supervisor supervisor(Arena(memory, size), std::chrono::seconds(mutant ? 2 : 20));
    supervisor.start(kBroker);
    supervisor.start(kServer);
    supervisor.start(kSecondServer);
    supervisor.paused();
    supervisor.load(60);
    supervisor.settle();
    for (int i = 0; i < rounds; ++i) {
      supervisor.random_kills();
      supervisor.moving_rings();
      if (i % 2) supervisor.paused();
      if (i % 4 == 3) supervisor.settle();
    }
    supervisor.systematic_kills(passages);
    supervisor.report(mutant);
  } catch (const std::exception& e) {
    fail(e.what());
  }
  return 0;
}
