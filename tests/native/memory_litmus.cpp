#include "memory_litmus.hpp"

#include <set>

#include "memory_model.hpp"

namespace model {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcqRel = std::memory_order_acq_rel;
constexpr auto kSeqCst = std::memory_order_seq_cst;

constexpr size_t kSwitches = 3;  // enough for each of these tests
constexpr size_t kOldLoads = 3;

struct Words {
  Atomic x, y, z;
};

size_t g_tests = 0;

using Seen = std::vector<uint64_t>;  // what the loads returned

// `threads` store to the words, and note what they load.
void expect(const char* name, bool is_allowed, const Seen& outcome,
            const std::vector<std::function<void(Words&, Seen&)>>& threads) {
  subject = name;
  ++g_tests;
  std::set<Seen> outcomes;
  explore_all({kSwitches, kOldLoads}, [&] {
    auto& words = shared<Words>();
    Seen seen(outcome.size());
    std::vector<std::function<void()>> bound;
    for (const auto& thread : threads) bound.push_back([&] { thread(words, seen); });
    run(bound);
    outcomes.insert(seen);
  });
  if (outcomes.count(outcome) != is_allowed) fail(is_allowed ? "does not occur" : "occurs");
}

void order_messages(const char* name, bool is_allowed, std::memory_order store, std::memory_order load) {
  expect(name, is_allowed, {1, 0},
         {[=](Words& w, Seen&) {
            w.x.store(1, kRelaxed);
            w.y.store(1, store);
          },
          [=](Words& w, Seen& seen) {
            seen[0] = w.y.load(load);
            seen[1] = w.x.load(kRelaxed);
          }});
}

void order_messages_by_fences(const char* name, bool is_allowed, bool has_release, bool has_acquire) {
  expect(name, is_allowed, {1, 0},
         {[=](Words& w, Seen&) {
            w.x.store(1, kRelaxed);
            if (has_release) fence(kRelease);
            w.y.store(1, kRelaxed);
          },
          [=](Words& w, Seen& seen) {
            seen[0] = w.y.load(kRelaxed);
            if (has_acquire) fence(kAcquire);
            seen[1] = w.x.load(kRelaxed);
          }});
}

void store_and_look(const char* name, bool is_allowed, std::memory_order first, std::memory_order second) {
  expect(name, is_allowed, {0, 0},
         {[=](Words& w, Seen& seen) {
            w.x.store(1, kRelease);
            fence(first);
            seen[0] = w.y.load(kAcquire);
          },
          [=](Words& w, Seen& seen) {
            w.y.store(1, kRelease);
            fence(second);
            seen[1] = w.x.load(kAcquire);
          }});
}

void look_at_two_writers(const char* name, bool is_allowed, std::memory_order between) {
  expect(name, is_allowed, {1, 0, 1, 0},
         {[](Words& w, Seen&) { w.x.store(1, kRelease); }, [](Words& w, Seen&) { w.y.store(1, kRelease); },
          [=](Words& w, Seen& seen) {
            seen[0] = w.x.load(kAcquire);
            fence(between);
            seen[1] = w.y.load(kAcquire);
          },
          [=](Words& w, Seen& seen) {
            seen[2] = w.y.load(kAcquire);
            fence(between);
            seen[3] = w.x.load(kAcquire);
          }});
}

// A thread passes on what it read.
void pass_on(const char* name, bool is_allowed, std::memory_order second) {
  expect(name, is_allowed, {1, 1, 0},
         {[](Words& w, Seen&) { w.x.store(1, kRelaxed); },
          [=](Words& w, Seen& seen) {
            seen[0] = w.x.load(kAcquire);
            w.y.store(1, second);
          },
          [=](Words& w, Seen& seen) {
            seen[1] = w.y.load(kAcquire);
            seen[2] = w.x.load(kRelaxed);
          }});
}

// Two hand-overs, by two words.
void hand_over_twice(const char* name, bool is_allowed, std::memory_order second) {
  expect(name, is_allowed, {1, 1, 0},
         {[](Words& w, Seen&) {
            w.x.store(1, kRelaxed);
            w.y.store(1, kRelease);
          },
          [=](Words& w, Seen& seen) {
            seen[0] = w.y.load(kAcquire);
            w.z.store(1, second);
          },
          [](Words& w, Seen& seen) {
            seen[1] = w.z.load(kAcquire);
            seen[2] = w.x.load(kRelaxed);
          }});
}

void read_twice(const char* name, bool is_allowed, const Seen& outcome) {
  expect(name, is_allowed, outcome,
         {[](Words& w, Seen&) {
            w.x.store(1, kRelaxed);
            w.x.store(2, kRelaxed);
          },
          [](Words& w, Seen& seen) {
            seen[0] = w.x.load(kRelaxed);
            seen[1] = w.x.load(kRelaxed);
          }});
}

// Data under a tag that is taken away while they are written again: {the tag, the data, the tag again}.
void write_again(const char* name, bool is_allowed, bool has_release, bool has_acquire) {
  expect(name, is_allowed, {1, 2, 1},
         {[=](Words& w, Seen&) {
            w.x.store(1, kRelaxed);
            w.y.store(1, kRelease);
            w.y.store(0, kRelaxed);
            if (has_release) fence(kRelease);
            w.x.store(2, kRelaxed);
            w.y.store(2, kRelease);
          },
          [=](Words& w, Seen& seen) {
            seen[0] = w.y.load(kAcquire);
            seen[1] = w.x.load(kRelaxed);
            if (has_acquire) fence(kAcquire);
            seen[2] = w.y.load(kRelaxed);
          }});
}

}  // namespace

size_t check_litmus() {
  g_tests = 0;
  order_messages("MP", true, kRelaxed, kRelaxed);
  order_messages("MP, release only", true, kRelease, kRelaxed);
  order_messages("MP, acquire only", true, kRelaxed, kAcquire);
  order_messages("MP, release and acquire", false, kRelease, kAcquire);
  order_messages_by_fences("MP, release fence only", true, true, false);
  order_messages_by_fences("MP, acquire fence only", true, false, true);
  order_messages_by_fences("MP, both fences", false, true, true);
  store_and_look("SB", true, kRelease, kAcquire);
  store_and_look("SB, acquire-release fences", true, kAcqRel, kAcqRel);
  store_and_look("SB, one seq_cst fence", true, kSeqCst, kAcqRel);
  store_and_look("SB, seq_cst fences", false, kSeqCst, kSeqCst);
  look_at_two_writers("IRIW, acquire", true, kAcquire);
  look_at_two_writers("IRIW, seq_cst fences", false, kSeqCst);
  pass_on("WRC, relaxed", true, kRelaxed);
  pass_on("WRC, release", false, kRelease);
  hand_over_twice("ISA2, relaxed", true, kRelaxed);
  hand_over_twice("ISA2, release", false, kRelease);
  read_twice("CoRR, forwards", true, {1, 2});
  read_twice("CoRR, old values", true, {0, 0});
  read_twice("CoRR, backwards", false, {2, 1});
  write_again("tag", true, false, false);
  write_again("tag, release fence only", true, true, false);
  write_again("tag, acquire fence only", true, false, true);
  write_again("tag, both fences", false, true, true);
  return g_tests;
}

}  // namespace model
