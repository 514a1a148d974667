// The journal as a CDC process reads it: its scan, and the rows of a table for clients, to the end or to a named failure.
#include "serve/cdc.hpp"
#include "serve/cdc_scan.hpp"
#include "journals.hpp"

using namespace relay;
using namespace relay::journals;

namespace {

// As rows for a client up to `until`, in pieces of so many bytes; everything that it got.
std::string read_rows(const std::string& path, uint64_t until, CdcForm form, uint64_t piece) {
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

// For a client that continues at a transaction.
void seek(const std::string& path, uint64_t until) {
  JournalReader journal(path);
  CdcReader reader(journal, 0, "shop", "orders", CdcForm::json, CdcValues::maxscale, RenderOptions(), true);
  reader.seek(0, 2);
  for (CdcReached reached; (reached = reader.read(until, 1)).why != CdcReached::Why::end; reader.clear()) {
    if (reached.why == CdcReached::Why::no_gtid) return;
    if (reached.why == CdcReached::Why::domain) reader.set_domain(1);
  }
}

// What the service knows of the journal, in one step or in many. Returns how far it knows it.
uint64_t scan(const std::string& path, uint64_t until) {
  JournalReader journal(path);
  CdcScan whole(journal, 0), stepping(journal, 0);
  REQUIRE(whole.read(until, ~uint64_t{0}));
  while (!stepping.read(until, 1)) {
  }
  REQUIRE(whole.position() == stepping.position() && whole.position() <= until);
  REQUIRE(whole.last().images == stepping.last().images && whole.last().tables == stepping.last().tables);
  for (const uint32_t table : whole.last().tables) REQUIRE(whole.name(table) == stepping.name(table));
  REQUIRE(whole.definitions().size() == stepping.definitions().size());
  REQUIRE(whole.statements().size() == stepping.statements().size());
  return whole.position();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Flushed journal(Bytes(data, size));
  uint64_t until = journal.end;
  expect_named([&] { until = scan(journal.path(), until); });
  expect_named([&] { seek(journal.path(), until); });
  for (const CdcForm form : {CdcForm::json, CdcForm::avro}) {
    // The same to the end or to the same failure, whatever the pace.
    expect_named([&] {
      const std::string whole = read_rows(journal.path(), until, form, ~uint64_t{0});
      REQUIRE(read_rows(journal.path(), until, form, 1) == whole);
    });
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() { return seeds(); }
