// A ring of encoded rows.
#include "serve/row_cache.hpp"

#include "base/msgpack.hpp"

namespace relay {
namespace {

// The sum of the bytes of `count` numbers from `first` on.
uint64_t bytes_of_numbers(uint64_t first, uint64_t count) {
  uint64_t sum = 0;
  while (count > 0) {  // numbers that differ in their lowest byte only
    const uint64_t lowest = first & 0xff, n = std::min(count, 0x100 - lowest);
    for (uint64_t higher = first >> 8; higher > 0; higher >>= 8) sum += n * (higher & 0xff);
    sum += n * lowest + n * (n - 1) / 2;
    first += n;
    count -= n;
  }
  return sum;
}

}  // namespace

bool RowCache::use(uint32_t slot) {
  alone_ = last_ == kNobody ? kAlone : slot == last_ ? std::min(alone_ + 1, kAlone) : 0;
  last_ = slot;
  if (pause_ > 0) {
    --pause_;
    return false;
  }
  if (looks_ >= kTrial) {
    if (hits_ < looks_ / 8) pause_ = kPause;
    looks_ = hits_ = 0;
  }
  if (alone_ < kAlone && pause_ == 0) return true;
  release();
  return false;
}

void RowCache::release() {
  ring_.reset();
  std::vector<Entry>().swap(entries_);
}

const RowCache::Rows* RowCache::find(RowFormat format, const Range& range, uint32_t count) {
  ++looks_;
  if (entries_.empty()) return nullptr;
  const Entry& entry = entries_[place(range)];
  const bool same = entry.frame == range.frame && entry.first == range.first && entry.format == format;
  if (!same || entry.count < count || end_ - entry.at > kRing) return nullptr;
  ++hits_;
  const uint8_t* start = ring_.get() + entry.at % kRing;
  const size_t head = (size_t{entry.count} + 1) * sizeof(uint32_t);
  const RowOrigin origin{entry.frame + entry.into, entry.kind};
  found_ = {start + head, reinterpret_cast<const uint32_t*>(start), entry.count, origin, entry.sum};
  return &found_;
}

void RowCache::keep(RowFormat format, const Range& range, const Rows& rows) {
  const size_t head = (size_t{rows.count} + 1) * sizeof(uint32_t);
  const uint64_t size = (head + rows.starts[rows.count] + 7) & ~uint64_t{7};
  if (rows.count == 0 || size > kLargest) return;
  if (entries_.empty()) {
    ring_.reset(new uint8_t[kRing]);
    entries_.resize(kEntries);
    end_ = 0;
  }
  if (end_ % kRing + size > kRing) end_ += kRing - end_ % kRing;  // rows of a range do not wrap
  uint8_t* to = ring_.get() + end_ % kRing;
  std::memcpy(to, rows.starts, head);
  std::memcpy(to + head, rows.bytes, rows.starts[rows.count]);
  const auto into = static_cast<uint32_t>(rows.origin.frame - range.frame);
  entries_[place(range)] = {range.frame, end_, range.first, rows.count, into, rows.sum, format, rows.origin.kind};
  end_ += size;
}

void renumber(uint8_t* rows, const uint32_t* starts, uint64_t count, RowFormat format, RowNumbers numbers) {
  if (format == RowFormat::text) {
    constexpr size_t kQueueSize = sizeof(uint64_t) + 9;  // behind the sequence, kind and position
    for (uint64_t i = 0; i < count; ++i) {
      store(rows + starts[i], numbers.sequence + i);
      store(rows + starts[i] + kQueueSize, queue_size(numbers.waiting - i));
    }
  } else {
    for (uint64_t i = 0; i < count; ++i)
      msgpack::put_u64(rows + starts[i] + 1, numbers.sequence + i);  // behind the head of the array
  }
}

uint32_t numbers_sum(uint64_t count, RowFormat format, RowNumbers numbers) {
  uint64_t sum = bytes_of_numbers(numbers.sequence, count);
  if (format == RowFormat::text) {
    const uint64_t largest = queue_size(numbers.waiting), last = numbers.waiting - (count - 1);
    const uint64_t capped = numbers.waiting - largest;  // so many rows, or all, have the largest size
    const uint64_t alike = std::min(capped, count);
    sum += bytes_of_numbers(last, count - alike) + alike * bytes_of_numbers(largest, 1);
  }
  return static_cast<uint32_t>(sum);
}

}  // namespace relay
