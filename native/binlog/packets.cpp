// The packet buffer.
#include "binlog/packets.hpp"

#include <algorithm>

namespace relay {

void PacketBuffer::resize(size_t capacity) {
  std::unique_ptr<uint8_t[]> grown(new uint8_t[capacity]);
  if (tail_ > head_) std::memcpy(grown.get(), data_.get() + head_, tail_ - head_);
  data_ = std::move(grown);
  capacity_ = capacity;
  tail_ -= head_;
  head_ = 0;
}

PacketBuffer::Room PacketBuffer::room(size_t least) {
  if (head_ == tail_) {
    head_ = tail_ = 0;
    if (capacity_ > kUsual) data_.reset();  // after growing for a large packet
    if (!data_) resize(kUsual);
  }
  least = std::max(least, kLeastRoom);
  if (capacity_ - tail_ < least) {
    size_t buffered = tail_ - head_;
    if (buffered + least > capacity_ || (head_ < buffered && buffered > capacity_ / 2)) {
      resize(std::max(capacity_ * 2, buffered + least));
    } else {
      std::memmove(data_.get(), data_.get() + head_, buffered);
      head_ = 0;
      tail_ = buffered;
    }
  }
  return {data_.get() + tail_, capacity_ - tail_};
}

PacketBuffer::Front PacketBuffer::front(Bytes* payload) {
  uint8_t* first = data_.get() + head_;
  while (!whole_) {
    size_t buffered = tail_ - head_;
    if (buffered < next_ + kHead) return Front::incomplete;
    size_t length = load<uint32_t>(first + next_) & kLongest;
    if (joined_ + length > max_payload_) return Front::too_large;
    if (buffered - next_ - kHead < length) return Front::incomplete;
    if (next_) std::memmove(first + kHead + joined_, first + next_ + kHead, length);
    joined_ += length;
    next_ += kHead + length;
    whole_ = length < kLongest;
  }
  *payload = Bytes(first + kHead, joined_);
  return Front::packet;
}

void PacketBuffer::pop() {
  head_ += next_;
  joined_ = next_ = 0;
  whole_ = false;
}

void PacketBuffer::clear() {
  head_ = tail_ = joined_ = next_ = 0;
  whole_ = false;
}

}  // namespace relay
