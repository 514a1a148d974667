#include "memory_model.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "memory_choices.hpp"

namespace model {

namespace {

constexpr size_t kPlaces = 512;  // words that an execution touches
constexpr size_t kStack = 256 << 10;
constexpr size_t kThreads = 5;
constexpr size_t kSteps = 200000;  // of an execution that ends

std::vector<size_t> g_touched;  // words with a place

// Of each word the index of a value in its history. Of words that it does not reach, the first.
class View {
 public:
  View() = default;
  View(const View& o) { *this = o; }
  View& operator=(const View& o) {
    if (this != &o) std::copy_n(o.at_.begin(), reach_ = o.reach_, at_.begin());
    return *this;
  }
  int16_t of(size_t place) const { return place < reach_ ? at_[place] : int16_t{0}; }
  // Not to an older value.
  void advance(size_t place, int16_t index) {
    if (place >= reach_) reach(place + 1);
    at_[place] = std::max(at_[place], index);
  }
  void join(const View& o) {
    if (reach_ < o.reach_) reach(o.reach_);
    for (size_t i = 0; i < o.reach_; ++i) at_[i] = std::max(at_[i], o.at_[i]);
  }

 private:
  void reach(size_t places) {
    std::fill_n(at_.begin() + static_cast<std::ptrdiff_t>(reach_), places - reach_, int16_t{0});
    reach_ = places;
  }

  size_t reach_ = 0;
  std::array<int16_t, kPlaces> at_;
};

struct Message {
  uint64_t value;
  View view;  // what an acquire load of it takes over
  // The threads, as bits, whose `acq` and `cur` have the view already: a loop loads the same value again and again.
  uint8_t known, taken;
};

// Where a stack goes on. swapcontext would ask the kernel for signals each time, so it only begins a stack.
struct Place {
  ucontext_t begin;
  jmp_buf at;
  bool is_begun;
};

struct Thread {
  View cur;  // what it knows
  View acq;  // what it will know after an acquire fence
  View rel;  // what its relaxed stores give away: what it knew at its last release fence
  // What all knew who had a seq_cst fence before its own. It bounds loads only and is not given away, as in C++17: the
  // order of these fences is no happens-before.
  View sc;
  Place place;
  Place beyond;  // where it goes on after a death
  const std::function<void()>* work = nullptr;
  const std::function<void()>* life = nullptr;  // of a mortal thread, whose stack a death leaves as it is
  const bool* waits_for = nullptr;
  bool is_done = false;

  bool can_run() const { return !is_done && (!waits_for || *waits_for); }
};

alignas(64) uint8_t g_memory[kMemory];
int16_t g_place_of[kMemory / 8];                 // of a word, + 1; 0: not touched yet
std::vector<std::vector<Message*>> g_histories;  // by place
std::deque<Message> g_pool;
size_t g_messages = 0;
View g_sc;
std::array<Thread, kThreads> g_threads;
std::array<std::vector<char>, kThreads> g_stacks, g_life_stacks;
size_t g_count = 0;
Thread* g_running = nullptr;
Place g_main;
size_t g_steps = 0;
uint64_t g_executions = 0;

Message& message(uint64_t value, const View& view) {
  if (g_messages == g_pool.size()) g_pool.emplace_back();
  Message& m = g_pool[g_messages++];
  m.value = value;
  m.view = view;
  m.known = m.taken = 0;
  return m;
}

// Adds the running thread; whether it was not among them.
bool add_running(uint8_t* threads) {
  const auto bit = static_cast<uint8_t>(1 << (g_running - g_threads.data()));
  const bool is_new = !(*threads & bit);
  *threads |= bit;
  return is_new;
}

size_t place_of(const Atomic* word, uint64_t initial) {
  const size_t offset = static_cast<size_t>(reinterpret_cast<const uint8_t*>(word) - g_memory) / 8;
  if (offset >= kMemory / 8) fail("a word outside of the model's memory");
  int16_t& place = g_place_of[offset];
  if (!place) {
    g_touched.push_back(offset);
    if (g_touched.size() > kPlaces) fail("an execution touches more words than the model keeps");
    place = static_cast<int16_t>(g_touched.size());
    if (g_histories.size() < g_touched.size()) g_histories.emplace_back();
    g_histories[g_touched.size() - 1].assign(1, &message(initial, View{}));
  }
  return static_cast<size_t>(place - 1);
}

bool acquires(std::memory_order o) {
  return o == std::memory_order_acquire || o == std::memory_order_acq_rel || o == std::memory_order_seq_cst;
}
bool releases(std::memory_order o) {
  return o == std::memory_order_release || o == std::memory_order_acq_rel || o == std::memory_order_seq_cst;
}

[[noreturn]] void go(Place* to) {
  if (to->is_begun) _longjmp(to->at, 1);
  to->is_begun = true;
  setcontext(&to->begin);
  std::abort();
}

// Returns when somebody goes to `from`.
void go(Place* from, Place* to) {
  from->is_begun = true;
  if (!_setjmp(from->at)) go(to);
}

void resume(Thread* next) {
  Thread* before = g_running;
  g_running = next;
  if (before != next) go(before ? &before->place : &g_main, &next->place);
}

std::vector<Thread*> others() {
  std::vector<Thread*> found;
  for (size_t i = 0; i < g_count; ++i) {
    if (&g_threads[i] != g_running && g_threads[i].can_run()) found.push_back(&g_threads[i]);
  }
  return found;
}

// Before each access another thread may go on.
void may_switch() {
  if (++g_steps > kSteps) fail("the threads do not end");
  size_t runnable = 0;
  for (size_t i = 0; i < g_count; ++i) runnable += g_threads[i].can_run();
  const size_t chosen = runnable > 1 ? choices->thread(g_steps, runnable - 1) : 0;
  if (chosen) resume(others()[chosen - 1]);
}

// Before each store a mortal thread may die.
void may_die() {
  if (g_running->life && choices->death()) go(&g_running->beyond);
}

// Another thread goes on.
void must_switch() {
  const std::vector<Thread*> found = others();
  if (!found.empty()) return resume(found[choices->any(found.size())]);
  for (size_t i = 0; i < g_count; ++i) {
    if (!g_threads[i].is_done) fail("a thread sleeps, and nobody wakes it");
  }
  go(&g_running->place, &g_main);
}

void perform(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

void work() {
  perform(*g_running->work);
  g_running->is_done = true;
  must_switch();
}

void live_on_own_stack() {
  perform(*g_running->life);
  go(&g_running->beyond);
}

void prepare(Place* place, std::vector<char>* stack, void (*begin)()) {
  stack->resize(kStack);
  getcontext(&place->begin);
  place->begin.uc_stack.ss_sp = stack->data();
  place->begin.uc_stack.ss_size = kStack;
  makecontext(&place->begin, begin, 0);
  place->is_begun = false;
}

}  // namespace

std::string subject;

uint8_t* memory() { return g_memory; }
uint64_t executions() { return g_executions; }

void fail(const std::string& what) {
  std::fprintf(stderr, "ring_memory: %s: execution %llu: %s\n", subject.c_str(),
               static_cast<unsigned long long>(g_executions), what.c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

uint64_t Atomic::load(std::memory_order order) const {
  if (!g_running) return value_;
  may_switch();
  Thread& t = *g_running;
  const size_t place = place_of(this, value_);
  const std::vector<Message*>& history = g_histories[place];
  const size_t oldest = static_cast<size_t>(std::max(t.cur.of(place), t.sc.of(place)));
  const size_t older = history.size() - 1 - oldest;
  const size_t index = history.size() - 1 - (older ? choices->message(older) : 0);
  Message& m = *history[index];
  if (index) {  // the first value gives nothing away
    if (add_running(&m.known)) t.acq.join(m.view);
    if (acquires(order) && add_running(&m.taken)) t.cur.join(m.view);
  }
  t.cur.advance(place, static_cast<int16_t>(index));
  t.acq.advance(place, static_cast<int16_t>(index));
  return m.value;
}

void Atomic::store(uint64_t v, std::memory_order order) {
  if (!g_running) {
    value_ = v;
    return;
  }
  may_switch();
  may_die();
  const Thread& t = *g_running;
  const size_t place = place_of(this, value_);
  const std::vector<Message*>& history = g_histories[place];
  if (static_cast<size_t>(t.cur.of(place)) + 1 != history.size()) fail("a word has two writers");
  append(v, order);
}

void Atomic::append(uint64_t v, std::memory_order order) {
  Thread& t = *g_running;
  const size_t place = place_of(this, value_);
  std::vector<Message*>& history = g_histories[place];
  const auto index = static_cast<int16_t>(history.size());
  t.cur.advance(place, index);
  t.acq.advance(place, index);
  Message& m = message(v, releases(order) ? t.cur : t.rel);
  m.view.advance(place, index);
  add_running(&m.known);
  add_running(&m.taken);
  history.push_back(&m);
  value_ = v;
}

uint64_t Atomic::read_last() {
  may_switch();
  may_die();
  Thread& t = *g_running;
  const Message& last = *g_histories[place_of(this, value_)].back();
  t.cur.join(last.view);
  t.acq.join(last.view);
  return last.value;
}

uint64_t Atomic::fetch_add(uint64_t n, std::memory_order) {
  const uint64_t before = read_last();
  append(before + n, std::memory_order_acq_rel);
  return before;
}

bool Atomic::compare_exchange_strong(uint64_t& expected, uint64_t v, std::memory_order) {
  const uint64_t before = read_last();
  const bool is_equal = before == expected;
  if (is_equal) append(v, std::memory_order_acq_rel);
  expected = before;
  return is_equal;
}

void fence(std::memory_order order) {
  if (!g_running) return;
  if (order == std::memory_order_seq_cst) may_switch();  // the others concern nobody else
  Thread& t = *g_running;
  if (acquires(order)) t.cur = t.acq;
  if (order == std::memory_order_seq_cst) {
    g_sc.join(t.cur);
    t.sc = g_sc;
  }
  if (releases(order)) t.rel = t.cur;
}

void yield() {
  if (!others().empty()) must_switch();
}

void live(const std::function<void()>& work) {
  Thread& t = *g_running;
  Place life;
  prepare(&life, &g_life_stacks[static_cast<size_t>(&t - g_threads.data())], live_on_own_stack);
  t.life = &work;
  go(&t.beyond, &life);
  t.life = nullptr;
  fence(std::memory_order_seq_cst);
}

struct Bell::State {
  bool is_rung = false;
  View view;
};

Bell::Bell() : state_(std::make_unique<State>()) {}
Bell::~Bell() = default;

void Bell::ring() {
  may_switch();
  may_die();
  state_->view.join(g_running->cur);
  state_->is_rung = true;
}

void Bell::wait() {
  may_switch();
  may_die();
  g_running->waits_for = &state_->is_rung;
  if (!state_->is_rung) must_switch();
  g_running->waits_for = nullptr;
  state_->is_rung = false;
  g_running->cur.join(state_->view);
  g_running->acq.join(state_->view);
}

void run(const std::vector<std::function<void()>>& threads) {
  ++g_executions;
  g_count = threads.size();
  if (g_count > kThreads) fail("too many threads");
  g_steps = 0;
  g_sc = View{};
  for (size_t i = 0; i < g_count; ++i) {
    Thread& t = g_threads[i];
    t.cur = t.acq = t.rel = t.sc = View{};
    t.work = &threads[i];
    t.waits_for = nullptr;
    t.life = nullptr;
    t.is_done = false;
    prepare(&t.place, &g_stacks[i], work);
  }
  resume(&g_threads[choices->any(g_count)]);
  g_running = nullptr;
  for (size_t offset : g_touched) g_place_of[offset] = 0;
  g_touched.clear();
  g_messages = 0;
}

}  // namespace model
