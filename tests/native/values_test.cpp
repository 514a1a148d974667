// Numbers, dates, texts and JSON documents are printed as the servers print them.
#include <cmath>
#include <limits>

#include "base/numbers.hpp"
#include "build.hpp"
#include "values/charset.hpp"
#include "values/json.hpp"
#include "values/temporal.hpp"

using namespace relay;
using build::bytes;

namespace {

template <typename Put>
std::string text(Put put) {
  uint8_t room[512];
  uint8_t* end = put(room);
  return end ? std::string(reinterpret_cast<char*>(room), static_cast<size_t>(end - room)) : "invalid";
}

const uint8_t* image(const std::string& spec) {
  static std::string kept[16];
  static size_t next = 0;
  std::string& mine = kept[next++ % 16];
  mine = bytes(spec);
  return reinterpret_cast<const uint8_t*>(mine.data());
}

void integers() {
  for (uint64_t v : {0ull, 9ull, 10ull, 99999999ull, 100000000ull, 9999999999999999ull, 18446744073709551615ull})
    EXPECT(text([v](uint8_t* p) { return put_unsigned(p, v); }) == std::to_string(v));
  for (int64_t v : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0}, std::numeric_limits<int64_t>::max()})
    EXPECT(text([v](uint8_t* p) { return put_signed(p, v); }) == std::to_string(v));
}

void floating_point() {
  auto shortest = [](double v) { return text([v](uint8_t* p) { return put_double(p, v); }); };
  EXPECT(shortest(0.1) == "0.1");
  EXPECT(shortest(-1.5) == "-1.5");
  EXPECT(shortest(1e20) == "1e20");
  EXPECT(std::strtod(shortest(std::nextafter(1.0, 2.0)).c_str(), nullptr) == std::nextafter(1.0, 2.0));
  EXPECT(text([](uint8_t* p) { return put_float(p, 1234567.0f); }) == "1234570");
  EXPECT(text([](uint8_t* p) { return put_fixed_double(p, 2.5, 3); }) == "2.500");
}

void decimals() {
  // DECIMAL(10,2): four bytes for eight digits, one for two; the first bit is set unless it is negative.
  auto decimal = [](const std::string& spec) {
    return text([&spec](uint8_t* p) { return put_decimal(p, image(spec), 10, 2); });
  };
  EXPECT(decimal("80 00 04 d2 38") == "1234.56");
  EXPECT(decimal("7f ff fb 2d c7") == "-1234.56");
  EXPECT(decimal("80 00 00 00 00") == "0.00");
  __int128 value = 0;
  EXPECT(decimal_to_int128(image("7f ff fb 2d c7"), 10, 2, &value) && value == -123456);
}

void dates_and_times() {
  EXPECT(text([](uint8_t* p) { return put_year(p, 126); }) == "2026");
  EXPECT(text([](uint8_t* p) { return put_year(p, 0); }) == "0000");
  const uint32_t date = 2026 << 9 | 11 << 5 | 25;
  uint8_t three[3] = {date & 0xff, date >> 8 & 0xff, date >> 16};
  EXPECT(text([&three](uint8_t* p) { return put_date(p, three); }) == "2026-11-25");
  int32_t days = 0;
  EXPECT(date_to_days(three, &days) && days == 20782);
  // DATETIME(1): 40 bits of year * 13 + month, day, hour, minute, second; then tenths of a second.
  const uint64_t months = 2026 * 13 + 11;
  const uint64_t packed = ((months << 5 | 25) << 17 | (23 << 12 | 59 << 6 | 58)) + 0x8000000000;
  uint8_t six[6];
  for (int i = 0; i < 5; ++i) six[i] = static_cast<uint8_t>(packed >> (32 - 8 * i));
  six[5] = 70;
  EXPECT(text([&six](uint8_t* p) { return put_datetime(p, six, 1); }) == "2026-11-25 23:59:58.7");
  int64_t micros = 0;
  EXPECT(datetime_to_micros(six, 1, &micros) && micros == (int64_t{20782} * 86400 + 86398) * 1000000 + 700000);
  EXPECT(text([](uint8_t* p) { return put_time(p, image("80 10 83"), 0); }) == "01:02:03");
  EXPECT(text([](uint8_t* p) { return put_time(p, image("7f ef 7d"), 0); }) == "-01:02:03");
  EXPECT(text([](uint8_t* p) { return put_timestamp(p, image("00 00 00 01"), 0, true); }) == "1970-01-01 00:00:01");
}

void character_sets() {
  std::string out;
  EXPECT(charset_text("latin1", Bytes(bytes("e9 80")), &out) && out == "é€");
  EXPECT(charset_text("gbk", Bytes(bytes("d6 d0")), &out) && out == "中");
  EXPECT(charset_text("utf16", Bytes(bytes("d8 3d de 00")), &out) && out == "😀");
  EXPECT(charset_text("utf8mb4", Bytes(bytes("f0 9f 98 80")), &out) && out == "😀");
  EXPECT(!charset_text("klingon", Bytes(out), &out));
}

void output_in_other_memory() {
  std::vector<uint8_t> other(Output::kSlack + 8);
  Output out, taken;
  out.append(Bytes("one "));
  out.move_to(other.data(), other.size());
  out.append(Bytes("two "));
  EXPECT(out.at(0) == other.data() && out.bytes().text() == "one two ");
  taken.swap(out);
  EXPECT(taken.at(0) == other.data());
  taken.append(Bytes("three"));
  other.assign(other.size(), 0);
  EXPECT(taken.bytes().text() == "one two three");
  out.move_to(other.data(), other.size());
  out.release();
  EXPECT(!out.has_block());
}

void json_documents() {
  auto json = [](const std::string& spec) {
    const std::string document = bytes(spec);
    Output out;
    return put_json(out, Bytes(document)) ? std::string(out.chars(), out.size()) : "invalid";
  };
  EXPECT(json("04 00") == "null");
  EXPECT(json("04 01") == "true");
  EXPECT(json("05 ff ff") == "-1");
  EXPECT(json("0c 02'hi'") == "\"hi\"");
  EXPECT(json("02 0200 0c00 05 0100 05 0200 0000") == "[1, 2]");
  EXPECT(json("00 0100 0c00 0b00 0100 05 0700'a'") == "{\"a\": 7}");
  EXPECT(json("00 0100 0c00 0b00 0900 05 0700'a'") == "invalid");
}

}  // namespace

int main() {
  integers();
  floating_point();
  decimals();
  dates_and_times();
  character_sets();
  output_in_other_memory();
  json_documents();
  return build::failures ? 1 : 0;
}
