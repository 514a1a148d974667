// Brokers and servers that die at any store, while their successors, or the others, go on.
#include <array>

#include "ring_scene.hpp"

namespace ring_memory {

namespace {

constexpr size_t kClients = 2;
constexpr uint64_t kSmallRing = 2;  // slots
constexpr uint64_t kFrames = 3;     // of one row: the last needs a slot of the first or the second again
constexpr uint64_t kEnd = kStart + kFrames * kStride;
constexpr uint64_t kIds[kClients] = {2, 4};  // of server 0

// Two clients of one server. What they know outlives all processes.
struct Small {
  struct Client {
    uint64_t taken = 0;      // rows that a server took in flight
    uint64_t confirmed = 0;  // of these
  };

  Small() : arena(format(kClients, kSmallRing)) {
    journal.rows = 1;
    committed().set(kStart);
    start_broker();
    broker->step(1);
    for (uint64_t id : kIds) broker->admit(add(id));
  }

  Word& committed() const { return arena.control().reader.committed; }
  void commit(uint64_t frames) { committed().set(committed().relaxed() + frames * kStride); }
  size_t add(uint64_t id) {
    const size_t slot = broker->add_client(id, "client " + std::to_string(id));
    ask(slot);
    return slot;
  }
  // A broker, with the filters of the clients that it finds.
  void start_broker() {
    broker = std::make_unique<Broker>(arena, journal, 1);
    for (size_t slot = 0; slot < kClients; ++slot) {
      if (arena.id(slot).get()) ask(slot);
    }
  }
  void ask(size_t slot) {
    Filter all;
    all.schema = "s";
    all.table = "t1";
    broker->set_filters(slot, {all});
  }

  // A poll: confirms what is in flight, or takes a row. False if nothing can be taken.
  bool poll(size_t slot) {
    Client& c = clients[slot];
    QueueServer q(arena, slot);
    if (!q.enter(kIds[slot])) fail("a client is gone");
    Range ranges[kSmallRing];
    size_t count = 0;
    uint64_t number = q.in_flight(ranges, &count);
    uint64_t rows = 0;
    for (size_t i = 0; i < count; ++i) rows += ranges[i].rows;
    if (count) {
      if (number != c.confirmed || number + rows != c.taken) fail("other rows are in flight than were taken");
      check(number, ranges, count);
      q.confirm(c.taken);
      c.confirmed = c.taken;
      return true;
    }
    if (c.taken != c.confirmed) fail("rows in flight are lost");
    const Peek p = q.peek(ranges, kSmallRing, 1);
    if (p.number != c.taken) fail("rows are left out or handed out again");
    check(p.number, ranges, p.ranges);
    if (!p.rows) return false;
    q.publish(p, ranges, p.ranges, p.rows);
    c.taken += p.rows;
    return true;
  }
  static void check(uint64_t number, const Range* ranges, size_t count) {
    for (size_t i = 0; i < count; ++i, ++number) {
      if (ranges[i].frame != kStart + number * kStride || ranges[i].first || ranges[i].rows != 1) {
        fail("a row is another one");
      }
    }
  }
  // With nobody else there, hands out the rest. Each client has had each row, and the books balance.
  void drain() {
    clear_connections(arena, 0);
    for (int turn = 0; turn < 20; ++turn) {
      broker->step(kEnd);
      for (size_t slot = 0; slot < kClients; ++slot) poll(slot);
    }
    for (size_t slot = 0; slot < kClients; ++slot) {
      const ClientView v = arena.view(slot);
      if (v.broker.queued.total() != kFrames || v.server.confirmed != kFrames || v.in_flight() || v.waiting()) {
        fail("rows are lost, or decided twice");
      }
    }
  }

  Journal journal;
  Arena arena;
  std::unique_ptr<Broker> broker;
  std::array<Client, kClients> clients;
};

void decide(Small& s) {
  for (uint64_t i = 0; i < kFrames; ++i) s.broker->step(kStride);
}

void serve(Small& s) {
  for (uint64_t i = 0; i < 2 * kFrames; ++i) {
    for (size_t slot = 0; slot < kClients; ++slot) s.poll(slot);
  }
}

// The broker dies. What it decided last may need a slot of rows that a server took before or takes meanwhile.
void die_deciding() {
  Small s;
  s.commit(kFrames);
  model::run({[&] {
                model::live([&] { decide(s); });
                s.start_broker();
                decide(s);
              },
              [&] { serve(s); }});
  s.drain();
}

void die_serving() {
  Small s;
  s.commit(kFrames);
  model::run({[&] { decide(s); },
              [&] {
                model::live([&] { serve(s); });
                clear_connections(s.arena, 0);
                serve(s);
              }});
  s.drain();
}

// Reader, broker and server as their processes go, and sleep. Broker and server die, and both bells outlive them.
void die_and_sleep() {
  Small s;
  model::Bell broker_bell;
  model::Bell server_bell;
  auto is_decided = [&] {
    bool is_lagging = false;
    for (size_t slot = 0; slot < kClients; ++slot) is_lagging |= s.arena.view(slot).broker.lag > 0;
    return s.broker->position() == kEnd && !is_lagging;
  };
  auto go_on = [&] {
    Word& waiting = s.arena.control().broker.waiting;
    do {  // a successor steps in any case: its predecessor may have died between publishing and ringing
      if (s.broker->step(kStride).wake) server_bell.ring();
      if (is_decided() || s.broker->pending()) continue;
      waiting.set(1);
      if (!s.broker->pending()) broker_bell.wait();
      waiting.set(0);
    } while (!is_decided());
  };
  auto hand_out = [&](size_t slot) {
    const QueueServer q(s.arena, slot);
    const bool has_rows = s.poll(slot);
    if ((has_rows || q.view().waiting()) && q.broker_must_wake()) broker_bell.ring();
    return has_rows;
  };
  auto answer = [&] {
    auto is_served = [&](size_t slot) { return s.clients[slot].confirmed == kFrames; };
    while (!is_served(0) || !is_served(1)) {
      bool is_idle = true;
      for (size_t slot = 0; slot < kClients; ++slot) {
        if (!is_served(slot) && hand_out(slot)) is_idle = false;
      }
      if (!is_idle) continue;
      for (size_t slot = 0; slot < kClients; ++slot) is_idle &= is_served(slot) || !QueueServer(s.arena, slot).wait();
      if (is_idle) server_bell.wait();
      for (size_t slot = 0; slot < kClients; ++slot) QueueServer(s.arena, slot).stop_waiting();
    }
  };
  model::run({[&] {
                for (uint64_t i = 0; i < kFrames; ++i) {
                  s.commit(1);
                  if (s.arena.broker_sleeps()) broker_bell.ring();
                }
              },
              [&] {
                model::live(go_on);
                s.start_broker();
                go_on();
              },
              [&] {
                model::live(answer);
                clear_connections(s.arena, 0);
                answer();
              }});
  s.drain();
}

// The broker dies, or the server, where the one has a row for the other: no wake-up is lost.
template <typename Run>
void hand_over_one_row(Run run) {
  Small s;
  s.commit(1);
  model::Bell bell;
  run(
      s,
      [&] {
        if (s.broker->step(kStride).wake) bell.ring();
      },
      [&] {
        while (s.clients[0].confirmed < 1) {
          if (!s.poll(0) && !QueueServer(s.arena, 0).wait()) bell.wait();
          QueueServer(s.arena, 0).stop_waiting();
        }
      });
}

void die_waking() {
  hand_over_one_row([](Small& s, const auto& wake, const auto& answer) {
    model::run({[&] {
                  model::live(wake);
                  s.start_broker();
                  wake();
                },
                answer});
  });
}

void die_asleep() {
  hand_over_one_row([](Small& s, const auto& wake, const auto& answer) {
    model::run({wake, [&] {
                  model::live(answer);
                  clear_connections(s.arena, 0);
                  answer();
                }});
  });
}

// A block passes from a client to the next. The broker that gives it away dies, or the server that has it.
template <typename Give, typename Work>
void pass_block(Give give, Work work) {
  Small s;
  s.broker->remove_client(1);  // one block is enough, and the other must not be free
  s.broker->admit(s.add(6));
  s.arena.lease(0, 1).set(6);
  model::run({[&] { give(s); }, [&] { work(s); }});
  release_forgotten(s.arena, 0);
  if (s.arena.id(0).get() != 8) fail("a client is missing");
  if (s.arena.name(0) != "client 8") fail("a client has the name of another one");
  if (!QueueServer(s.arena, 0).enter(8)) fail("a client is gone");
}

void give_to_next(Small& s) {
  const uint64_t id = s.arena.id(0).get();
  if (id == 8) return;
  if (id) s.broker->remove_client(0);
  while (s.arena.id(0).get() != 8) {
    try {
      const size_t slot = s.add(8);
      s.broker->admit(slot);
    } catch (const ArenaError&) {  // a server holds it
      model::yield();
    }
  }
}

void work_for_both(Small& s) {
  for (uint64_t id : {kIds[0], kIds[0], uint64_t{8}}) {
    QueueServer q(s.arena, 0);
    if (q.enter(id)) {
      q.deliveries().add({id, 0, 0, 0});
      Delivery last[Deliveries::kShown];
      for (size_t n = q.deliveries().last(last); n; --n) {
        if (last[n - 1].at != id) fail("a client has the deliveries of another one");
      }
    }
    release_forgotten(s.arena, 0);
  }
  QueueServer(s.arena, 0).release(kIds[0]);
}

void die_giving() {
  pass_block(
      [](Small& s) {
        model::live([&] { give_to_next(s); });
        s.start_broker();
        give_to_next(s);
      },
      work_for_both);
}

void die_holding() {
  pass_block(give_to_next, [](Small& s) {
    model::live([&] { work_for_both(s); });
    clear_connections(s.arena, 0);
    work_for_both(s);
  });
}

}  // namespace

std::vector<Scenario> death_scenarios() {
  return {{"a broker dies", die_deciding, {1, 1, 1}, true},
          {"a server dies", die_serving, {1, 1, 1}, true},
          {"a broker dies that gives a block away", die_giving, {2, 1, 1}, true},
          {"a server dies that holds a block of two", die_holding, {2, 1, 1}, true},
          {"a broker dies that has to wake", die_waking, {1, 1, 1}},
          {"a server dies that has to sleep", die_asleep, {1, 1, 1}},
          {"brokers and servers die and sleep", die_and_sleep},
          {"a broker dies at random", die_deciding},
          {"a server dies at random", die_serving},
          {"a broker dies at random that gives a block away", die_giving},
          {"a server dies at random that holds a block of two", die_holding}};
}

}  // namespace ring_memory
