// The instructions of this processor give the same CRCs and sums of bytes as plain arithmetic.
#include "base/checksum.hpp"
#include "base/crc.hpp"
#include "build.hpp"

using namespace relay;

namespace {

std::string noise(size_t size) {
  std::string out(size, '\0');
  uint32_t state = 1;
  for (char& c : out) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return out;
}

// One bit at a time, as the standard defines it.
uint32_t plain_crc(Bytes b, uint32_t polynomial) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < b.size; ++i) {
    crc ^= b.data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
  }
  return ~crc;
}

void crcs_are_those_of_the_standards() {
  EXPECT(crc32(Bytes("123456789")) == 0xcbf43926);
  EXPECT(crc32c(Bytes("123456789")) == 0xe3069283);
  EXPECT(crc32_portable(Bytes("123456789")) == 0xcbf43926);
  EXPECT(crc32c_portable(Bytes("123456789")) == 0xe3069283);
}

void every_length_and_alignment_is_right() {
  const std::string data = noise(400);
  for (size_t at = 0; at < 17; ++at) {
    for (size_t size = 0; size + at <= data.size(); ++size) {
      const Bytes b = Bytes(data).sub(at, size);
      EXPECT(crc32(b) == plain_crc(b, 0xedb88320));
      EXPECT(crc32c(b) == plain_crc(b, 0x82f63b78));
      EXPECT(crc32_portable(b) == crc32(b));
      EXPECT(crc32c_portable(b) == crc32c(b));
      uint32_t sum = 0;
      for (size_t i = 0; i < size; ++i) sum += b.data[i];
      EXPECT(byte_sum(b) == sum);
    }
  }
}

void parts_continue_one_another() {
  const std::string data = noise(1000);
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    const Bytes head = Bytes(data).sub(0, cut);
    const Bytes tail = Bytes(data).from(cut);
    EXPECT(crc32(tail, crc32(head)) == crc32(Bytes(data)));
    EXPECT(crc32c(tail, crc32c(head)) == crc32c(Bytes(data)));
  }
}

void large_sums_wrap() {
  const std::string data((size_t{1} << 25) + 7, '\xff');  // 2^25 * 255 exceeds 2^32
  EXPECT(byte_sum(Bytes(data)) == static_cast<uint32_t>(data.size() * 255));
}

}  // namespace

int main() {
  crcs_are_those_of_the_standards();
  every_length_and_alignment_is_right();
  parts_continue_one_another();
  large_sums_wrap();
  return build::failures ? 1 : 0;
}
