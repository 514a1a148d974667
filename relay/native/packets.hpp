// The bytes of a connection as they come, cut into the packets of the MySQL protocol.
#pragma once

#include <memory>

#include "bytes.hpp"

namespace relay {

// One buffer: filled at its end from the socket, packets taken off its front. A payload of 16 MiB or more comes in
// several packets and is joined in place, each byte being moved once.
class PacketBuffer {
 public:
  explicit PacketBuffer(size_t max_payload) : max_payload_(max_payload) {}

  // Room for at least `least` bytes behind what is there, valid until the next call of anything here.
  struct Room {
    uint8_t* data;
    size_t size;
  };
  Room room(size_t least);
  void filled(size_t n) { tail_ += n; }

  enum class Front { packet, incomplete, too_large };
  Front front(Bytes* payload);  // the first packet; stays until `pop`
  void pop();
  void clear();
  size_t max_payload() const { return max_payload_; }

 private:
  static constexpr size_t kUsual = 2 << 20;
  static constexpr size_t kLeastRoom = 256 << 10;  // fewer bytes than this at once would be many calls of the socket
  static constexpr size_t kHead = 4;
  static constexpr size_t kLongest = 0xffffff;  // a packet of this length is continued by the next

  void resize(size_t capacity);

  const size_t max_payload_;
  std::unique_ptr<uint8_t[]> data_;
  size_t capacity_ = 0;
  size_t head_ = 0;    // of the first packet
  size_t tail_ = 0;    // end of what was received
  size_t joined_ = 0;  // bytes of payload joined behind the first head so far
  size_t next_ = 0;    // offset from head_ of the first packet head that is not joined yet
  bool whole_ = false;
};

}  // namespace relay
