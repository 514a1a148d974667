// Rows of a table with a column of every type, as the targets `rows` and `cdc` take them.
// Input: which table (kOwnTable: u16 size of a packed definition, and the definition, follow), kind (2 bits), which columns
// are to be kept (the rest of the byte), then the body of a rows event.
#pragma once

#include "../native/build.hpp"
#include "fuzz.hpp"
#include "values/rows.hpp"

namespace relay {

constexpr uint8_t kOwnTable = 0xff;

inline const std::vector<std::vector<build::ColumnSpec>> kTables = {
    {{"id", kLong}, {"name", kVarchar, 80, false, "utf8mb4"}, {"n", kLongLong, 0, true}},
    {{"t", kTiny}, {"s", kShort}, {"m", kInt24}, {"f", kFloat, 4}, {"d", kDouble, 8}, {"y", kYear}, {"dt", kDate}},
    {{"ts", kTimestamp2, 6}, {"dt", kDatetime2, 3}, {"ti", kTime2, 2}, {"ots", kTimestamp}, {"odt", kDatetime}, {"oti", kTime}},
    {{"dec", kNewDecimal, 20 << 8 | 6}, {"bit", kBit, 13}, {"blob", kBlob, 2, false, "binary"}, {"text", kBlob, 4, false, "latin1"}},
    {{"e", kEnum, 1, false, "utf8mb4", {"a", "b"}}, {"s", kSet, 2, false, "utf8mb4", {"x", "y", "z"}},
     {"c", kString, 40, false, "utf16"}, {"b", kString, 8, false, "binary"}},
    {{"j", kJson, 4}, {"g", kGeometry, 4}, {"v", kVector, 4}, {"big", kVarchar, 40000, false, "utf8mb3"}},
    {{"b", kBlobCompressed, 1, false, "binary"}, {"l", kBlobCompressed, 4, false, "latin1"},
     {"v", kVarcharCompressed, 256, false, "utf8mb4"}},
    {{"id", kTiny}, {"a", kJson, 4}, {"b", kJson, 4}, {"n", kShort}, {"c", kJson, 4}},
    {{"bit", kBit, 1}, {"e", kEnum, 1, false, "", {"b", "", "a", "b"}}, {"g", kGeometry, 1},
     {"u", kVarchar, 80, false, "utf8mb4"}, {"x", kVarchar, 80, false, "cp1251"}, {"d", kDate}, {"j", kJson, 2}},
    {{"t4", kTime, 4}, {"d3", kDatetime, 3}, {"s6", kTimestamp, 6}, {"t1", kTime, 1}, {"d6", kDatetime, 6}, {"s2", kTimestamp, 2}},
    {{"u", kLongLong, 0, true}, {"sequence", kBit, 63}, {"sequence_", kBit, 64, false, "", {}, "bit(64)"}, {"i", kLong, 0, true},
     {"1 ä", kVarchar, 80, false, "", {}, "varchar(99999999999999999999)"}, {"d", kNewDecimal, 65 << 8 | 30}},
};

struct RowsInput {
  std::shared_ptr<const Definition> definition;  // nullptr: the input has none
  RowKind kind = RowKind::insert;
  bool partial = false;  // images have changes of JSON values
  std::vector<bool> keep;
  Bytes body;

  explicit RowsInput(Bytes bytes) {
    static std::vector<std::shared_ptr<const Definition>> definitions;
    if (definitions.empty()) {
      for (const auto& columns : kTables) definitions.push_back(build::definition(columns));
    }
    static const RowKind kKinds[] = {RowKind::insert, RowKind::update, RowKind::remove, RowKind::update};
    Reader in(bytes);
    const uint8_t table = in.u8();
    definition = definitions[table % definitions.size()];
    if (table == kOwnTable) {
      std::string error;
      definition = Definition::parse(in.take(in.u16()), &error);
    }
    const uint8_t how = in.u8();
    if (!in.ok()) definition = nullptr;
    if (!definition) return;
    kind = kKinds[how % 4];
    partial = how % 4 == 3;
    for (size_t i = 0; i < definition->columns.size(); i++) keep.push_back(how >> 2 >> i % 6 & 1);
    body = in.rest();
  }
};

inline std::vector<std::string> rows_seeds() {
  using build::bytes;

  return {
      bytes("00 00 03 ff f8 01000000 02'ab' 0100000000000000"),
      bytes("00 01 03 07 07 f8 01000000 02'ab' 0100000000000000 fa 02000000 0200000000000000"),
      bytes("01 00 07 ff 80 01 0200 030000 0000803f 000000000000f03f 7e 21d00f"),
      bytes("02 00 06 ff c0 65000000 010203 99b2e6f7c0 1234 800f12 50 65000000 0102030405060708 010203"),
      bytes("03 00 04 ff f0 80000000000c22384e 010203 1f05 0300'abc' 04000000'text'"),
      bytes("04 00 04 ff f0 01 0300 04'ab' 00 03'xyz'"),
      bytes("05 00 04 ff f0 0d000000 00 01000c000b0001000500026100 04000000'abcd' 04000000 0000803f 0200'ab'"),
      bytes("07 03 05 ff ff 00 01 0d000000 00 01000c000b0001000500026100 02000000 0401 0200 02000000 0401 01 05 00 01")
          + bytes("09000000 00 03'$.a' 03 050200 02000000 0401 0300 00000000"),
      bytes("09 00 06 ff c0 070a849182 00422bb5c294d3 65e0832701e240 01cd71cf 01027abe00155a00 65e083270c"),
      bytes("08 00 07 ff 80 01 03 06'abcdef' 03 ff'ab' 02'?'98 000000 0d00 0001000c000b0001000500026100")
          + bytes("80 00 02 00 00 00 21d00f 0000"),
      bytes("0a 00 06 ff c0 ffffffffffffffff 7fffffffffffffff 8000000000000000 ffffffff 03'a'00'b'")
          + bytes("800000000000000000000000000000000000000000000000000000000001"),
      bytes("06 00 03 ff f8 0d 8103 789c4b4c4a0600024d0127 04000000 00'abc' 0700 8903 4b4c4a0600"),
  };
}

}  // namespace relay
