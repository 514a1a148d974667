// Binlog streams into a journal. The first byte says how an input is read: even, as records (type, flags, position u16,
// length u16, body) that are framed as events without checksums; odd, as the bytes of the connection. Whatever comes,
// the journal stays whole.
#include "binlog/ingest.hpp"

#include <unistd.h>

#include <filesystem>

#include "../native/build.hpp"
#include "../native/packets.hpp"
#include "fuzz.hpp"
#include "tablemap.hpp"

using namespace relay;
using build::bytes;
using build::framed;
using build::little_endian;
using build::opening;

namespace {

constexpr size_t kSteps = 4000;
constexpr size_t kTableId = 6;  // bytes at the beginning of a TABLE_MAP
constexpr uint64_t kSegment = 1 << 16;
constexpr uint64_t kFirstReal =
    16;  // table id: these have the definition that their map tells, those below one of ours

std::string framed_records(Bytes input) {
  std::string stream = opening();
  Reader in(input);
  while (in.left()) {
    uint8_t type = in.u8(), flags = in.u8();
    uint16_t log_pos = in.u16(), length = in.u16();
    stream += framed(type, flags, log_pos, std::string(in.take(std::min<size_t>(length, in.left())).text()));
  }
  return stream;
}

// Stands for zlib and zstd: the data themselves, cut or filled to the size.
bool inflate(void*, Algorithm, Bytes data, uint64_t size, std::string* out) {
  if (size > kSegment) return false;
  *out = data.text();
  out->resize(size);
  return true;
}

std::string parts;

bool inflate_begin(void*, Bytes data, uint64_t size) { return inflate(nullptr, Algorithm::zstd, data, size, &parts); }

bool inflate_next(void*, std::string* out) {
  size_t part = std::min<size_t>(parts.size(), 100);
  out->append(parts, 0, part);
  parts.erase(0, part);
  return true;
}

// What was asked before.
struct Earlier {
  std::vector<JournalWriter::Handle> waiting;
  std::string map, definition;  // of a table
};

void answer(Ingest& ingest, JournalWriter& writer, const Attention& asked, Earlier* earlier) {
  static const std::string one = build::packed({{"a", kLong}});
  static const std::string two = build::packed({{"a", kLong}, {"b", kVarchar, 20, false, "utf8mb4"}});
  const std::string& definition = asked.body.size() % 2 ? two : one;
  std::string own;
  switch (asked.asks) {
    case Asks::table:
      if (asked.table_id >= kFirstReal) own = defined_by(Bytes(asked.body));
      if (!own.empty()) {
        earlier->map = asked.body.substr(kTableId);
        earlier->definition = own;
        ingest.define(asked.table_id, Bytes(own), Bytes(own), {});
      } else if (asked.table_id % 8 == 7) {
        ingest.exclude(asked.table_id);
      } else if (asked.table_id % 8 == 6) {
        earlier->waiting.push_back(ingest.pending(asked.table_id, Bytes(definition), Bytes(definition), {}));
      } else if (asked.table_id % 8 == 4) {
        ingest.define(asked.table_id, Bytes(two), Bytes(one), {true, false});
      } else {
        ingest.define(asked.table_id, Bytes(definition), Bytes(definition), {});
      }
      break;
    case Asks::query:
      if (asked.statement.size() % 3 == 0) ingest.new_epoch();
      if (asked.statement.size() % 5 == 0) {
        for (auto handle : earlier->waiting) writer.resolve(handle, asked.statement.size() % 2 ? Bytes(one) : Bytes());
        earlier->waiting.clear();
      }
      if (asked.statement.size() % 7 == 0 && !earlier->map.empty())
        ingest.expect(Bytes(earlier->map), Bytes(earlier->definition), Bytes(earlier->definition), {});
      if (asked.statement.size() % 2)
        ingest.ddl(asked.statement, "dialect", "tables");
      else
        ingest.skip();
      break;
    case Asks::partial:
      if (asked.table_id % 2)
        ingest.accept_partial(asked.table_id);
      else
        ingest.skip();
      break;
    default: ingest.skip();
  }
}

void feed(Ingest& ingest, JournalWriter& writer, Bytes stream, size_t chunk) {
  Earlier earlier;
  size_t steps = 0;
  while (stream.size) {
    PacketBuffer::Room room = ingest.room(1);
    size_t n = std::min({room.size, chunk, stream.size});
    std::memcpy(room.data, stream.data, n);
    stream = stream.from(n);
    ingest.received(n);
    Attention asked;
    while (ingest.step(&asked)) {
      if (asked.asks == Asks::error || asked.asks == Asks::end || ++steps > kSteps) return;
      answer(ingest, writer, asked, &earlier);
    }
  }
}

// Every committed frame can be read; rows fit the definition that they name; rows and statements are numbered without a
// gap.
void check(const std::string& directory, const JournalWriter& writer) {
  JournalReader reader(directory);
  uint64_t sequence = 1;
  for (uint64_t at = writer.first(); at < writer.committed();) {
    FrameView view = reader.frame(at, true);
    at = view.next;
    if (view.kind() == FrameKind::ddl) ++sequence;
    if (view.kind() != FrameKind::rows) continue;
    RowsFrame rows;
    RowsBody body;
    REQUIRE(RowsFrame::parse(view.payload, &rows) && RowsBody::parse(rows.body, rows.kind, &body));
    Walk walk = walk_rows(*reader.definition(rows.table), body);
    REQUIRE(walk.ok && walk.rows == rows.rows && rows.sequence == sequence);
    sequence += rows.rows;
  }
  REQUIRE(sequence <= writer.state().sequence);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Folder folder;
  std::string stream =
      data[0] % 2 ? std::string(Bytes(data + 2, size - 2).text()) : framed_records(Bytes(data + 2, size - 2));
  JournalState state;
  {
    JournalWriter writer(folder.path, kSegment);
    writer.source(4, "binlog.000001", GtidSet(), "fuzz");
    IngestLimits limits;
    limits.event_bytes = 1 << 20;
    limits.whole_bytes = 100;
    limits.prepared_bytes = 1 << 12;
    Ingest ingest(writer, folder.path, limits, Inflate{inflate, inflate_begin, inflate_next, nullptr});
    ingest.start("binlog.000001", 4, false);
    try {
      feed(ingest, writer, Bytes(stream), data[1] ? data[1] : size_t{1} << 20);
    } catch (const StreamError&) {
    } catch (const JournalError& error) {
      REQUIRE(error.code == "disk_full");
    }
    check(folder.path, writer);
    state = writer.state();
  }
  JournalWriter again(folder.path, kSegment);
  check(folder.path, again);
  REQUIRE(again.state().sequence <= state.sequence);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  auto record = [](uint8_t type, uint16_t log_pos, const std::string& body) {
    return little_endian(type, 1) + little_endian(0, 1) + little_endian(log_pos, 2) + little_endian(body.size(), 2) +
           body;
  };
  auto query = [&](uint16_t log_pos, const std::string& text) {
    return record(kQueryEvent, log_pos,
                  little_endian(1, 8) + little_endian(4, 1) + little_endian(0, 2) + little_endian(0, 2) +
                      bytes("'test' 00") + text);
  };
  auto map = [&](uint8_t id) {
    return record(kTableMapEvent, 0, little_endian(id, 6) + bytes("0100 04 'test' 00 01 't' 00 01 03 00 01"));
  };
  auto rows = [&](uint8_t type, uint8_t id, const std::string& images) {
    return record(type, 0,
                  little_endian(id, 6) + bytes("0100") +
                      (type >= kWriteRowsEvent && type <= kDeleteRowsEvent ? bytes("0200") : "") + bytes("01 ff") +
                      (type == kUpdateRowsEvent ? bytes("ff") : "") + images);
  };
  const std::string row = bytes("00 01000000"), xid = record(kXidEvent, 0, little_endian(1, 8)), mode = bytes("00 00");
  const std::string mysql =
      record(kGtidEvent, 0, bytes("00") + std::string(16, 'u') + little_endian(5, 8) + std::string(17, '\0'));
  const std::string mariadb =
      record(kMariadbGtidEvent, 0, little_endian(9, 8) + little_endian(0, 4) + bytes("00") + std::string(6, '\0'));
  const std::string prepares =
      record(kMariadbGtidEvent, 0, little_endian(10, 8) + little_endian(0, 4) + bytes("40 01000000 01 00 'a'"));
  const std::string prepared = record(kXaPrepareEvent, 0, bytes("00 01000000 01000000 00000000 'a'"));
  const std::string inner = framed(kQueryEvent, 0, 0,
                                   little_endian(1, 8) + little_endian(0, 1) + little_endian(0, 2) +
                                       little_endian(0, 2) + bytes("00 'BEGIN'"))
                                .substr(5);
  const std::string payload = bytes("02 01 00") + bytes("03 01") + little_endian(inner.size(), 1) + bytes("01 01") +
                              little_endian(inner.size(), 1) + bytes("00");
  std::string seed = mode + mysql + query(100, "BEGIN") + map(1) + rows(kWriteRowsEvent, 1, row + row) + xid;
  return {
      seed,
      mode + mysql + query(0, "BEGIN") + map(4) + rows(kUpdateRowsEvent, 4, row + row) +
          rows(kDeleteRowsV1Event, 4, row) + xid,
      mode + mariadb + map(6) + rows(kWriteRowsV1Event, 6, row) + xid + query(0, "ALTER TABLE t ADD b INT") + mariadb +
          xid,
      mode + prepares + map(2) + rows(kWriteRowsV1Event, 2, row) + prepared + mariadb +
          query(0, "XA COMMIT X'61',X'',1"),
      mode + mysql + query(0, "XA START X'61',X'',1") + map(2) + rows(kWriteRowsEvent, 2, row) +
          query(0, "XA END X'61',X'',1") + prepared + query(0, "XA ROLLBACK X'61',X'',1"),
      mode + mariadb + map(1) + rows(kWriteRowsCompressedV1Event, 1, bytes("81 05") + row) + xid,
      mode + record(kTransactionPayloadEvent, 0, payload + inner) +
          record(kRotateEvent, 0, little_endian(4, 8) + "binlog.000002"),
      mode +
          record(kTaggedGtidEvent, 0, bytes("02 3a 00 00 00 02 ") + std::string(16, '\2') + bytes("04 14 06 04 'ab'")) +
          query(0, "COMMIT"),
      bytes("01 03") + opening() + framed(kHeartbeatEvent, 0, 0, "binlog.000001") +
          bytes("09000001 ff d404 '#HY000' 'no'"),
  };
}
