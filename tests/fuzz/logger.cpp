// The journal as the logger reads it: to the end, or to a named failure that leaves whole lines.
#include "formats/lines.hpp"
#include "journals.hpp"

using namespace relay;
using namespace relay::journals;

namespace {

constexpr int64_t kLatest = 20000;  // days

// Everything that is logged from `position` on, in pieces of so many bytes.
class Log {
 public:
  Log(const std::string& path, uint64_t until, LineForm form, uint64_t piece)
      : path_(path), until_(until), form_(form), piece_(piece) {}

  void read(uint64_t position) {
    LineReader reader(path_, position, form_, RenderOptions(), true);
    try {
      follow(reader);
    } catch (...) {
      take(reader);
      throw;
    }
    take(reader);
    const uint64_t reached = reader.position();
    REQUIRE(reached <= until_);
    if (reached > position && reached < until_) read(reached);  // as after a restart
  }

  std::string lines;

 private:
  void follow(LineReader& reader) {
    int64_t day = 0;
    for (;;) {
      const uint64_t before = reader.position();
      const LinesReached reached = reader.read(until_, piece_, day, kLatest);
      REQUIRE(reader.position() >= before);
      switch (reached.why) {
        case LinesReached::Why::end: return;
        case LinesReached::Why::table: reader.decide(reached.text.size() % 2 == 0); break;
        case LinesReached::Why::offset:
          reader.set_offset(3600, int64_t{reached.timestamp} - 1, int64_t{reached.timestamp} + 1000);
          break;
        case LinesReached::Why::day:
          REQUIRE(reached.day > day && reached.day <= kLatest);
          day = reached.day;
          break;
        default: take(reader);
      }
    }
  }
  void take(LineReader& reader) {
    const std::string_view added(reader.lines(), reader.size());
    REQUIRE(added.empty() || added.back() == '\n');
    lines += added;
    reader.clear();
  }

  const std::string path_;
  const uint64_t until_;
  const LineForm form_;
  const uint64_t piece_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Flushed journal(Bytes(data, size));
  for (const LineForm form : {LineForm::csv, LineForm::json}) {
    Log whole(journal.path(), journal.end, form, ~uint64_t{0}), stepping(journal.path(), journal.end, form, 1);
    expect_named([&] { whole.read(0); });
    expect_named([&] { stepping.read(0); });
    REQUIRE(whole.lines == stepping.lines);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() { return seeds(); }
