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

void run_broker(const Arena& arena, const Wiring& w) {
  MadeUpJournal journal;
  Broker broker(arena, journal, 1);
  for (size_t c = 0; c < kClients; ++c) broker.set_filters(c, filters_of(c, g_shared->variant));
  Control& control = arena.control();
  control.broker.waiting.set(0);
  for (;;) {
    int command = g_shared->command;
    if (command == 1) {
      broker.set_filters(kMoving, filters_of(kMoving, g_shared->variant));
      broker.set_filters(kOnce, filters_of(kOnce, g_shared->variant));
    }
    if (command == 2) broker.flush(kFlushed);
    if (command) g_shared->command = 0;
    Broker::Step step = broker.step(8 * (1 + dice(30)));
    if (step.wake) ring_bell(w.to_server);
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

static bool serve(const Arena& arena, size_t client, const Wiring& w) {
  QueueServer q(arena, client);
  Message m;
  m.client = client;
  Range ranges[kInFlightRanges];
  size_t count = 0;
  m.number = q.in_flight(ranges, &count);
  if (count) {
    uint64_t rows = 0;
    for (m.count = 0; m.count < count; ++m.count) rows += (m.ranges[m.count] = ranges[m.count]).rows;
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

}  // namespace ring_test
