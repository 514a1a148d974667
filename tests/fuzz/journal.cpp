// Journals whose last segment goes on with anything: they are refused with a reason, or recovered to what can be read
// from end to end. Input: frames, each as a byte (bit 0: its checksum is wrong), a u16 length and the payload; a byte of
// kNotes begins the notes of prepared transactions, which reach to the end of the input.
#include "journal/journal.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../native/build.hpp"
#include "serve/cdc.hpp"
#include "serve/cdc_scan.hpp"
#include "formats/changes.hpp"
#include "base/crc.hpp"
#include "base/failure.hpp"
#include "fuzz.hpp"
#include "binlog/prepared.hpp"

using namespace relay;

namespace {

constexpr uint64_t kSegment = 1 << 16;
constexpr uint8_t kNotes = 0xff;
constexpr uint64_t kPiece = 4096;

struct Folder {
  std::string path = "/dev/shm/fuzz-journal." + std::to_string(getpid());
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

uint64_t begun(const std::string& path) {
  JournalWriter writer(path, kSegment, 1);
  writer.source(4, "binlog.000001", GtidSet(), "fuzz");
  writer.commit(100, 1, Gtid(), 1);
  return writer.end();
}

// Puts the frames of the input behind those of the segment, as far as there is room.
void go_on(const std::string& path, uint64_t at, Reader& in) {
  auto segment = Mapping::open(path, 0, true);
  while (in.left()) {
    const uint8_t how = in.u8();
    if (how == kNotes) return;
    const uint16_t length = in.u16();
    const Bytes payload = in.take(std::min<size_t>(length, in.left()));
    if (frame_size(payload.size) + sizeof(uint64_t) > segment->end() - at) return;
    std::memcpy(segment->at(at) + kFrameHeader, payload.data, payload.size);
    store(segment->at(at), static_cast<uint32_t>(payload.size));
    store(segment->at(at) + sizeof(uint32_t), crc32c(payload) ^ (how & 1));
    at += frame_size(payload.size);
  }
}

void read_all(const std::string& path, const JournalWriter& writer) {
  JournalReader reader(path);
  for (uint64_t at = writer.first(); at < writer.committed();) {
    const FrameView view = reader.frame(at, true);
    REQUIRE(view.next > at && view.next <= writer.committed());
    at = view.next;
    RowsFrame rows;
    if (view.kind() == FrameKind::rows && RowsFrame::parse(view.payload, &rows)) reader.definition(rows.table);
  }
}

// As columns, piece by piece: to the end, or to an error.
void read_changes(const std::string& path, uint64_t until) {
  ChangeReader reader(path, 0, 0, Form::lake, false);
  for (Reached reached; reached.why != Reached::Why::end || reader.position() < until;) {
    const uint64_t before = reader.seq();
    reached = reader.read(until, kPiece);
    uint64_t rows = 0;
    for (const ChangeBatch& batch : reader.take()) {
      REQUIRE(batch.first <= batch.last && batch.last <= reader.seq());
      rows += batch.columns->rows();
    }
    REQUIRE(reached.why != Reached::Why::full || rows > 0);
    REQUIRE(reader.seq() >= before || reached.why != Reached::Why::full);
    REQUIRE(reader.position() <= until);
    if (reached.why == Reached::Why::end) return;
  }
}

// As rows for a CDC client up to `until`, in pieces of so many bytes; everything that it got.
std::string read_cdc(const std::string& path, uint64_t until, CdcForm form, uint64_t piece) {
  JournalReader journal(path);
  CdcReader reader(journal, 0, "shop", "orders", form, CdcValues::exact, RenderOptions(), false);
  std::string got;
  for (CdcReached reached;;) {
    const uint64_t before = reader.position();
    reached = reader.read(until, piece);
    REQUIRE(reader.position() >= before && reader.position() <= until);
    REQUIRE((reader.rows() > 0) == (reader.size() > 0));
    got += std::string_view(reader.bytes(), reader.size());
    reader.clear();
    switch (reached.why) {
      case CdcReached::Why::end: case CdcReached::Why::no_gtid: return got;
      case CdcReached::Why::domain: reader.set_domain(1); break;
      case CdcReached::Why::schema: got += reader.definition(); break;
      default: break;
    }
  }
}

// What the CDC service knows of it, in one step or in many.
void scan(const std::string& path, uint64_t until) {
  JournalReader journal(path);
  CdcScan whole(journal, 0), stepping(journal, 0);
  REQUIRE(whole.read(until, ~uint64_t{0}));
  while (!stepping.read(until, 1)) {
  }
  REQUIRE(whole.position() == stepping.position() && whole.position() <= until);
  REQUIRE(whole.last().images == stepping.last().images && whole.last().tables == stepping.last().tables);
  REQUIRE(whole.definitions().size() == stepping.definitions().size());
  REQUIRE(whole.statements().size() == stepping.statements().size());
}

// The same to the end or to the same error, whatever the pace.
void read_cdc(const std::string& path, uint64_t until) {
  scan(path, until);
  for (const CdcForm form : {CdcForm::json, CdcForm::avro}) {
    const std::string whole = read_cdc(path, until, form, ~uint64_t{0});
    REQUIRE(read_cdc(path, until, form, 1) == whole);
  }
}

template <typename Read>
void try_to_read(Read read) {
  try {
    read();
  } catch (const StreamError& error) {
    REQUIRE(!error.code.empty());
  } catch (const JournalError& error) {
    REQUIRE(!error.code.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Folder folder;
  Reader in(Bytes(data, size));
  go_on(folder.path, begun(folder.path), in);
  std::ofstream(folder.path + "/prepared") << in.rest().text();
  try {
    JournalWriter writer(folder.path, kSegment);
    const uint64_t until = writer.flush();
    try_to_read([&] { read_all(folder.path, writer); });
    try_to_read([&] { read_changes(folder.path, until); });
    try_to_read([&] { read_cdc(folder.path, until); });
    writer.commit(1000, 2, Gtid(), 1);
  } catch (const JournalError& error) {
    REQUIRE(!error.code.empty());
  }
  try {
    PreparedLog log(folder.path, 50);
    log.add({"x'61',x'',1", "binlog.000001", 4, ""}, 50);
    const size_t prepared = log.prepared().size();
    log.finish("x'61',x'',1", 100, 50);
    REQUIRE(log.prepared().size() + 1 == prepared);
    REQUIRE(PreparedLog(folder.path, 100).prepared().size() + 1 == prepared);
    log.add({"x'61',x'',1", "binlog.000001", 8, ""}, 50);
    REQUIRE(PreparedLog(folder.path, 99).prepared().size() == prepared + 1);
  } catch (const JournalError& error) {
    REQUIRE(error.code == "journal_corrupt");
  }
  return 0;
}

// What a writer appends, in parts of it.
std::vector<std::string> fuzz_seeds() {
  Folder folder;
  const std::string definition = build::packed({{"a", kLong}});
  const std::string body = build::bytes("01 ff 00 01000000 00 02000000");
  const uint64_t start = begun(folder.path);
  JournalWriter writer(folder.path, kSegment);
  const auto table = writer.define(Bytes(definition));
  writer.rows(table, RowKind::insert, 200, 1, 2, Bytes(body));
  writer.commit(300, 1, *Gtid::parse("0-1-1"), 1);
  writer.ddl(400, 1, "shop", "ALTER TABLE orders ADD b INT", Bytes(), Bytes());
  writer.rows(table, RowKind::update, 400, 1, 1, Bytes(build::bytes("01 ff ff 00 01000000 00 02000000")));
  writer.commit(400, 1, *Gtid::parse("0e9cc2d6-9af3-11ee-a9a5-0242ac110002:7"), 3000000000);
  writer.file(4, "binlog.000002");
  writer.gap(500, "binlog.000002", "lost");
  std::string all, transaction;
  JournalReader reader(folder.path);
  for (uint64_t at = start; at < writer.committed();) {
    const FrameView view = reader.frame(at, true);
    at = view.next;
    const auto length = static_cast<uint16_t>(view.payload.size);
    all += '\0' + std::string(reinterpret_cast<const char*>(&length), sizeof length) + std::string(view.payload.text());
    if (transaction.empty() && view.kind() == FrameKind::commit) transaction = all;
  }
  return {all, transaction, all + '\xff' + "x'61',x'62',1\tbinlog.000001\t4\t0-1-2\n"};
}
