// A small ring in the model's memory, and a journal whose frames follow from their positions.
#pragma once

#include <memory>

#include "memory_model.hpp"
#include "queue/broker.hpp"
#include "queue/queue.hpp"

namespace ring_memory {

using namespace relay;
using model::fail;

constexpr uint64_t kStart = 64;
constexpr uint64_t kStride = 8;  // between frames
constexpr uint32_t kRows = 2;    // of a frame
constexpr uint64_t kSlots = 4;   // of a ring
constexpr uint64_t kWorkers = 2;

inline uint64_t frame_of(uint64_t number) { return kStart + number / kRows * kStride; }

// Frames of so many tables by turns.
struct Journal : FrameSource {
  Frame frame(uint64_t position) override {
    return {position + kStride, rows, 1, 1 + (position - kStart) / kStride % tables};
  }
  Names names(uint64_t table) override { return {"s", "t" + std::to_string(table)}; }
  uint64_t tables = 1;
  uint32_t rows = kRows;
};

// An arena in the model's memory.
Arena format(size_t clients, uint64_t slots);

struct Scene {
  // A client that asks for all tables, of the last with a limit that drops the oldest. With one table a row's frame
  // follows from its number.
  explicit Scene(uint64_t limit = 0, uint64_t tables = 1);

  ClientBlock& block() const { return arena.client(0); }
  QueueServer server() const { return {arena, 0}; }
  Word& committed() const { return arena.control().reader.committed; }
  std::vector<Filter> filters() const;
  void commit(uint64_t frames) { committed().set(committed().relaxed() + frames * kStride); }
  // The broker decides some frames more.
  void decide(uint64_t frames);
  // The server takes what a peek of `most` rows finds in flight, and checks it; the number after the last of them, 0 if
  // there are none.
  uint64_t take(uint64_t most);
  void check(uint64_t number, const Range* ranges, size_t count) const;
  // With nobody else there, takes everything.
  void drain();

  uint64_t limit;
  Journal journal;
  Arena arena;
  std::unique_ptr<Broker> broker;
  uint64_t next = 0;  // row that is to be taken
};

struct Scenario {
  const char* name;
  void (*execute)();
  model::Bound every{};  // of an exhaustive exploration; nothing: a random one
  bool is_long = false;  // for the whole check only

  bool is_exhaustive() const { return every.switches || every.deaths; }
};

std::vector<Scenario> queue_scenarios();  // records, slots, the area in flight
std::vector<Scenario> turn_scenarios();   // wake-ups, blocks
std::vector<Scenario> death_scenarios();  // brokers and servers that die at any store

}  // namespace ring_memory
