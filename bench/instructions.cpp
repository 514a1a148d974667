// Work of the native core on made-up rows, whose instructions bench/instructions.py counts: instructions WORKLOAD FOLDER.
// Prints the number of rows.
#include <map>

#include "formats/changes.hpp"
#include "formats/lines.hpp"
#include "serve/cdc.hpp"
#include "workloads.hpp"

using namespace relay;
using namespace relay::bench;

namespace {

std::string words(uint64_t n, size_t repeats) {
  std::string text;
  for (size_t i = 0; i < repeats; ++i) text += "note " + std::to_string(n) + " ";
  return little_endian(text.size(), 1) + text;
}

std::string moment(uint64_t n) {
  const uint64_t date = ((2026 * 13 + 1 + n % 12) << 5) | (1 + n % 28);
  const uint64_t time = (n % 24) << 12 | (n % 60) << 6 | n * 7 % 60;
  return big_endian((date << 17 | time) + 0x8000000000, 5);
}

std::vector<Field> fields(size_t times) {
  std::vector<Field> all;
  for (size_t i = 0; i < times; ++i) {
    const std::string end = i ? std::to_string(i) : "";
    all.push_back({{"id" + end, kLongLong}, "", [](uint64_t n) { return little_endian(n * 1000003, 8); }});
    all.push_back({{"customer" + end, kLong}, "", [](uint64_t n) { return little_endian(n % 9973, 4); }});
    all.push_back({{"amount" + end, kNewDecimal, 10 << 8 | 2}, std::string("\x0a\x02"), [](uint64_t n) {
                     return big_endian(0x80000000 | n * 37, 4) + big_endian(n % 100, 1);
                   }});
    all.push_back({{"created" + end, kDatetime2}, std::string(1, '\0'), moment});
    all.push_back({{"note" + end, kVarchar, 128, false, "utf8mb4"}, little_endian(128, 2), [i](uint64_t n) {
                     return words(n, 1 + i);
                   }});
  }
  return all;
}

// 5 or 20 columns, so many rows an event.
Shape narrow(uint32_t per_event) { return {fields(1), per_event}; }
Shape wide(uint32_t per_event) { return {fields(4), per_event}; }

void ingest(const Shape& shape, const std::string& folder) {
  StreamToJournal reader(folder, shape);
  const std::string stream = shape.stream(1, shape.rows);
  counted([&] { reader.feed(stream); });
  shape.expect(reader.rows());
}

void decide(const Shape& shape, const std::string& folder) {
  Journal journal(folder, shape);
  journal.write(1, shape.rows);
  Relay relay(journal);
  counted([&] { relay.decide(journal.end); });
  shape.expect(relay.poll_all());
}

template <typename Poll>
void poll(const Shape& shape, const std::string& folder, Poll use, uint32_t clients = 1) {
  Journal journal(folder, shape);
  journal.write(1, shape.rows);
  Relay relay(journal, all_rows(clients));
  relay.decide(journal.end);
  uint64_t rows = 0;
  counted([&] { rows = use(relay); });
  shape.expect(rows);
}

void log_lines(const Shape& shape, const std::string& folder) {
  Journal journal(folder, shape);
  journal.write(1, shape.rows);
  LineReader reader(folder, 0, LineForm::csv, {}, false);
  counted([&] {
    for (;;) {
      const LinesReached reached = reader.read(journal.end, 1 << 20, INT64_MAX, INT64_MAX);
      reader.clear();
      if (reached.why == LinesReached::Why::end) break;
      if (reached.why == LinesReached::Why::table) reader.decide(true);
      if (reached.why == LinesReached::Why::offset) reader.set_offset(0, 0, INT64_MAX);
    }
  });
  shape.expect(reader.count());
}

void lake_rows(const Shape& shape, const std::string& folder) {
  Journal journal(folder, shape);
  journal.write(1, shape.rows);
  ChangeReader reader(folder, 0, 0, Form::lake, false);
  uint64_t rows = 0;
  counted([&] {
    while (reader.read(journal.end, 1 << 20, 1 << 20).why == Reached::Why::full)
      for (const ChangeBatch& each : reader.take()) rows += each.columns->rows();
    for (const ChangeBatch& each : reader.take()) rows += each.columns->rows();
  });
  shape.expect(rows);
}

void cdc_rows(const Shape& shape, const std::string& folder) {
  Journal journal(folder, shape);
  journal.write(1, shape.rows);
  JournalReader frames(folder);
  CdcReader reader(frames, 0, "shop", "orders", CdcForm::json, CdcValues::exact, {}, false);
  uint64_t rows = 0;
  counted([&] {
    for (;;) {
      const CdcReached reached = reader.read(journal.end, 1 << 20);
      rows += reader.rows();
      reader.clear();
      if (reached.why == CdcReached::Why::end) break;
      if (reached.why == CdcReached::Why::schema) {
        std::string error;
        reader.expect(cdc_fields(*Definition::parse(Bytes(reader.definition()), &error), CdcValues::exact));
      } else if (reached.why != CdcReached::Why::full && reached.why != CdcReached::Why::more) {
        fail("the rows of CDC end: " + reached.text);
      }
    }
  });
  shape.expect(rows);
}

using Work = std::function<void(const std::string&)>;

Work many(const Shape& shape, RowFormat format, uint32_t clients = 1) {
  return [=](const std::string& folder) {
    poll(shape, folder, [format](Relay& relay) { return relay.poll_many(format); }, clients);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Work> workloads = {
      {"ingest-narrow", [](const std::string& folder) { ingest(narrow(kMany), folder); }},
      {"ingest-wide", [](const std::string& folder) { ingest(wide(kMany), folder); }},
      {"ingest-single", [](const std::string& folder) { ingest(narrow(1), folder); }},
      {"decide-single", [](const std::string& folder) { decide(narrow(1), folder); }},
      {"poll-single",
       [](const std::string& folder) { poll(narrow(1), folder, [](Relay& relay) { return relay.poll_all(); }); }},
      {"text-narrow", many(narrow(kMany), RowFormat::text)},
      {"text-wide", many(wide(kMany), RowFormat::text)},
      {"msgpack-narrow", many(narrow(kMany), RowFormat::msgpack)},
      {"text-narrow-ten-clients", many(narrow(kMany), RowFormat::text, 10)},
      {"text-single-ten-clients", many(narrow(1), RowFormat::text, 10)},
      {"text-single", many(narrow(1), RowFormat::text)},
      {"columns-narrow",
       [](const std::string& folder) {
         poll(narrow(kMany), folder, [](Relay& relay) { return relay.poll_columns(); });
       }},
      {"log-narrow", [](const std::string& folder) { log_lines(narrow(kMany), folder); }},
      {"lake-narrow", [](const std::string& folder) { lake_rows(narrow(kMany), folder); }},
      {"lake-single", [](const std::string& folder) { lake_rows(narrow(1), folder); }},
      {"cdc-narrow", [](const std::string& folder) { cdc_rows(narrow(kMany), folder); }},
  };
  if (argc == 1) {
    for (const auto& each : workloads) std::printf("%s\n", each.first.c_str());
    return 0;
  }
  const auto found = workloads.find(argv[1]);
  if (argc != 3 || found == workloads.end()) fail("usage: instructions [WORKLOAD FOLDER]");
  try {
    found->second(argv[2]);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  std::printf("%u\n", Shape().rows);
  return 0;
}
