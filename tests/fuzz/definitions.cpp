// Packed definitions, which a damaged journal or a hostile source could bring: refused with a reason, or usable.
#include "../native/build.hpp"
#include "fuzz.hpp"
#include "values/rows.hpp"

using namespace relay;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string error;
  auto definition = Definition::parse(Bytes(data, size), &error);
  if (!definition) {
    REQUIRE(!error.empty());
    return 0;
  }
  REQUIRE(definition->extents.size() == definition->columns.size());
  RowsBody body;
  const std::string zeros(64, '\0');
  if (RowsBody::parse(Bytes(zeros), RowKind::insert, &body)) walk_rows(*definition, body);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      build::packed({{"id", kLong}, {"name", kVarchar, 80, false, "utf8mb4"}}),
      build::packed({{"e", kEnum, 1, false, "latin1", {"a", "b"}}, {"s", kSet, 8, false, "utf8mb4", {"x"}}}),
      build::packed({{"d", kNewDecimal, 65 << 8 | 30}, {"b", kBit, 64}, {"t", kTimestamp2, 6}, {"j", kJson, 4}}),
  };
}
