#include "ring_processes.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

namespace ring_test {

Shared* g_shared = nullptr;
int g_role = kSupervisor;
int g_interrupt_at = 0;
std::function<void()> g_interrupt;

}  // namespace ring_test

using namespace ring_test;

// Stands still for a moment, so that the others meet a half-done store or read.
void relay::ring_look() {
  if (g_interrupt_at && --g_interrupt_at == 0) g_interrupt();
  if (!g_shared) return;
  int odds = g_shared->delays[g_role].load(std::memory_order_relaxed);
  if (!odds || dice(static_cast<uint64_t>(odds))) return;
  if (dice(2)) {
    sched_yield();
  } else {
    usleep(1);
  }
}

void relay::ring_step(int site) {
  ring_look();
  if (!g_shared || g_role == kSupervisor) return;
  int at = site % kSites;
  g_shared->passages[g_role][at].fetch_add(1, std::memory_order_relaxed);
  bool now = g_shared->role == g_role && g_shared->site == at && g_shared->left > 0 && --g_shared->left == 0;
  int odds = g_shared->odds.load(std::memory_order_relaxed);
  if (now || (odds && dice(static_cast<uint64_t>(odds)) == 0)) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
}

namespace ring_test {

void ring_bell(int fd) {
  uint64_t one = 1;
  if (write(fd, &one, 8) != 8) fail("eventfd");
}

static void sleep_on(int fd) {
  pollfd p{fd, POLLIN, 0};
  if (poll(&p, 1, -1) < 0) return;
  uint64_t n = 0;
  if (read(fd, &n, 8) != 8) return;
}

// One of the guests is forgotten, and at once another takes a free block if there is one.
static void come_or_go(const Arena& arena, Broker& broker) {
  const size_t slot = kClients + dice(kGuests);
  if (arena.id(slot).get()) broker.remove_client(slot);
  const uint64_t number = g_shared->came + 1;
  const uint64_t id = kClients + number;
  try {
    const size_t found = broker.add_client(id, "guest " + std::to_string(id));
    broker.set_filters(found, filters_of_guest(id));
    Guest& guest = g_shared->guests[number % kRemembered];
    guest.id = id;
    guest.slot = found;
    guest.from = broker.position();
    g_shared->came = number;
    broker.admit(found);
  } catch (const ArenaError&) {  // no block is free before a server releases one
  }
}

void run_broker(const Arena& arena, const Wiring& w) {
  MadeUpJournal journal;
  Broker broker(arena, journal, 1);
  for (size_t slot = 0; slot < kBlocks; ++slot) {
    const uint64_t id = arena.id(slot).get();
    if (id) broker.set_filters(slot, is_guest(id) ? filters_of_guest(id) : filters_of(slot, g_shared->variant));
  }
  Control& control = arena.control();
  control.broker.waiting.set(0);
  for (;;) {
    int command = g_shared->command;
    if (command == 1) {
      for (size_t c : {kMixed, kMoving, kOnce}) broker.set_filters(c, filters_of(c, g_shared->variant));
    }
    if (command == 2) broker.flush(kFlushed);
    if (command == 3) come_or_go(arena, broker);
    if (command) g_shared->command = 0;
    Broker::Step step = broker.step(8 * (1 + dice(30)));
    for (uint64_t worker = 0; worker < kWorkers; ++worker) {
      if (step.wake >> worker & 1) ring_bell(w.to_server[worker]);
    }
    if (dice(8) == 0) broker.needed();
    if (broker.pending() || g_shared->command) continue;
    control.broker.waiting.set(1);
    if (!broker.pending() && !g_shared->command) sleep_on(w.to_broker);
    control.broker.waiting.set(0);
  }
}

static void send(const Wiring& w, const Message& m) {
  if (write(w.pipe_out, &m, m.bytes()) != static_cast<ssize_t>(m.bytes())) fail("pipe");
}

static void confirm_some(QueueServer& q, uint64_t number, uint64_t rows) {
  if (rows > 1 && dice(4) == 0) q.confirm(number + rows / 2);
  if (dice(16)) q.confirm(number + rows);
}

static bool serve(const Arena& arena, uint64_t id, size_t slot, const Wiring& w) {
  QueueServer q(arena, slot);
  const size_t client = id - 1;
  Message m;
  m.client = client;
  Range ranges[kInFlightRanges];
  size_t count = 0;
  m.number = q.in_flight(ranges, &count);
  if (count) {
    uint64_t rows = 0;
    for (m.count = 0; m.count < count; ++m.count) rows += (m.ranges[m.count] = ranges[m.count]).rows;
    if (client == kFlushed && dice(4) == 0) {
      q.skip_in_flight(ranges[0].frame);
      return true;
    }
    q.repeat(rows);
    q.deliveries().add(delivery_of(m.number, ranges[0].frame));
    send(w, m);
    q.confirm(m.number + rows);
    return true;
  }
  const Peek p = q.peek(ranges, 1 + dice(kBatch), 1 + dice(60));
  if (p.number > p.queued || p.rows > p.waiting()) {
    fail("peek of client " + std::to_string(client) + ": impossible counts");
  }
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
  q.deliveries().add(delivery_of(m.number, ranges[0].frame));
  send(w, m);
  confirm_some(q, p.number, rows);
  return true;
}

// The clients of one server, as far as it has heard of them. A guest stays in the list until the server meets its end.
struct Known {
  uint64_t id;
  size_t slot;
};

static void hear(std::vector<Known>* known, uint64_t* heard, uint64_t worker) {
  const uint64_t came = g_shared->came;
  for (*heard = std::max(*heard, came > kGuests ? came - kGuests : 0); *heard < came;) {
    const Guest& guest = g_shared->guests[++*heard % kRemembered];
    if (guest.id % kWorkers == worker) known->push_back({guest.id, guest.slot});
  }
}

void run_server(const Arena& arena, const Wiring& w, uint64_t worker) {
  clear_connections(arena, worker);
  std::vector<Known> known;
  uint64_t heard = 0;
  for (uint64_t id = 1; id <= kClients; ++id) {
    if (id % kWorkers != worker) continue;
    known.push_back({id, id - 1});
    QueueServer q(arena, id - 1);
    if (q.enter(id) && q.broker_must_wake()) ring_bell(w.to_broker);
  }
  for (;;) {
    hear(&known, &heard, worker);
    if (dice(8) == 0) release_forgotten(arena, worker);
    bool any = false;
    int mood = g_shared->mood;
    for (size_t i = 0; i < known.size();) {
      const auto [id, slot] = known[i++];
      if (mood && dice(static_cast<uint64_t>(mood))) {
        any = true;
        continue;
      }
      QueueServer q(arena, slot);
      if (!q.enter(id)) {
        if (dice(2)) known.erase(known.begin() + static_cast<long>(--i));
        continue;
      }
      any |= serve(arena, id, slot, w);
      if (dice(8) == 0) q.release(id);
    }
    if (mood && dice(64) == 0) usleep(50);
    if (any) continue;
    bool ready = heard < g_shared->came;
    auto waiting = [&](auto act) {
      for (const Known& each : known) {
        QueueServer q(arena, each.slot);
        if (q.enter(each.id)) act(q);
      }
    };
    waiting([&](QueueServer& q) { ready |= q.wait(); });
    if (!ready) sleep_on(w.to_server[worker]);
    waiting([](QueueServer& q) { q.stop_waiting(); });
  }
}

}  // namespace ring_test
