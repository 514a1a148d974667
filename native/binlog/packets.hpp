// Splits the bytes of a connection into packets of the MySQL protocol.
#pragma once

#include <memory>

#include "base/bytes.hpp"

namespace relay {

// One buffer: the socket fills it at the end, and packets are taken from the front. A payload of 16 MiB or more arrives
// in several packets and is joined in place; each byte is moved once.
class PacketBuffer {
 public:
  explicit PacketBuffer(size_t max_payload) : max_payload_(max_payload) {}

  // Space for at least `least` bytes after the current contents. Valid until the next call of a member function.
  struct Room {
    uint8_t* data;
    size_t size;
  };
  Room room(size_t least);
  void filled(size_t n) { tail_ += n; }

  enum class Front { packet, incomplete, too_large };
  Front front(Bytes* payload);  // the first packet; stays in the buffer until `pop`
  void pop();
  void clear();
  size_t max_payload() const { return max_payload_; }

 private:
  static constexpr size_t kUsual = 2 << 20;
  static constexpr size_t kLeastRoom = 256 << 10;  // a smaller room would cost many calls of the socket
  static constexpr size_t kHead = 4;
  static constexpr size_t kLongest = 0xffffff;  // a packet of this length continues in the next

  void resize(size_t capacity);

  const size_t max_payload_;
  std::unique_ptr<uint8_t[]> data_;
  size_t capacity_ = 0;
  size_t head_ = 0;    // start of the first packet
  size_t tail_ = 0;    // end of the received bytes
  size_t joined_ = 0;  // bytes of payload joined after the first header so far
  size_t next_ = 0;    // offset from head_ of the first packet header that is not joined yet
  bool whole_ = false;
};

}  // namespace relay
