// The journal as the monitor counts it: the same at any pace, to the end or to a named failure.
#include "formats/usage.hpp"

#include "journals.hpp"

using namespace relay;
using namespace relay::journals;

namespace {

struct Counted {
  uint64_t rows = 0;
  uint64_t tables = 0;
  uint64_t position = 0;
  uint64_t number = 0;

  void add(UsageReader& reader) {
    for (const TableDefinition& definition : reader.definitions()) tables = std::max<uint64_t>(tables, definition.table);
    for (const Tally& tally : reader.take()) {
      REQUIRE(tally.table <= tables);
      for (const uint64_t each : tally.rows) rows += each;
    }
    position = reader.position();
    number = reader.number();
  }
};

Counted count(const std::string& path, uint64_t until, uint64_t piece) {
  Counted counted;
  UsageReader reader(path, 0, 0);
  for (bool whole = false; !whole; counted.add(reader)) {
    expect_named([&] {
      whole = true;  // also if it fails
      whole = reader.read(until, piece);
    });
  }
  return counted;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Flushed journal(Bytes(data, size));
  const Counted whole = count(journal.path(), journal.end, ~uint64_t{0}), stepping = count(journal.path(), journal.end, 1);
  REQUIRE(whole.rows == stepping.rows && whole.position == stepping.position && whole.number == stepping.number);
  // The next monitor counts nothing again.
  expect_named([&] {
    UsageReader again(journal.path(), whole.position, whole.number);
    again.read(journal.end, ~uint64_t{0});
    for (const Tally& tally : again.take()) REQUIRE(whole.position < journal.end || tally.rows == (std::array<uint64_t, 3>{}));
  });
  return 0;
}

std::vector<std::string> fuzz_seeds() { return seeds(); }
