// Payloads of journal frames, as a damaged file could hold them.
#include "../native/build.hpp"
#include "fuzz.hpp"
#include "journal/journal.hpp"

using namespace relay;
using build::bytes;

namespace {

void inside(Bytes part, const uint8_t* data, size_t size) {
  REQUIRE(part.size == 0 || (part.data >= data && part.data + part.size <= data + size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes payload(data, size);
  TableFrame table;
  if (TableFrame::parse(payload, &table)) inside(table.definition, data, size);
  RowsFrame rows;
  if (RowsFrame::parse(payload, &rows)) inside(rows.body, data, size);
  CommitFrame commit;
  if (CommitFrame::parse(payload, &commit)) inside(Bytes(commit.gtid), data, size);
  SourceFrame source;
  if (SourceFrame::parse(payload, &source)) inside(Bytes(source.identity), data, size);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string u64 = "cf 0000000000000010 ", u32 = "ce 00000001 ";
  return {
      bytes("93 01 " + u64 + "c6 00000003 'abc'"),
      bytes("98 02 " + u32 + u64 + u64 + u32 + u32 + u64 + "c6 00000003 'abc'"),
      bytes("95 03 " + u64 + u32 + u64 + "db 00000003 'abc'"),
      bytes("96 05 " + u64 + u64 + "db 00000001 'a' db 00000001 'b' db 00000001 'c'"),
  };
}
