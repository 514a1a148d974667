// GTIDs as text and packed, and sets of them. What is accepted survives a round trip; what is not is explained.
#include "base/gtid.hpp"

#include "../native/build.hpp"
#include "fuzz.hpp"

using namespace relay;
using build::bytes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes input(data, size);
  if (auto one = Gtid::parse(input.text())) {
    auto again = Gtid::parse(one->text());
    REQUIRE(again && again->text() == one->text());
  }
  std::string error;
  if (auto set = GtidSet::parse(input.text(), &error)) {
    auto again = GtidSet::parse(set->text());
    REQUIRE(again && again->text() == set->text());
    GtidSet both = *set;
    for (const GtidSet::Run& run : set->runs()) both.remove(run.first);
    GtidSet removed = *set;
    removed.subtract(both);
    both.unite(removed);
    REQUIRE(both.text() == set->text());
    both.intersect(removed);
    REQUIRE(both.text() == removed.text());
  } else {
    REQUIRE(!error.empty());
  }
  if (auto set = GtidSet::decode(input)) {
    auto again = GtidSet::decode(Bytes(set->encode()));
    REQUIRE(again && again->text() == set->text());
    REQUIRE(set->subset_of(*again));
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string uuid = "0102030405060708090a0b0c0d0e0f10 ", one = "0100000000000000 ", five = "0500000000000000 ";
  return {
      "0-1-100,1-2-3",
      "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7,3e11fa47-71ca-11e1-9e33-c80aa9429563:tag:9",
      bytes(one + uuid + one + one + five),
  };
}
