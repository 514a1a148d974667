// The sum of a client's numbers is that of the bytes that they have in its rows.
#include "serve/row_cache.hpp"

#include "base/checksum.hpp"
#include "build.hpp"

using namespace relay;

namespace {

constexpr uint32_t kRowBytes = 32;

// What renumber() adds to rows of zeros; in msgpack also the head of each number.
uint32_t written(uint64_t count, RowFormat format, RowNumbers numbers) {
  std::vector<uint8_t> rows(count * kRowBytes);
  std::vector<uint32_t> starts;
  for (uint32_t row = 0; row < count; ++row) starts.push_back(row * kRowBytes);
  renumber(rows.data(), starts.data(), count, format, numbers);
  return byte_sum({rows.data(), rows.size()});
}

void check(uint64_t count, RowNumbers numbers) {
  EXPECT(numbers_sum(count, RowFormat::text, numbers) == written(count, RowFormat::text, numbers));
  const uint32_t heads = written(count, RowFormat::msgpack, {0, 0}) - numbers_sum(count, RowFormat::msgpack, {0, 0});
  for (const RowFormat format : {RowFormat::msgpack, RowFormat::extended})
    EXPECT(numbers_sum(count, format, numbers) + heads == written(count, format, numbers));
}

void carries_into_every_byte_count() {
  for (unsigned bits = 0; bits < 64; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    for (const uint64_t count : std::initializer_list<uint64_t>{1, 2, 255, 256, 257, 1000}) {
      check(count, {power - 1, count - 1});
      check(count, {power - std::min(power, count / 2), std::max(power, count)});
      check(count, {power, power + count / 2 + (power < count ? count : 0)});
    }
  }
}

void larger_queues_have_the_largest_size() {
  for (const uint64_t over : {0, 1, 2, 299, 300, 301, 100000}) check(300, {1, UINT32_MAX + over});
}

}  // namespace

int main() {
  carries_into_every_byte_count();
  larger_queues_have_the_largest_size();
  return build::failures ? 1 : 0;
}
