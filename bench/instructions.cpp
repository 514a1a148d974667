// Work of the native core on made-up rows, each time the same, whose instructions bench/instructions.py counts:
// instructions WORKLOAD FOLDER. Does the work in counted(), and prints the number of rows.
#include <cstdio>
#include <functional>
#include <map>

#include "../tests/native/build.hpp"
#include "../tests/native/packets.hpp"
#include "binlog/ingest.hpp"
#include "formats/lines.hpp"
#include "queue/journal_frames.hpp"
#include "serve/cdc.hpp"
#include "serve/serve.hpp"

using namespace relay;
using build::framed;
using build::little_endian;

namespace {

constexpr uint32_t kRows = 2000;
constexpr uint32_t kMany = 50;     // rows of an event, in an event of many
constexpr uint64_t kSlots = 4096;  // of the ring
constexpr uint64_t kSegment = 16 << 20;
constexpr uint64_t kTable = 9;  // id in the binlog

std::string big_endian(uint64_t v, unsigned n) {
  std::string out;
  while (n) out += static_cast<char>(v >> 8 * --n);
  return out;
}

// One column, what a TABLE_MAP tells of it, and its value in row n.
struct Field {
  build::ColumnSpec spec;
  std::string metadata;
  std::function<std::string(uint64_t)> value;
};

std::string words(uint64_t n, size_t repeats) {
  std::string text;
  for (size_t i = 0; i < repeats; ++i) text += "note " + std::to_string(n) + " ";
  return little_endian(text.size(), 1) + text;
}

std::string moment(uint64_t n) {
  const uint64_t date = ((2026 * 13 + 1 + n % 12) << 5) | (1 + n % 28);
  const uint64_t time = (n % 24) << 12 | (n % 60) << 6 | n * 7 % 60;
  return big_endian((date << 17 | time) + 0x8000000000, 5);
}

std::vector<Field> fields(size_t times) {
  std::vector<Field> all;
  for (size_t i = 0; i < times; ++i) {
    const std::string end = i ? std::to_string(i) : "";
    all.push_back({{"id" + end, kLongLong}, "", [](uint64_t n) { return little_endian(n * 1000003, 8); }});
    all.push_back({{"customer" + end, kLong}, "", [](uint64_t n) { return little_endian(n % 9973, 4); }});
    all.push_back({{"amount" + end, kNewDecimal, 10 << 8 | 2}, std::string("\x0a\x02"), [](uint64_t n) {
                     return big_endian(0x80000000 | n * 37, 4) + big_endian(n % 100, 1);
                   }});
    all.push_back({{"created" + end, kDatetime2}, std::string(1, '\0'), moment});
    all.push_back({{"note" + end, kVarchar, 128, false, "utf8mb4"}, little_endian(128, 2), [i](uint64_t n) {
                     return words(n, 1 + i);
                   }});
  }
  return all;
}

// A shape of rows: 5 or 20 columns, so many rows an event.
struct Shape {
  std::vector<Field> columns;
  uint32_t per_event;

  std::string definition() const {
    std::vector<build::ColumnSpec> specs;
    for (const Field& each : columns) specs.push_back(each.spec);
    return build::packed(specs);
  }
  // From the number of columns on, as in an event of inserted rows.
  std::string body(uint64_t first) const {
    const std::string present(bytes_for(columns.size()), '\xff'), nulls(present.size(), '\0');
    std::string out = little_endian(columns.size(), 1) + present;
    for (uint64_t n = first; n < first + per_event; ++n) {
      out += nulls;
      for (const Field& each : columns) out += each.value(n);
    }
    return out;
  }
  std::string table_map() const {
    std::string types, metadata;
    for (const Field& each : columns) {
      types += static_cast<char>(each.spec.type);
      metadata += each.metadata;
    }
    return little_endian(kTable, 6) + little_endian(1, 2) + little_endian(4, 1) + std::string("shop\0", 5) +
           little_endian(6, 1) + std::string("orders\0", 7) + little_endian(columns.size(), 1) + types +
           little_endian(metadata.size(), 1) + metadata + std::string(bytes_for(columns.size()), '\0');
  }
};

Shape narrow(uint32_t per_event) { return {fields(1), per_event}; }
Shape wide(uint32_t per_event) { return {fields(4), per_event}; }

std::string stream_of(const Shape& shape) {
  std::string out = build::opening();
  uint64_t position = 200;
  auto add = [&](uint8_t type, const std::string& body) {
    position += kEventHeader + body.size();
    out += framed(type, 0, position, body);
  };
  for (uint64_t first = 1; first <= kRows; first += shape.per_event) {
    add(kQueryEvent, little_endian(0, 8) + little_endian(4, 1) + little_endian(0, 4) + std::string("shop\0BEGIN", 10));
    add(kTableMapEvent, shape.table_map());
    add(kWriteRowsEvent, little_endian(kTable, 6) + little_endian(1, 2) + little_endian(2, 2) + shape.body(first));
    add(kXidEvent, little_endian(first, 8));
  }
  return out;
}

[[gnu::noinline]] void counted(const std::function<void()>& work) { work(); }

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "instructions: %s\n", what.c_str());
  std::exit(1);
}

void expect_rows(uint64_t rows) {
  if (rows != kRows) fail(std::to_string(rows) + " rows instead of " + std::to_string(kRows));
}

// A journal with the rows of a shape, one event a transaction.
class Journal {
 public:
  Journal(const std::string& folder, const Shape& shape) : path(folder), writer_(folder, kSegment, 1) {
    writer_.source(4, "binlog.000001", GtidSet(), "made up");
    begin = writer_.committed();
    const std::string definition = shape.definition();
    const JournalWriter::Handle table = writer_.define(Bytes(definition));
    for (uint64_t first = 1; first <= kRows; first += shape.per_event) {
      const std::string body = shape.body(first);
      writer_.rows(table, RowKind::insert, 200 + first, build::kMoment, shape.per_event, Bytes(body));
      writer_.commit(200 + first, build::kMoment, *Gtid::parse("0-1-" + std::to_string(first)), 1);
    }
    end = writer_.flush();
  }

  const std::string path;
  uint64_t begin, end;

 private:
  JournalWriter writer_;
};

// A broker and a server with clients, to each of whom all rows are due.
class Relay {
 public:
  explicit Relay(const Journal& journal, uint32_t clients = 1)
      : end_(journal.end),
        memory_(Arena::size_for(clients, Arena::kPage, 1, kSlots) / sizeof(Line) + 1),
        arena_(formatted(clients)),
        frames_(journal.path),
        broker_(arena_, frames_, frames_.generation()),
        server_(arena_, journal.path, {}) {
    arena_.control().reader.committed.set(journal.begin);
    broker_.step(1);
    Filter filter;
    filter.schema = "shop";
    filter.table = "orders";
    for (uint32_t id = 1; id <= clients; ++id) {
      const auto slot = static_cast<uint32_t>(broker_.add_client(id, "client " + std::to_string(id)));
      handles_.push_back({id, slot});
      broker_.set_filters(slot, {filter});
      broker_.admit(slot);
    }
    arena_.control().reader.committed.set(end_);
    arena_.control().reader.flushed.set(end_);
  }

  void decide() {
    while (broker_.position() < end_) broker_.step(1 << 20);
  }
  void poll_all() {
    uint64_t rows = 0;
    std::string out, error;
    while (server_.poll(handles_[0], 2, out, &error) == Outcome::rows) {
      ++rows;
      out.clear();
    }
    expect_rows(rows);
  }
  // The clients take turns.
  void poll_many(RowFormat format) {
    ManyRequest request;
    request.max_rows = 1000;
    request.format = format;
    std::string out, error;
    uint64_t before = 0;
    do {
      before = request.confirmed;
      for (ClientHandle& handle : handles_) {
        out.clear();
        if (server_.poll_many(handle, request, out, &error) != Outcome::rows) continue;
        request.confirmed = before + load<uint32_t>(out.data());
        server_.confirm(handle, request.confirmed);
      }
    } while (request.confirmed > before);
    expect_rows(request.confirmed);
  }
  void poll_columns() {
    ManyRequest request;
    request.max_rows = 1000;
    uint32_t rows = 0;
    std::string error;
    ColumnBatches batches;
    while (server_.poll_columns(handles_[0], request, batches, &rows, &error) == Outcome::rows) {
      request.confirmed += rows;
      server_.confirm(handles_[0], request.confirmed);
      batches.take();
    }
    expect_rows(request.confirmed);
  }

 private:
  struct alignas(4096) Line {
    uint8_t bytes[4096];
  };
  Arena formatted(uint32_t clients) {
    const size_t size = memory_.size() * sizeof(Line);
    Arena::format(memory_.data(), clients, Arena::kPage, 1, kSlots);
    return {memory_.data(), size};
  }

  uint64_t end_;
  std::vector<Line> memory_;
  Arena arena_;
  JournalFrames frames_;
  Broker broker_;
  Server server_;
  std::vector<ClientHandle> handles_;
};

void ingest(const Shape& shape, const std::string& folder) {
  JournalWriter writer(folder, kSegment, 1);
  writer.source(4, "binlog.000001", GtidSet(), "made up");
  Ingest reader(writer, folder, {}, {});
  const std::string stream = stream_of(shape), definition = shape.definition();
  reader.start("binlog.000001", 4, false);
  counted([&] {
    for (Bytes rest(stream); rest.size;) {
      const PacketBuffer::Room room = reader.room(1);
      const size_t n = std::min<size_t>(room.size, rest.size);
      std::memcpy(room.data, rest.data, n);
      rest = rest.from(n);
      reader.received(n);
      for (Attention asked; reader.step(&asked);) {
        if (asked.asks == Asks::table) {
          reader.define(asked.table_id, Bytes(definition), Bytes(definition), {});
        } else {
          fail("the stream asks a question: " + asked.statement + asked.message);
        }
      }
    }
  });
  expect_rows(writer.sequence() - 1);
}

void decide(const Shape& shape, const std::string& folder) {
  const Journal journal(folder, shape);
  Relay relay(journal);
  counted([&] { relay.decide(); });
  relay.poll_all();
}

template <typename Poll>
void poll(const Shape& shape, const std::string& folder, Poll use, uint32_t clients = 1) {
  const Journal journal(folder, shape);
  Relay relay(journal, clients);
  relay.decide();
  counted([&] { use(relay); });
}

void log_lines(const Shape& shape, const std::string& folder) {
  const Journal journal(folder, shape);
  LineReader reader(folder, 0, LineForm::csv, {}, false);
  counted([&] {
    for (;;) {
      const LinesReached reached = reader.read(journal.end, 1 << 20, INT64_MAX, INT64_MAX);
      reader.clear();
      if (reached.why == LinesReached::Why::end) break;
      if (reached.why == LinesReached::Why::table) reader.decide(true);
      if (reached.why == LinesReached::Why::offset) reader.set_offset(0, 0, INT64_MAX);
    }
  });
  expect_rows(reader.count());
}

void cdc_rows(const Shape& shape, const std::string& folder) {
  const Journal journal(folder, shape);
  JournalReader frames(folder);
  CdcReader reader(frames, 0, "shop", "orders", CdcForm::json, CdcValues::exact, {}, false);
  uint64_t rows = 0;
  counted([&] {
    for (;;) {
      const CdcReached reached = reader.read(journal.end, 1 << 20);
      rows += reader.rows();
      reader.clear();
      if (reached.why == CdcReached::Why::end) break;
      if (reached.why == CdcReached::Why::schema) {
        std::string error;
        reader.expect(cdc_fields(*Definition::parse(Bytes(reader.definition()), &error), CdcValues::exact));
      } else if (reached.why != CdcReached::Why::full && reached.why != CdcReached::Why::more) {
        fail("the rows of CDC end: " + reached.text);
      }
    }
  });
  expect_rows(rows);
}

using Work = std::function<void(const std::string&)>;

Work many(const Shape& shape, RowFormat format, uint32_t clients = 1) {
  return [=](const std::string& folder) {
    poll(shape, folder, [format](Relay& relay) { relay.poll_many(format); }, clients);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Work> workloads = {
      {"ingest-narrow", [](const std::string& folder) { ingest(narrow(kMany), folder); }},
      {"ingest-wide", [](const std::string& folder) { ingest(wide(kMany), folder); }},
      {"ingest-single", [](const std::string& folder) { ingest(narrow(1), folder); }},
      {"decide-single", [](const std::string& folder) { decide(narrow(1), folder); }},
      {"poll-single",
       [](const std::string& folder) { poll(narrow(1), folder, [](Relay& relay) { relay.poll_all(); }); }},
      {"text-narrow", many(narrow(kMany), RowFormat::text)},
      {"text-wide", many(wide(kMany), RowFormat::text)},
      {"msgpack-narrow", many(narrow(kMany), RowFormat::msgpack)},
      {"text-narrow-ten-clients", many(narrow(kMany), RowFormat::text, 10)},
      {"text-single-ten-clients", many(narrow(1), RowFormat::text, 10)},
      {"text-single", many(narrow(1), RowFormat::text)},
      {"columns-narrow",
       [](const std::string& folder) { poll(narrow(kMany), folder, [](Relay& relay) { relay.poll_columns(); }); }},
      {"log-narrow", [](const std::string& folder) { log_lines(narrow(kMany), folder); }},
      {"cdc-narrow", [](const std::string& folder) { cdc_rows(narrow(kMany), folder); }},
  };
  if (argc == 1) {
    for (const auto& each : workloads) std::printf("%s\n", each.first.c_str());
    return 0;
  }
  const auto found = workloads.find(argv[1]);
  if (argc != 3 || found == workloads.end()) fail("usage: instructions [WORKLOAD FOLDER]");
  try {
    found->second(argv[2]);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  std::printf("%u\n", kRows);
  return 0;
}
