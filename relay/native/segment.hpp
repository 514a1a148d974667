// Segment files of the journal: their names, headers, mappings, and the frames in them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "journal.hpp"

namespace relay {

constexpr uint32_t kVersion = 3;  // 1: COMMIT frames without the server; 2: DDL frames without what they leave
constexpr uint64_t kSegmentHeader = 64;
constexpr uint64_t kFrameHeader = 8;               // u32 length, u32 crc32c
constexpr uint32_t kContinues = 0xffffffff;        // in the place of a length: the next frame opens the next segment
constexpr uint64_t kUnresolved = ~uint64_t{0};     // link of a TABLE frame whose proven definition is still awaited

inline uint64_t frame_size(size_t payload) { return kFrameHeader + ((payload + 7) & ~uint64_t{7}); }

// One mapped segment. Positions are the journal's; `at` turns one into an address.
struct Mapping {
  uint32_t version = kVersion;
  uint64_t generation = 0;
  uint64_t base = 0;
  uint64_t size = 0;
  uint64_t flushed = 0;  // when the segment was made, everything before this position was committed and on disk
  int fd = -1;           // of one that is written
  uint8_t* data = nullptr;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  uint64_t end() const { return base + size; }
  bool holds(uint64_t position) const { return position >= base && position < end(); }
  uint8_t* at(uint64_t position) const { return data + (position - base); }
  // What is committed and on disk by now, if this is the last segment: the writer moves it on by one store, beside what
  // the header's CRC covers.
  uint64_t flushed_now() const;
  void raise_flushed(uint64_t position) const;
  uint8_t* spare() const { return data + kSegmentHeader - 1; }  // a byte of the header that means nothing

  // Both throw JournalError. `create` allocates every block (a full disk is disk_full, not a later SIGBUS) and leaves
  // the file under a temporary name until `appear`.
  static std::unique_ptr<Mapping> open(const std::string& directory, uint64_t base, bool writable);
  static std::unique_ptr<Mapping> create(const std::string& directory, uint64_t generation, uint64_t base,
                                         uint64_t size, uint64_t flushed);
  void appear(const std::string& directory);
};

enum class Reading { frame, end, next_segment, damaged };

// What stands at `position` of a segment. Checks lengths against the segment's end, and the CRC if asked to.
Reading read_frame(const Mapping& segment, uint64_t position, bool check, FrameView* out);

std::string segment_path(const std::string& directory, uint64_t base);
std::vector<uint64_t> list_segments(
    const std::string& directory);  // bases, ascending; empty if there is no such directory
bool header_is_blank(const std::string& directory, uint64_t base);  // made, but its first page never reached the disk
int sync_directory(const std::string& directory);  // 0, or an errno

// "what: path: the system's reason", as a JournalError of the code.
[[noreturn]] void throw_system(const char* code, const std::string& what, const std::string& path, int error);

}  // namespace relay
