// Journals whose last segments go on with anything: they are refused with a reason, or recovered to what can be read
// from end to end. The notes of prepared transactions stand behind the frames of the input.
#include "journal/journal.hpp"

#include <fstream>

#include "binlog/prepared.hpp"
#include "journals.hpp"

using namespace relay;
using namespace relay::journals;

namespace {

void read_all(const std::string& path, const JournalWriter& writer) {
  JournalReader reader(path);
  for (uint64_t at = writer.first(); at < writer.committed();) {
    const FrameView view = reader.frame(at, true);
    REQUIRE(view.next > at && view.next <= writer.committed());
    at = view.next;
    if (view.kind() == FrameKind::rows) reader.definition(parsed<RowsFrame>(view).table);
  }
}

void locate(const std::string& path, const JournalWriter& writer) {
  JournalReader reader(path);
  for (const uint64_t position : {100, 400, 5000})
    REQUIRE(reader.locate("binlog.000001", position, writer.committed()) <= writer.committed());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Folder folder;
  Reader in(Bytes(data, size));
  append(folder.path, begun(folder.path), in);
  std::ofstream(folder.path + "/prepared") << in.rest().text();
  try {
    JournalWriter writer(folder.path, kSegment);
    writer.flush();
    expect_named([&] { read_all(folder.path, writer); });
    expect_named([&] { locate(folder.path, writer); });
    writer.commit(1000, 2, Gtid(), 1);
  } catch (const JournalError& error) {
    REQUIRE(error.code == "journal_corrupt");
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

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> made = seeds();
  made.push_back(made[0] + '\xff' + "x'61',x'62',1\tbinlog.000001\t4\t0-1-2\n");
  return made;
}
