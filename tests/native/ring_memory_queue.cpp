// Readers of what another process writes over again and again.
#include <array>
#include <new>

#include "base/text_page.hpp"
#include "journal/watermarks.hpp"
#include "ring_scene.hpp"

namespace ring_memory {

namespace {

struct Pair {
  uint64_t a, b;
};

template <typename Read>
void publish_and(Read read) {
  auto& record = model::shared<DoubleBuffered<Pair>>();
  model::run({[&] {
                for (uint64_t n = 1; n <= 3; ++n) record.publish({n, n});
              },
              [&] { read(record); }});
}

void read_records() {
  publish_and([](const DoubleBuffered<Pair>& record) {
    uint64_t version = 0;
    const Pair p = record.read(&version);
    if (p.a != p.b || p.a != version) fail("a record is half of another one");
  });
}

void read_words() {
  publish_and([](const DoubleBuffered<Pair>& record) {
    const auto [a, b] = record.words<2>(0);
    if (a != b) fail("words are of two records");
  });
}

// The ring is filled more than once while the server takes rows.
void deliver() {
  Scene s;
  model::run({[&] {
                for (int i = 0; i < 7; ++i) s.decide(1);
              },
              [&] {
                for (uint64_t most : {3, 1, 8, 2, 8}) s.server().confirm(s.take(most));
              }});
  s.drain();
}

// Slots are written again because a limit or a person dropped their rows, while a server looks at them.
void drop() {
  Scene s(3 * kRows);
  s.decide(3);
  model::run({[&] {
                for (int i = 0; i < 2; ++i) s.decide(2);  // two in a batch: the second needs the floor of the first
                s.broker->flush(0);
                for (int i = 0; i < 3; ++i) s.decide(1);
              },
              [&] {
                for (uint64_t most : {8, 1, 8, 8}) s.server().confirm(s.take(most));
              }});
  s.drain();
}

// A slot is given up and written again while a server looks at it.
void lose_slot() {
  Scene s;
  s.decide(kSlots);
  model::run({[&] {
                s.broker->flush(0);
                s.decide(1);
              },
              [&] { s.take(UINT64_MAX); }});
  s.drain();
}

// Every other frame is limited, and may be dropped although kept ones wait before it.
void drop_between() {
  Scene s(kRows, 2);
  std::vector<Range> taken;
  auto take = [&] {
    QueueServer q = s.server();
    Range ranges[kSlots];
    const Peek p = q.peek(ranges, kSlots, UINT64_MAX);
    if (!p.rows) return;
    q.publish(p, ranges, p.ranges, p.rows, true);
    taken.insert(taken.end(), ranges, ranges + p.ranges);
  };
  model::run({[&] {
                for (int i = 0; i < 4; ++i) s.decide(2);
              },
              [&] {
                for (int i = 0; i < 3; ++i) take();
              }});
  while (s.server().view().waiting()) {
    s.broker->step(kStride);
    take();
  }
  uint64_t kept = kStart;
  uint64_t next = kStart;
  for (const Range& r : taken) {
    if (r.frame < next || r.first || r.rows != kRows) fail("rows are other ones");
    next = r.frame + kStride;
    if (s.journal.frame(r.frame).table == 2) continue;
    if (r.frame != kept) fail("kept rows are left out");
    kept += 2 * kStride;
  }
  if (kept != s.committed().get()) fail("kept rows are missing");
}

// A server that takes rows in flight by turns with the broker's looks at them. What it is to take it has peeked before.
template <typename Look, typename Confirm>
void take_while(Scene& s, Look look, Confirm confirm) {
  s.decide(4);
  s.server().confirm(s.take(1));
  s.take(3);
  Range ranges[kSlots];
  const Peek peek = s.server().peek(ranges, kSlots, 3);
  model::run({[&] {
                for (int i = 0; i < 2; ++i) look();
              },
              [&] {
                confirm(s.next - 1);
                confirm(s.next);
                s.server().publish(peek, ranges, peek.ranges, peek.rows);
                confirm(peek.number + peek.rows);
              }});
}

void checkpoint() {
  Scene s;
  auto look = [&] {
    const Checkpoint c = s.broker->checkpoint(0);
    s.check(c.server.lo, c.in_flight.data(), c.in_flight.size());
    uint64_t rows = 0;
    for (const Range& r : c.in_flight) rows += r.rows;
    if (rows != c.server.hi - c.server.lo) fail("a checkpoint has other rows in flight");
  };
  take_while(s, look, [&](uint64_t to) { s.server().confirm(to); });
}

// Frames of which a row is in flight or waits are kept.
void keep() {
  Scene s;
  uint64_t confirmed = 0;
  auto look = [&] {
    const uint64_t needed = s.broker->needed(0);
    if (needed > frame_of(confirmed)) fail("a frame is given up although a row of it was not confirmed");
  };
  take_while(s, look, [&](uint64_t to) {
    confirmed = to;  // before the store: what the broker sees of it may be used from then on
    s.server().confirm(to);
  });
}

// The books balance at each instant.
void view() {
  Scene s(3 * kRows);
  model::run({[&] {
                for (int i = 0; i < 6; ++i) s.decide(1);
                s.broker->flush(0);
              },
              [&] {
                for (uint64_t most : {3, 8, 8}) s.server().confirm(s.take(most));
              },
              [&] {
                for (int i = 0; i < 2; ++i) {
                  const ClientView v = s.arena.view(0);
                  const FloorDrops d = FloorDrops::between(v.server.taken(), v.broker);
                  const uint64_t dropped = v.server.dropped_limit + v.server.dropped_flush + d.limit + d.flush;
                  if (v.head() > v.broker.queued.total()) fail("more rows were handed out than queued");
                  if (v.broker.matched() != v.server.confirmed + v.in_flight() + v.waiting() + dropped) {
                    fail("the books do not balance");
                  }
                }
              }});
}

// A drain is done when all frames are decided and no rows wait.
void drain_queue() {
  constexpr uint64_t kFrames = 2;
  Scene s;
  s.commit(kFrames);
  model::run({[&] {
                for (uint64_t i = 0; i < kFrames; ++i) s.broker->step(kStride);
              },
              [&] {
                const bool is_decided = s.arena.control().broker.scan.get() == kStart + kFrames * kStride;
                if (is_decided && s.arena.view(0).waiting() != kFrames * kRows) fail("a drain overlooks rows");
              }});
}

// Somebody reads a status page while its writer shows other texts.
void read_page() {
  constexpr size_t kCapacity = 24;
  std::fill_n(model::memory(), TextPage::size_for(kCapacity), uint8_t{0});
  TextPage page(model::memory(), kCapacity);
  model::run({[&] {
                for (size_t n = 1; n <= 3; ++n) page.write(std::string(6 * n, static_cast<char>('0' + n)));
              },
              [&] {
                size_t shown = 0;
                for (int i = 0; i < 2; ++i) {
                  const std::string text = page.read();
                  const size_t n = text.size() / 6;
                  if (text != std::string(6 * n, static_cast<char>('0' + n))) fail("a text is half of another one");
                  if (n < shown) fail("a text is older than the one before it");
                  shown = n;
                }
              }});
}

// The reader appends, its maintenance thread flushes, and others read up to what is committed or flushed.
void read_journal() {
  auto* frames = &model::shared<std::array<Word, 8>>()[0];
  Word& segments = frames[4];
  Word& committed = frames[5];
  Word& flushed = frames[6];
  Watermarks& marks = *new (model::memory() + 4096) Watermarks();
  constexpr uint64_t kFrames = 3;
  auto read = [&](const Word& mark) {
    const uint64_t end = mark.get();
    for (uint64_t i = 0; i < end; ++i) {
      if (frames[i].relaxed() != i + 1) fail("a frame is read that is not there yet");
    }
  };
  model::run({[&] {
                for (uint64_t i = 0; i < kFrames; ++i) {
                  if (i == 1) marks.show(&committed);  // as a reader that has found frames
                  segments.put(i + 1);
                  frames[i].put(i + 1);
                  marks.commit(i + 1);
                }
              },
              [&] {
                const uint64_t end = marks.committed();
                if (segments.relaxed() < end) fail("a segment is not flushed");
                marks.flush(end);
                flushed.set(end);
              },
              [&] { read(committed); }, [&] { read(flushed); }});
}

Delivery delivery(uint64_t n) { return {n, n + 1, static_cast<uint32_t>(n + 2), static_cast<uint32_t>(n + 3)}; }

// Deliveries overtake somebody who looks at the last ones.
void deliveries() {
  auto& ring = model::shared<Deliveries>();
  for (uint64_t n = 0; n < 12; ++n) ring.add(delivery(n));
  model::run({[&] {
                for (uint64_t n = 12; n < 22; ++n) ring.add(delivery(n));
              },
              [&] {
                Delivery last[Deliveries::kShown];
                const size_t count = ring.last(last);
                if (count != Deliveries::kShown) fail("a delivery is missing");
                for (size_t i = 0; i < count; ++i) {
                  const Delivery right = delivery(last[0].at + i);
                  const Delivery& d = last[i];
                  if (d.at != right.at || d.frame != right.frame || d.kind != right.kind || d.rows != right.rows) {
                    fail("a delivery is not the one that was written");
                  }
                }
              }});
}

}  // namespace

std::vector<Scenario> queue_scenarios() {
  return {{"a record is read", read_records, {3, 3}},
          {"words of a record are read", read_words, {3, 3}},
          {"a status page is read", read_page, {2, 2}},
          {"the journal is read", read_journal, {1, 1}},
          {"rows are handed out", deliver},
          {"rows are dropped", drop},
          {"rows are dropped between others", drop_between},
          {"a slot is lost", lose_slot},
          {"a checkpoint is taken", checkpoint},
          {"retention asks what is needed", keep},
          {"somebody looks at a queue", view},
          {"a queue is drained", drain_queue, {1, 2}},
          {"somebody looks at deliveries", deliveries}};
}

}  // namespace ring_memory
