// What a row costs the native core as something grows, whose instructions bench/growth.py counts:
// growth DIMENSION STAGE SIZE FOLDER. Prints the number of units. Everything is known before the counted work begins.
#include "formats/usage.hpp"
#include "workloads.hpp"

using namespace relay;
using namespace relay::bench;

namespace {

// Half of the columns INT, half VARCHAR.
std::vector<Field> fields(size_t count) {
  std::vector<Field> all;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "c" + std::to_string(i);
    if (i % 2 == 0) {
      all.push_back({{name, kLong}, "", [](uint64_t n) { return little_endian(n % 9973, 4); }});
    } else {
      all.push_back({{name, kVarchar, 128, false, "utf8mb4"}, little_endian(128, 2), [](uint64_t n) {
                       const std::string text = "text " + std::to_string(1000 + n % 9000);
                       return little_endian(text.size(), 1) + text;
                     }});
    }
  }
  return all;
}

void count_usage(Journal& journal, const Shape& shape, uint64_t first) {
  UsageReader usage(journal.path, 0, 0);
  const auto read = [&] {
    while (!usage.read(journal.end, 8 << 20)) usage.take();
  };
  read();
  usage.take();
  journal.write(first, shape.rows);
  counted(read);
}

// 100 clients that share the tables, with so many filters on each of their tables.
Clients sharing(const Shape& shape, uint32_t filters) {
  constexpr uint32_t kKinds[] = {7, 1, 3, 5};  // with inserts
  Clients clients(100);
  for (uint32_t table = 0; table < shape.tables; ++table) {
    for (uint32_t number = 0; number < filters; ++number) {
      Filter filter;
      filter.schema = "shop";
      filter.table = shape.name(table);
      filter.kinds = kKinds[number % 4];
      clients[table % clients.size()].push_back(filter);
    }
  }
  return clients;
}

// Runs a stage for the rows of the shape, after a row of each table at least, which makes all tables known. Each client
// gets its part of the rows.
void run(const std::string& stage, const Shape& shape, const Clients& clients, uint32_t part,
         const std::string& folder) {
  const uint64_t known = std::max(shape.rows, shape.tables), first = 1 + known;
  if (stage == "ingest") {
    StreamToJournal reader(folder, shape);
    reader.feed(shape.stream(1, known));
    const std::string stream = shape.stream(first, shape.rows, 1 << 30);
    counted([&] { reader.feed(stream); });
    shape.expect(reader.rows() - known);
    return;
  }
  Journal journal(folder, shape);
  Relay relay(journal, clients);
  journal.write(1, known);
  if (stage == "usage") return count_usage(journal, shape, first);
  relay.decide(journal.end);
  const uint64_t before = relay.poll_many(RowFormat::text);
  journal.write(first, shape.rows);
  if (stage == "decide") {
    counted([&] { relay.decide(journal.end); });
    shape.expect(part * (relay.poll_many(RowFormat::text) - before));
    return;
  }
  relay.decide(journal.end);
  uint64_t rows = 0;
  counted([&] { rows = relay.poll_many(RowFormat::text); });
  shape.expect(part * (rows - before));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) fail("usage: growth clients|filters|tables|columns|journal ingest|decide|poll|usage SIZE FOLDER");
  const std::string dimension = argv[1], stage = argv[2], folder = argv[4];
  const auto size = static_cast<uint32_t>(std::stoul(argv[3]));
  Shape shape{fields(dimension == "columns" ? size : 5)};
  uint64_t units = 1;
  uint32_t part = 1;
  Clients clients = all_rows(dimension == "clients" ? size : 1);
  if (dimension == "filters") {
    shape.tables = shape.rows = 5000;
    clients = sharing(shape, size);
    part = static_cast<uint32_t>(clients.size());
  } else if (dimension == "tables") {
    shape.tables = size;
  } else if (dimension == "columns") {
    shape.per_event = 10;
    shape.rows = size < 100 ? 2000 : 200;
    units = size;
  } else if (dimension == "clients") {
    units = size;
  }
  try {
    run(stage, shape, clients, part, folder);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  std::printf("%llu\n", static_cast<unsigned long long>(units * shape.rows));
  return 0;
}
