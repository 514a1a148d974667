// The journal as the exporter reads it: to the end, or to a named failure.
#include "formats/arrow_abi.hpp"
#include "formats/changes.hpp"
#include "journals.hpp"

using namespace relay;
using namespace relay::journals;

namespace {

constexpr uint64_t kPiece = 4096;

void take_over(const std::shared_ptr<ColumnBatch>& batch) {
  ArrowSchema schema;
  ArrowArray array;
  ColumnBatch::give(batch, &schema, &array);
  REQUIRE(array.length >= 0 && static_cast<uint64_t>(array.length) >= batch->rows());
  array.release(&array);
  schema.release(&schema);
}

// Piece by piece. Like the exporter, it begins again behind the last transaction that was read whole.
void read_changes(const std::string& path, uint64_t until, uint64_t position, bool choose) {
  ChangeReader reader(path, position, 0, Form::lake, choose);
  for (Reached reached;;) {
    const uint64_t before = reader.seq();
    reached = reader.read(until, kPiece, kPiece);
    if (reached.why == Reached::Why::table) {
      REQUIRE(choose);
      reader.decide(reached.text.size() % 2 == 0);
      continue;
    }
    uint64_t rows = 0;
    for (const ChangeBatch& batch : reader.take()) {
      REQUIRE(batch.first <= batch.last && batch.last <= reader.seq());
      rows += batch.columns->rows();
      take_over(batch.columns);
    }
    REQUIRE(reached.why != Reached::Why::full || rows > 0);
    REQUIRE(reader.seq() >= before || reached.why != Reached::Why::full);
    REQUIRE(reader.position() <= until);
    if (reached.why == Reached::Why::end) break;
  }
  if (reader.position() > position) read_changes(path, until, reader.position(), choose);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Flushed journal(Bytes(data, size));
  for (const bool choose : {false, true}) expect_named([&] { read_changes(journal.path(), journal.end, 0, choose); });
  return 0;
}

std::vector<std::string> fuzz_seeds() { return seeds(); }
