// Segment files of the journal: their names, headers, mappings and frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/crc.hpp"
#include "base/words.hpp"
#include "journal/journal.hpp"

namespace relay {

constexpr uint32_t kVersion = 3;  // 1: COMMIT frames without the server; 2: DDL frames without their tables
constexpr uint64_t kSegmentHeader = 64;
constexpr uint64_t kFrameHeader = 8;            // u32 length, u32 crc32c
constexpr uint32_t kContinues = 0xffffffff;     // instead of a length: the next frame opens the next segment
constexpr uint64_t kUnresolved = ~uint64_t{0};  // link of a TABLE frame whose proven definition is pending

inline uint64_t frame_size(size_t payload) { return kFrameHeader + ((payload + 7) & ~uint64_t{7}); }

// One mapped segment. Positions are journal positions; `at` converts one into an address.
struct Mapping {
  uint32_t version = kVersion;
  uint64_t generation = 0;
  uint64_t base = 0;
  uint64_t size = 0;
  uint64_t flushed = 0;  // everything before this position was committed and on disk when the segment was made
  int fd = -1;           // of a writable segment
  uint8_t* data = nullptr;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  uint64_t end() const { return base + size; }
  bool holds(uint64_t position) const { return position >= base && position < end(); }
  uint8_t* at(uint64_t position) const { return data + (position - base); }
  // The current committed and flushed position, if this is the last segment. The writer advances it with one store,
  // outside the part of the header that the CRC covers.
  uint64_t flushed_now() const;
  void raise_flushed(uint64_t position) const;
  uint8_t* spare() const { return data + kSegmentHeader - 1; }  // an unused byte of the header

  // Both throw JournalError. `create` allocates every block (a full disk is disk_full, not a later SIGBUS). The file
  // has a temporary name until `appear`.
  static std::unique_ptr<Mapping> open(const std::string& directory, uint64_t base, bool writable);
  static std::unique_ptr<Mapping> create(const std::string& directory, uint64_t generation, uint64_t base,
                                         uint64_t size, uint64_t flushed);
  void appear(const std::string& directory);
};

enum class Reading { frame, end, next_segment, damaged };

// Reads the frame at `position` of a segment. Checks lengths against the segment's end, and the CRC if asked to.
inline Reading read_frame(const Mapping& segment, uint64_t position, bool check, FrameView* out) {
  if (position % 8 || position + kFrameHeader > segment.end()) return Reading::damaged;
  const uint8_t* p = segment.at(position);
  uint32_t length = load_length(p);
  if (length == 0) return Reading::end;
  if (length == kContinues) return Reading::next_segment;
  if (length < 2 || frame_size(length) > segment.end() - position) return Reading::damaged;
  Bytes payload(p + kFrameHeader, length);
  if (check && crc32c(payload) != load<uint32_t>(p + 4)) return Reading::damaged;
  *out = {position, position + frame_size(length), segment.base, payload};
  return Reading::frame;
}

std::string segment_path(const std::string& directory, uint64_t base);
std::vector<uint64_t> list_segments(
    const std::string& directory);  // bases, ascending; empty if there is no such directory
bool header_is_blank(const std::string& directory, uint64_t base);  // its first page never reached the disk

// A directory that is kept open, so that a sync needs no further descriptor, which the process may lack.
class Directory {
 public:
  explicit Directory(const std::string& path);  // throws JournalError
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory();
  int sync() const;  // 0, or an errno

 private:
  const int fd_;
};

// Throws "what: path: the system's reason" as a JournalError with the code.
[[noreturn]] void throw_system(const char* code, const std::string& what, const std::string& path, int error);

}  // namespace relay
