// Rows that are made up, each time the same, and the parts of the core that they pass through, for the programs whose
// instructions are counted. A workload does its work in counted().
#pragma once

#include <cstdio>
#include <functional>

#include "../tests/native/build.hpp"
#include "../tests/native/packets.hpp"
#include "binlog/ingest.hpp"
#include "queue/journal_frames.hpp"
#include "serve/serve.hpp"

namespace relay::bench {

using build::framed;
using build::little_endian;

constexpr uint32_t kMany = 50;            // rows of an event, in an event of many
constexpr uint64_t kSlots = 4096;         // of the ring
constexpr uint64_t kSegment = 256 << 20;  // as SegmentBytes
constexpr uint64_t kTable = 9;            // id in the binlog of the first table

[[gnu::noinline]] inline void counted(const std::function<void()>& work) { work(); }

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "instructions: %s\n", what.c_str());
  std::exit(1);
}

inline std::string big_endian(uint64_t v, unsigned n) {
  std::string out;
  while (n) out += static_cast<char>(v >> 8 * --n);
  return out;
}

// A number, or the length of what follows it.
inline std::string counted_by(uint64_t n) { return n < 251 ? little_endian(n, 1) : "\xfc" + little_endian(n, 2); }

// One column, what a TABLE_MAP tells of it, and its value in row n.
struct Field {
  build::ColumnSpec spec;
  std::string metadata;
  std::function<std::string(uint64_t)> value;
};

// Rows, in events of `per_event` rows, whose tables take turns.
struct Shape {
  std::vector<Field> columns;
  uint32_t per_event = 1;
  uint32_t rows = 2000;
  uint32_t tables = 1;

  std::string name(uint64_t table) const { return tables == 1 ? "orders" : "orders" + std::to_string(table); }
  uint64_t table_of(uint64_t row) const { return (row - 1) / per_event % tables; }

  std::string definition(uint64_t table = 0) const {
    std::vector<build::ColumnSpec> specs;
    for (const Field& each : columns) specs.push_back(each.spec);
    return build::packed(specs, name(table));
  }
  // From the number of columns on, as in an event of inserted rows.
  std::string body(uint64_t first) const {
    const std::string present(bytes_for(columns.size()), '\xff'), nulls(present.size(), '\0');
    std::string out = counted_by(columns.size()) + present;
    for (uint64_t n = first; n < first + per_event; ++n) {
      out += nulls;
      for (const Field& each : columns) out += each.value(n);
    }
    return out;
  }
  std::string table_map(uint64_t table) const {
    std::string types, metadata;
    for (const Field& each : columns) {
      types += static_cast<char>(each.spec.type);
      metadata += each.metadata;
    }
    return little_endian(kTable + table, 6) + little_endian(1, 2) + little_endian(4, 1) + std::string("shop\0", 5) +
           little_endian(name(table).size(), 1) + name(table) + '\0' + counted_by(columns.size()) + types +
           counted_by(metadata.size()) + metadata + std::string(bytes_for(columns.size()), '\0');
  }
  // A transaction for each event, as the binlog has them.
  std::string stream(uint64_t first_row, uint64_t count, uint64_t position = 200) const {
    std::string out;
    auto add = [&](uint8_t type, const std::string& body) {
      position += kEventHeader + body.size();
      out += framed(type, 0, position, body);
    };
    const std::string begin =
        little_endian(0, 8) + little_endian(4, 1) + little_endian(0, 4) + std::string("shop\0BEGIN", 10);
    for (uint64_t row = first_row; row < first_row + count; row += per_event) {
      const uint64_t table = table_of(row);
      add(kQueryEvent, begin);
      add(kTableMapEvent, table_map(table));
      add(kWriteRowsEvent, little_endian(kTable + table, 6) + little_endian(1, 2) + little_endian(2, 2) + body(row));
      add(kXidEvent, little_endian(row, 8));
    }
    return out;
  }

  void expect(uint64_t found) const {
    if (found != rows) fail(std::to_string(found) + " rows instead of " + std::to_string(rows));
  }
};

// A reader that gets the stream of a source, and its journal.
class StreamToJournal {
 public:
  StreamToJournal(const std::string& folder, const Shape& shape)
      : shape_(shape), writer_(folder, kSegment, 1), reader_(writer_, folder, {}, {}) {
    writer_.source(4, "binlog.000001", GtidSet(), "made up");
    reader_.start("binlog.000001", 4, false);
    feed(build::opening());
  }

  void feed(const std::string& stream) {
    for (Bytes rest(stream); rest.size;) {
      const PacketBuffer::Room room = reader_.room(1);
      const size_t n = std::min<size_t>(room.size, rest.size);
      std::memcpy(room.data, rest.data, n);
      rest = rest.from(n);
      reader_.received(n);
      for (Attention asked; reader_.step(&asked);) {
        if (asked.asks != Asks::table) fail("the stream asks a question: " + asked.statement + asked.message);
        const std::string definition = shape_.definition(asked.table_id - kTable);
        reader_.define(asked.table_id, Bytes(definition), Bytes(definition), {});
      }
    }
  }
  uint64_t rows() const { return writer_.sequence() - 1; }

 private:
  const Shape& shape_;
  JournalWriter writer_;
  Ingest reader_;
};

// A journal with the rows of a shape, one event a transaction. If the folder has a journal, they are at its end.
class Journal {
 public:
  Journal(const std::string& folder, const Shape& shape) : path(folder), shape_(shape), writer_(folder, kSegment, 1) {
    if (writer_.sequence() == 1) writer_.source(4, "binlog.000001", GtidSet(), "made up");
    begin = writer_.committed();
    for (uint64_t table = 0; table < shape.tables; ++table) {
      const std::string definition = shape.definition(table);
      tables_.push_back(writer_.define(Bytes(definition)));
    }
  }

  // Appends so many rows from this one on.
  void write(uint64_t first_row, uint64_t count) {
    for (uint64_t row = first_row; row < first_row + count; row += shape_.per_event) {
      const std::string body = shape_.body(row);
      writer_.rows(tables_[shape_.table_of(row)], RowKind::insert, 200 + row, build::kMoment, shape_.per_event,
                   Bytes(body));
      writer_.commit(200 + row, build::kMoment, *Gtid::parse("0-1-" + std::to_string(row)), 1);
    }
    end = writer_.flush();
  }

  const std::string path;
  uint64_t begin = 0, end = 0;

 private:
  const Shape& shape_;
  JournalWriter writer_;
  std::vector<JournalWriter::Handle> tables_;
};

// Clients by their filters. These want all rows.
using Clients = std::vector<std::vector<Filter>>;
inline Clients all_rows(uint32_t clients) {
  Filter filter;
  filter.schema = filter.table = "*";
  return Clients(clients, {filter});
}

// A broker and a server with clients.
class Relay {
 public:
  explicit Relay(const Journal& journal, const Clients& clients = all_rows(1))
      : memory_(Arena::size_for(static_cast<uint32_t>(clients.size()), kPage, 1, kSlots) / sizeof(Line) + 1),
        arena_(formatted(static_cast<uint32_t>(clients.size()))),
        frames_(journal.path),
        broker_(arena_, frames_, frames_.generation()),
        server_(arena_, journal.path, {}) {
    arena_.control().reader.committed.set(journal.begin);
    broker_.step(1);
    for (const std::vector<Filter>& filters : clients) {
      const auto id = static_cast<uint32_t>(handles_.size() + 1);
      const auto slot = static_cast<uint32_t>(broker_.add_client(id, "client " + std::to_string(id)));
      handles_.push_back({id, slot});
      broker_.set_filters(slot, filters);
      broker_.admit(slot);
    }
  }

  void decide(uint64_t end) {
    arena_.control().reader.committed.set(end);
    arena_.control().reader.flushed.set(end);
    while (broker_.position() < end) broker_.step(1 << 20);
  }
  uint64_t poll_all() {
    uint64_t rows = 0;
    Output out;
    std::string error;
    while (server_.poll(handles_[0], 2, out, &error) == Outcome::rows) {
      ++rows;
      out.clear();
    }
    return rows;
  }
  // The clients take turns. Returns the rows that each of them got since it exists.
  uint64_t poll_many(RowFormat format) {
    ManyRequest request;
    request.max_rows = 1000;
    request.format = format;
    request.confirmed = confirmed_;
    Output out;
    uint32_t sum;
    std::string error;
    do {
      confirmed_ = request.confirmed;
      for (ClientHandle& handle : handles_) {
        out.clear();
        if (server_.poll_many(handle, request, out, &sum, &error) != Outcome::rows) continue;
        request.confirmed = confirmed_ + load<uint32_t>(out.chars());
        server_.confirm(handle, request.confirmed);
      }
      broker_.step(1);
    } while (request.confirmed > confirmed_);
    return confirmed_;
  }
  uint64_t poll_columns() {
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
    return request.confirmed;
  }

 private:
  struct alignas(4096) Line {
    uint8_t bytes[4096];
  };
  Arena formatted(uint32_t clients) {
    const size_t size = memory_.size() * sizeof(Line);
    Arena::format(memory_.data(), clients, kPage, 1, kSlots);
    return {memory_.data(), size};
  }

  std::vector<Line> memory_;
  Arena arena_;
  JournalFrames frames_;
  Broker broker_;
  Server server_;
  std::vector<ClientHandle> handles_;
  uint64_t confirmed_ = 0;
};

}  // namespace relay::bench
