// Row images are stepped over exactly, and what is cut short, too long or of another table is refused.
#include "values/rows.hpp"

#include "build.hpp"

using namespace relay;
using build::bytes;
using build::ColumnSpec;

namespace {

const std::vector<ColumnSpec> kNarrow = {{"id", kLong}, {"name", kVarchar, 80, false, "utf8mb4"}, {"n", kLongLong}};

Walk walk(const Definition& d, RowKind kind, const std::string& body) {
  RowsBody rows;
  if (!RowsBody::parse(Bytes(body), kind, &rows)) return {};
  return walk_rows(d, rows);
}

void rows_are_counted() {
  auto d = build::definition(kNarrow);
  std::string one = bytes("f8 01000000 02'ab' 0100000000000000");
  std::string null = bytes("fa 02000000 0200000000000000");
  Walk w = walk(*d, RowKind::insert, bytes("03 ff") + one + null + one);
  EXPECT(w.ok && w.rows == 3);
  w = walk(*d, RowKind::update, bytes("03 07 07") + one + null);
  EXPECT(w.ok && w.rows == 1);
  w = walk(*d, RowKind::update, bytes("03 01 02") + bytes("fe 01000000 fe 02'ab'"));
  EXPECT(w.ok && w.rows == 1);
  EXPECT(!walk(*d, RowKind::update, bytes("03 07 07") + one).ok);
}

void every_cut_is_noticed() {
  auto d = build::definition(kNarrow);
  std::string body = bytes("03 ff f8 01000000 02'ab' 0100000000000000");
  for (size_t n = 3; n < body.size(); ++n) EXPECT(!walk(*d, RowKind::insert, body.substr(0, n)).ok);
  EXPECT(walk(*d, RowKind::insert, body).ok);
  EXPECT(!walk(*d, RowKind::insert, body + '\0').ok);
  EXPECT(!walk(*d, RowKind::insert, bytes("04 ff") + body.substr(2)).ok);
  EXPECT(!walk(*d, RowKind::insert, bytes("fe ffffffffffffffff 00")).ok);
}

void rows_without_columns_end() {
  auto d = build::definition(kNarrow);
  EXPECT(walk(*d, RowKind::insert, bytes("03 00")).rows == 1);
  EXPECT(!walk(*d, RowKind::insert, bytes("03 00 00")).ok);
}

void columns_are_left_out() {
  auto d = build::definition(kNarrow);
  std::string out = "x";
  RowsBody rows;
  std::string source = bytes("03 07 fa 01000000 0100000000000000 f8 02000000 01'a' 0200000000000000");
  EXPECT(RowsBody::parse(Bytes(source), RowKind::insert, &rows));
  EXPECT(copy_without(*d, RowKind::insert, rows, {true, false, true}, &out));
  EXPECT(out == "x" + bytes("02 03 00 01000000 0100000000000000 00 02000000 0200000000000000"));
  out.clear();
  EXPECT(copy_without(*d, RowKind::insert, rows, {false, true, false}, &out));
  EXPECT(out == bytes("01 01 01 00 01'a'"));
  source.pop_back();
  EXPECT(RowsBody::parse(Bytes(source), RowKind::insert, &rows));
  EXPECT(!copy_without(*d, RowKind::insert, rows, {false, true, false}, &out));
}

void what_cannot_be_read_is_named() {
  std::string error;
  EXPECT(!Definition::parse(Bytes(build::packed({{"z", 99}})), &error));
  EXPECT(error.find("column z of shop.orders") != std::string::npos && error.find("99") != std::string::npos);
  EXPECT(!Definition::parse(Bytes(build::packed({{"k", kVarchar, 10, false, "klingon"}})), &error));
  EXPECT(error.find("klingon") != std::string::npos);
  std::string whole = build::packed(kNarrow);
  for (size_t n = 0; n < whole.size(); ++n) EXPECT(!Definition::parse(Bytes(whole.substr(0, n)), &error));
}

}  // namespace

int main() {
  rows_are_counted();
  every_cut_is_noticed();
  rows_without_columns_end();
  columns_are_left_out();
  what_cannot_be_read_is_named();
  return build::failures ? 1 : 0;
}
