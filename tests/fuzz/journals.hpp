// Journals that hold anything, for the targets of all that reads the journal. Input: frames, each as a byte of flags, a
// u16 length and the payload. A byte of kNotes ends them; what follows it is the target's own.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <set>

#include "../native/build.hpp"
#include "base/crc.hpp"
#include "base/failure.hpp"
#include "fuzz.hpp"
#include "journal/journal_writer.hpp"
#include "journal/segment.hpp"

namespace relay::journals {

constexpr uint64_t kSegment = 1 << 16;
constexpr size_t kMostSegments = 8;
// Flags of a frame.
constexpr uint8_t kWrongChecksum = 1;
constexpr uint8_t kNewSegment = 2;
constexpr uint8_t kNotes = 0xff;

// Begins a journal; returns the position behind its first transaction.
inline uint64_t begun(const std::string& path) {
  JournalWriter writer(path, kSegment, 1);
  writer.source(4, "binlog.000001", GtidSet(), "fuzz");
  writer.commit(100, 1, Gtid(), 1);
  return writer.end();
}

// Puts the frames of the input at `at`, as far as there is room, in as many segments as they say. Returns their end.
inline uint64_t append(const std::string& path, uint64_t at, Reader& in) {
  auto segment = Mapping::open(path, 0, true);
  size_t segments = 1;
  while (in.left()) {
    const uint8_t flags = in.u8();
    if (flags == kNotes) break;
    const uint16_t length = in.u16();
    const Bytes payload = in.take(std::min<size_t>(length, in.left()));
    if ((flags & kNewSegment) && segments < kMostSegments) {
      store(segment->at(at), kContinues);
      auto next = Mapping::create(path, segment->generation, segment->end(), kSegment, segment->flushed_now());
      next->appear(path);
      segment = std::move(next);
      at = segment->base + kSegmentHeader;
      ++segments;
    }
    if (frame_size(payload.size) + sizeof(uint64_t) > segment->end() - at) break;
    std::memcpy(segment->at(at) + kFrameHeader, payload.data, payload.size);
    store(segment->at(at), static_cast<uint32_t>(payload.size));
    store(segment->at(at) + sizeof(uint32_t), crc32c(payload) ^ (flags & kWrongChecksum));
    at += frame_size(payload.size);
  }
  return at;
}

// A journal of the input in which everything counts as flushed, as if it was damaged later.
struct Flushed {
  Folder folder;
  uint64_t begin;  // behind its first transaction
  uint64_t end;

  const std::string& path() const { return folder.path; }
  explicit Flushed(Bytes input) : begin(begun(folder.path)) {
    Reader in(input);
    end = append(folder.path, begin, in);
    Mapping::open(folder.path, (end - 1) / kSegment * kSegment, true)->raise_flushed(end);
  }
};

// Whether a process may stop with this: the journal cannot be read, which is said with file and offset, or the rows
// cannot be shown in the form that the process has.
inline bool is_named(const JournalError& error) {
  return error.code == "journal_corrupt" && std::string(error.what()).find(".seg, offset ") != std::string::npos;
}
inline bool is_named(const StreamError& error) {
  return std::set<std::string>{"schema_unproven", "partial_image", "unsupported_column"}.count(error.code) &&
         !error.where.empty();
}

// Reads. Anything else than a named failure would end the process, and so fails the target.
template <typename Read>
void expect_named(Read read) {
  try {
    read();
  } catch (const JournalError& error) {
    if (!is_named(error)) std::fprintf(stderr, "%s: %s\n", error.code.c_str(), error.what());
    REQUIRE(is_named(error));
  } catch (const StreamError& error) {
    if (!is_named(error)) std::fprintf(stderr, "%s: %s\n", error.code.c_str(), error.what());
    REQUIRE(is_named(error));
  }
}

// The frames behind `start` as an input, without those that only fill a segment.
inline std::string input_of(const std::string& path, uint64_t start, uint64_t end, size_t most = SIZE_MAX) {
  constexpr size_t kFilling = 1 << 14;
  std::string out;
  JournalReader reader(path);
  for (uint64_t at = start; at < end && most;) {
    const FrameView view = reader.frame(at, true);
    at = view.next;
    if (view.payload.size >= kFilling) continue;
    const bool first = view.segment && view.position == view.segment + kSegmentHeader;
    const auto length = static_cast<uint16_t>(view.payload.size);
    out += static_cast<char>(first ? kNewSegment : 0);
    out.append(reinterpret_cast<const char*>(&length), sizeof length);
    out += view.payload.text();
    if (view.kind() == FrameKind::commit) --most;
  }
  return out;
}

// What a writer appends: transactions with rows, a statement, a rotation and a gap; the first of these transactions
// alone; and one that goes on in a second segment.
inline std::vector<std::string> seeds() {
  std::vector<std::string> made;
  const std::string definition = build::packed({{"a", kLong}});
  const std::string other = build::packed({{"b", kVarchar, 20, false, "utf8mb4"}, {"c", kLong}});
  const std::string row = build::bytes("01 ff 00 01000000 00 02000000");
  const std::string change = build::bytes("01 ff ff 00 01000000 00 02000000");
  {
    Folder folder;
    const uint64_t start = begun(folder.path);
    JournalWriter writer(folder.path, kSegment);
    const auto table = writer.define(Bytes(definition));
    writer.rows(table, RowKind::insert, 200, 1, 2, Bytes(row));
    writer.commit(300, 1, *Gtid::parse("0-1-1"), 1);
    writer.ddl(400, 1, "shop", "ALTER TABLE orders ADD b INT", Bytes(), Bytes());
    writer.rows(table, RowKind::update, 400, 1, 1, Bytes(change));
    writer.commit(400, 1, *Gtid::parse("0e9cc2d6-9af3-11ee-a9a5-0242ac110002:7"), 3000000000);
    writer.file(4, "binlog.000002");
    writer.gap(500, "binlog.000002", "lost");
    made.push_back(input_of(folder.path, start, writer.committed()));
    made.push_back(input_of(folder.path, start, writer.committed(), 1));
  }
  {
    Folder folder;
    const uint64_t start = begun(folder.path);
    JournalWriter writer(folder.path, kSegment);
    const auto table = writer.define(Bytes(definition)), second = writer.define(Bytes(other));
    const std::string filling(kSegment * 3 / 4, 'x');
    writer.rows(table, RowKind::insert, 200, 1, 2, Bytes(row));
    writer.rows(second, RowKind::insert, 300, 1, 1, Bytes(build::bytes("02 ff 00 03'abc' 07000000")));
    writer.rows(table, RowKind::insert, 200, 1, 0, Bytes(filling));
    writer.rows(table, RowKind::insert, 200, 1, 0, Bytes(filling));
    writer.rows(table, RowKind::remove, 400, 86500, 2, Bytes(row));
    writer.commit(500, 1, *Gtid::parse("0-1-2"), 1);
    writer.rows(table, RowKind::update, 600, 86500, 1, Bytes(change));
    writer.commit(700, 1, *Gtid::parse("0-1-3"), 1);
    made.push_back(input_of(folder.path, start, writer.committed()));
  }
  return made;
}

}  // namespace relay::journals
