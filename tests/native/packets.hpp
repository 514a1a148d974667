// Events of a binlog stream made by hand, in packets, for fuzz targets and for bench/instructions.cpp.
#pragma once

#include <string>

#include "binlog/events.hpp"

namespace relay::build {

constexpr uint32_t kMoment = 1700000000;  // of every event

inline std::string little_endian(uint64_t v, unsigned n) {
  std::string out;
  for (unsigned i = 0; i < n; ++i) out += static_cast<char>(v >> (8 * i));
  return out;
}

// A packet with an event of server 7 that ends at this position of the file, without a checksum.
inline std::string framed(uint8_t type, uint16_t flags, uint64_t position, const std::string& body) {
  const std::string event = little_endian(kMoment, 4) + little_endian(type, 1) + little_endian(7, 4) +
                            little_endian(kEventHeader + body.size(), 4) + little_endian(position, 4) +
                            little_endian(flags, 2) + body;
  return little_endian(event.size() + 1, 3) + little_endian(0, 2) + event;
}

// How a stream of binlog.000001 begins.
inline std::string opening() {
  std::string version = "8.4.0";
  version.resize(50);
  const std::string described = little_endian(4, 2) + version + little_endian(0, 4) + little_endian(19, 1) +
                                std::string(42, '\0') + little_endian(0, 5);
  return framed(kRotateEvent, kArtificialFlag, 0, little_endian(4, 8) + "binlog.000001") +
         framed(kFormatDescriptionEvent, 0, 0, described);
}

}  // namespace relay::build
