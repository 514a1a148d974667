// Who must see the other: one that goes to sleep and one that has work for it, one that uses a block and one that gives
// it away.
#include "ring_scene.hpp"

namespace ring_memory {

namespace {

// As the broker's process does: decides until all is done, and sleeps where there is nothing to do.
template <typename Wake, typename Done>
void run_broker(Scene& s, model::Bell& bell, Wake wake, Done done) {
  Word& waiting = s.arena.control().broker.waiting;
  while (!done()) {
    if (s.broker->step(kStride).wake) wake();
    if (done() || s.broker->pending()) continue;
    waiting.set(1);
    if (!s.broker->pending()) bell.wait();
    waiting.set(0);
  }
}

// As a server's process does for one client, which wants `rows`.
template <typename Wake>
void run_server(Scene& s, model::Bell& bell, uint64_t rows, Wake wake) {
  QueueServer q = s.server();
  while (s.next < rows) {
    if (const uint64_t end = s.take(3)) {
      q.confirm(end);
      if (q.broker_must_wake()) wake();
    } else if (uint64_t seen = 0; !q.wait(&seen)) {
      do {
        bell.wait();
      } while (s.arena.client(0).broker.version() == seen);
      q.stop_waiting();
    }
  }
}

void wake_server() {
  Scene s;
  model::Bell bell;
  constexpr uint64_t kFrames = 3;
  model::run({[&] {
                for (uint64_t i = 0; i < kFrames; ++i) {
                  s.commit(1);
                  if (s.broker->step(kStride).wake) bell.ring();
                }
              },
              [&] { run_server(s, bell, kFrames * kRows, [] {}); }});
}

// The journal is longer than the ring: the broker sleeps until the server has made room.
void wake_broker() {
  Scene s;
  constexpr uint64_t kFrames = 7;
  s.decide(kFrames);
  model::Bell broker_bell;
  model::Bell server_bell;
  model::run({[&] {
                run_broker(
                    s, broker_bell, [&] { server_bell.ring(); }, [&] { return !s.arena.view(0).broker.lag; });
              },
              [&] { run_server(s, server_bell, kFrames * kRows, [&] { broker_bell.ring(); }); }});
}

// Frames that the reader writes to memory that it shares with the broker.
struct SharedJournal final : Journal {
  Word* frames = nullptr;
  Word& at(uint64_t position) { return frames[(position - kStart) / kStride]; }
  Frame frame(uint64_t position) override {
    if (at(position).relaxed() != position) fail("a frame is read that is not there yet");
    return Journal::frame(position);
  }
};

void wake_broker_for_frames() {
  Scene s;
  SharedJournal journal;
  journal.frames = reinterpret_cast<Word*>(model::memory() + model::kMemory - 4096);
  std::fill_n(reinterpret_cast<uint8_t*>(journal.frames), 4096, uint8_t{0});
  s.broker = std::make_unique<Broker>(s.arena, journal, 1);
  s.broker->set_filters(0, s.filters());
  constexpr uint64_t kFrames = 4;
  model::Bell bell;
  model::run({[&] {
                for (uint64_t i = 0; i < kFrames; ++i) {
                  const uint64_t position = kStart + i * kStride;
                  journal.at(position).put(position);
                  s.commit(1);
                  if (s.arena.broker_sleeps()) bell.ring();
                }
              },
              [&] {
                run_broker(
                    s, bell, [] {}, [&] { return s.broker->position() == kStart + kFrames * kStride; });
              }});
}

std::string name_of(uint64_t id) { return "client " + std::to_string(id); }

// A turn of work of a server for client `id`, if it is there.
void work_for(Scene& s, uint64_t id) {
  QueueServer q = s.server();
  if (!q.enter(id)) return;
  q.deliveries().add({id, 0, 0, 0});
  Delivery last[Deliveries::kShown];
  for (size_t n = q.deliveries().last(last); n; --n) {
    if (last[n - 1].at != id) fail("a client has the deliveries of another one");
  }
  q.line().connected.set(id);
}

// As soon as no server holds the block any more.
void add_client(Scene& s, uint64_t id) {
  for (bool is_free = false; !is_free;) {
    try {
      s.broker->add_client(id, name_of(id));
      is_free = true;
    } catch (const ArenaError&) {  // a server holds it
    }
    if (!is_free) model::yield();
  }
  s.broker->admit(0);
}

// A block is given from client to client, whose servers use it as long as it is theirs.
void give_block() {
  Scene s;
  model::run({[&] {
                for (uint64_t id : {2, 3}) {
                  s.broker->remove_client(0);
                  add_client(s, id);
                }
              },
              [&] {
                for (uint64_t id : {1, 1, 3, 3}) {
                  work_for(s, id);
                  release_forgotten(s.arena, id % kWorkers);
                }
                for (uint64_t id : {1, 3}) s.server().release(id);
              },
              [&] {
                for (int i = 0; i < 3; ++i) {
                  work_for(s, 2);
                  s.server().release(2);
                }
              }});
}

// The server of a client dies while the client is forgotten. Its successor knows of no holds.
void die_in_block() {
  Scene s;
  model::run({[&] {
                s.broker->remove_client(0);
                add_client(s, 2);
              },
              [&] {
                model::live([&] {
                  work_for(s, 1);
                  s.server().release(1);
                  work_for(s, 1);
                });
                clear_connections(s.arena, 1);
                work_for(s, 1);
                s.server().release(1);
              },
              [&] {
                work_for(s, 2);
                s.server().release(2);
              }});
}

void look_at_block() {
  Scene s;
  s.broker->remove_client(0);
  s.broker->admit(s.broker->add_client(1, name_of(1)));
  model::run({[&] {
                for (uint64_t id : {2, 3}) {
                  s.broker->remove_client(0);
                  s.broker->admit(s.broker->add_client(id, name_of(id)));
                }
              },
              [&] {
                for (int i = 0; i < 3; ++i) {
                  const uint64_t id = s.arena.id(0).get();
                  const std::string name = s.arena.name(0);
                  if (id && s.arena.id(0).get() == id && name != name_of(id)) {
                    fail("a client has the name of another one");
                  }
                }
              }});
}

}  // namespace

std::vector<Scenario> turn_scenarios() {
  return {{"a server sleeps", wake_server},
          {"a broker sleeps until there is room", wake_broker},
          {"a broker sleeps until there are frames", wake_broker_for_frames},
          {"a block is given away", give_block},
          {"a server dies that holds a block", die_in_block},
          {"somebody looks at a block", look_at_block}};
}

}  // namespace ring_memory
