// A binlog stream, as a hostile or broken source could send it: the journal holds only rows that can be decoded, and the
// same however the bytes were cut. Input: flags (1 checksums of events are made right, 2 tables are left out, 4 statements
// are not recorded), then packets as they come over the connection.
#include "ingest.hpp"

#include <unistd.h>

#include <filesystem>

#include "../native/build.hpp"
#include "crc.hpp"
#include "fuzz.hpp"

using namespace relay;

namespace {

constexpr size_t kPacketHead = 4;

// The table of the seeds (record.py): others do not fit it, and are refused.
const std::vector<build::ColumnSpec> kTable = {
    {"a", kLong}, {"b", kVarchar, 80, false, "utf8mb4"}, {"c", kBlob, 2, false, "binary"}};

void mend(std::string& s) {
  for (size_t at = 0; s.size() - at > kPacketHead;) {
    const size_t size = load<uint32_t>(&s[at]) & 0xffffff;
    if (size > s.size() - at - kPacketHead) return;
    if (size > 1 + kEventHeader + kEventChecksum && s[at + kPacketHead] == 0) {
      char* event = &s[at + kPacketHead + 1];
      const auto length = static_cast<uint32_t>(size - 1);
      store(event + 9, length);
      store(event + length - kEventChecksum, crc32(Bytes(event, length - kEventChecksum)));
    }
    at += kPacketHead + size;
  }
}

bool stored(void*, Algorithm, Bytes data, uint64_t size, std::string* out) {
  *out = std::string(data.text().substr(0, size));
  return data.size == size;
}

std::string folder() {
  return "/dev/shm/relay-fuzz-" + std::to_string(getpid());
}

// Feeds everything; what was committed, payload by payload.
std::string ingest(uint8_t flags, const std::string& input, size_t piece) {
  std::filesystem::remove_all(folder());
  JournalWriter writer(folder(), 1 << 16, 1);
  writer.source(4, "binlog.000001", GtidSet(), "fuzz");
  static const std::string kPacked = build::packed(kTable);
  const Bytes definition{kPacked};
  IngestLimits limits;
  limits.event_bytes = 1 << 20;
  limits.prepared_bytes = 1 << 16;
  Inflate inflate;
  inflate.call = stored;
  try {
    Ingest machine(writer, folder(), limits, inflate);
    machine.start("binlog.000001", 4, false);
    for (size_t at = 0; at < input.size();) {
      const PacketBuffer::Room room = machine.room(1);
      const size_t n = std::min({piece, room.size, input.size() - at});
      std::memcpy(room.data, input.data() + at, n);
      machine.received(n);
      at += n;
      Attention asked;
      while (machine.step(&asked)) {
        if (asked.asks == Asks::end || asked.asks == Asks::error) {
          at = input.size();
          break;
        }
        if (asked.asks == Asks::query) machine.ddl(!(flags & 4));
        if (asked.asks == Asks::partial) machine.accept_partial(asked.table_id);
        if (asked.asks == Asks::unknown) machine.skip();
        if (asked.asks != Asks::table) continue;
        if (flags & 2) {
          machine.exclude(asked.table_id);
        } else {
          machine.define(asked.table_id, definition, definition, {});
        }
      }
    }
  } catch (const StreamError&) {
  } catch (const JournalError&) {
  }
  std::string committed;
  JournalReader reader(folder());
  for (uint64_t at = reader.first(); at < writer.committed();) {
    const FrameView frame = reader.frame(at, true);
    committed += frame.payload.text();
    RowsFrame rows;
    RowsBody body;
    if (frame.kind() == FrameKind::rows) {
      REQUIRE(RowsFrame::parse(frame.payload, &rows));
      REQUIRE(RowsBody::parse(rows.body, rows.kind, &body));
      const Walk walk = walk_rows(*reader.definition(rows.table), rows.kind, body);
      REQUIRE(walk.ok && walk.rows == rows.rows);
    }
    at = frame.next;
  }
  return committed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] & 1) mend(input);
  REQUIRE(ingest(data[0], input, input.size() + 1) == ingest(data[0], input, 7));
  std::filesystem::remove_all(folder());
  return 0;
}

std::vector<std::string> fuzz_seeds() { return {std::string(1, '\1')}; }
