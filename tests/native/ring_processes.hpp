// A broker and a server of the made-up clients, as processes that may be killed or slowed down at any access to the
// arena.
#pragma once

#include <sys/eventfd.h>

#include <functional>

#include "ring_model.hpp"

namespace ring_test {

constexpr size_t kBatch = 32;
constexpr int kSites = 1024;
constexpr uint64_t kWorkers = 2;
enum Role { kBroker, kServer, kSecondServer, kRoles, kSupervisor = kRoles };

// A client that came: where, and from which frame on its filters hold.
struct Guest {
  std::atomic<uint64_t> id, slot, from;
};
constexpr size_t kRemembered = 64;  // the last of them

// What all processes share besides the arena.
struct Shared {
  std::atomic<int> role, site, left;     // kill this role at the n-th passage of this place
  std::atomic<int> odds;                 // or at any passage, once in so many; 0: never
  std::atomic<int> passages[kRoles][kSites];
  std::atomic<int> command;              // 1: other filters for kMixed, kMoving and kOnce, 2: flush kFlushed, 3: a guest comes
                                         // or goes
  std::atomic<uint64_t> came;            // guests so far
  Guest guests[kRemembered];             // guest n, from 1 on, at n % kRemembered
  std::atomic<uint64_t> variant;
  std::atomic<int> mood;                 // of the server: how eager it polls
  std::atomic<int> delays[kRoles + 1];   // of a role at any store or load, once in so many; 0: never
};

extern Shared* g_shared;
extern int g_role;

// In this process, before the n-th load or store from now: the call, once.
extern int g_interrupt_at;
extern std::function<void()> g_interrupt;

// What a server sends: rows that it has taken in flight.
struct Message {
  uint64_t client = 0;  // its id - 1
  uint64_t number = 0;
  uint64_t count = 0;
  Range ranges[kBatch];
  size_t bytes() const { return offsetof(Message, ranges) + count * sizeof(Range); }
};

struct Wiring {
  int to_broker = eventfd(0, EFD_NONBLOCK);
  int to_server[kWorkers] = {eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
  int pipe_in = -1;
  int pipe_out = -1;
};

void ring_bell(int fd);
void run_broker(const Arena& arena, const Wiring& wiring);
void run_server(const Arena& arena, const Wiring& wiring, uint64_t worker);

// Every reader is interrupted at each of its loads by what a writer may do then.
void interleave();

}  // namespace ring_test
