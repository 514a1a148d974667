// Appending, flushing and retiring of segments.
#include "journal/journal_writer.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/crc.hpp"
#include "base/msgpack.hpp"
#include "journal/system_calls.hpp"

namespace relay {
namespace {

#ifndef MADV_POPULATE_READ  // since Linux 5.14; missing in older headers
#define MADV_POPULATE_READ 22
#endif

constexpr size_t kNumbers = 64;  // larger than the fixed-width part of any frame

size_t table_payload(std::string_view definition) { return 11 + 5 + definition.size(); }

// Writes length and CRC before a payload that is already in its position. The length comes last: it makes the frame
// visible.
void seal(uint8_t* frame, size_t length) {
  store(frame + 4, crc32c(Bytes(frame + kFrameHeader, length)));
  store_length(frame, static_cast<uint32_t>(length));
}

uint8_t* put_head(uint8_t* p, unsigned fields, FrameKind kind) {
  return msgpack::put_small(msgpack::put_array(p, fields), static_cast<unsigned>(kind));
}

// Writes the payload of a SOURCE frame; returns its end.
uint8_t* put_source(uint8_t* p, const JournalState& state, std::string_view gtids) {
  p = put_head(p, 6, FrameKind::source);
  p = msgpack::put_u64(p, state.position);
  p = msgpack::put_u64(p, state.sequence);
  p = msgpack::put_str(p, state.file);
  p = msgpack::put_str(p, gtids);
  return msgpack::put_str(p, state.identity);
}

}  // namespace

JournalWriter::JournalWriter(std::string directory, uint64_t segment_bytes, uint64_t generation)
    : directory_(std::move(directory)), segment_bytes_(segment_bytes), generation_(generation) {
  std::error_code failed;
  std::filesystem::create_directories(directory_, failed);
  if (failed) throw_system("journal_lost", "make journal directory", directory_, failed.value());
  settle_syncs(directory_);
  folder_ = std::make_unique<Directory>(directory_);
  note_ = std::make_unique<SyncNote>(SyncNote::of_journal(directory_));
  recover();
}

JournalWriter::~JournalWriter() = default;

uint64_t JournalWriter::first() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bases_.front();
}

// Marks everything appended so far as complete, and publishes it unless that is on hold.
void JournalWriter::end_at_boundary() {
  open_ = false;
  boundary_ = end_;
  if (publishing_paused_ || unresolved_) return;
  marks_.commit(end_);
}

void JournalWriter::pause_publishing(bool on) {
  publishing_paused_ = on;
  if (!open_) end_at_boundary();
}

// Starts a new current segment, with room for frames of `room` bytes after its SOURCE frame.
void JournalWriter::start_segment(uint64_t base, uint64_t room, const JournalState& state) {
  std::string gtids = state.gtids.text();
  uint64_t source = frame_size(kNumbers + state.file.size() + gtids.size() + state.identity.size());
  uint64_t size = std::max(segment_bytes_, kSegmentHeader + source + room + kFrameHeader);
  size = (size + kPage - 1) / kPage * kPage;
  std::shared_ptr<Mapping> made = Mapping::create(directory_, generation_, base, size, flushed());
  uint8_t* frame = made->data + kSegmentHeader;
  size_t length = static_cast<size_t>(put_source(frame + kFrameHeader, state, gtids) - frame) - kFrameHeader;
  seal(frame, length);
  made->appear(directory_);
  if (segment_) store_length(segment_->at(end_), kContinues);
  for (Table& table : tables_) table.position = 0;
  segment_ = std::move(made);
  end_ = base + kSegmentHeader + frame_size(length);
  std::lock_guard<std::mutex> lock(mutex_);
  dirty_.push_back(segment_);
  bases_.push_back(base);
  segment_->raise_flushed(flushed());  // another thread may have flushed since it was made
}

void JournalWriter::make_room(uint64_t bytes) {
  if (!has_room(bytes)) start_segment(segment_->end(), bytes, state_);
}

void JournalWriter::append(const uint8_t* payload_end) {
  size_t length = static_cast<size_t>(payload_end - payload());
  seal(segment_->at(end_), length);
  end_ += frame_size(length);
}

JournalWriter::Handle JournalWriter::define(Bytes definition, bool pending) {
  Handle handle;
  if (free_.empty()) {
    handle = static_cast<Handle>(tables_.size());
    tables_.emplace_back();
  } else {
    handle = free_.back();
    free_.pop_back();
    tables_[handle] = Table();
  }
  tables_[handle].defined = true;
  tables_[handle].definition = definition.text();
  tables_[handle].pending = pending;
  return handle;
}

void JournalWriter::release(Handle table) {
  tables_[table] = Table();
  free_.push_back(table);
}

void JournalWriter::forget(Handle handle) {
  Table& table = known(handle);
  if (table.pending)
    table.forgotten = true;
  else
    release(handle);
}

JournalWriter::Table& JournalWriter::known(Handle handle) {
  if (handle >= tables_.size() || !tables_[handle].defined)
    throw JournalError("unexpected", "append to journal: no table is defined as " + std::to_string(handle));
  return tables_[handle];
}

void JournalWriter::put_table(Table& table, uint64_t link) {
  uint8_t* p = put_head(payload(), 3, FrameKind::table);
  p = msgpack::put_u64(p, link);
  p = msgpack::put_bin(p, Bytes(table.definition));
  table.position = end_;
  append(p);
}

void JournalWriter::resolve(Handle handle, Bytes definition) {
  Table& table = known(handle);
  if (!table.pending) return;
  table.resolution = definition.text();
  table.resolving = true;
  if (open_) return;
  make_room(frame_size(table_payload(table.resolution)));
  resolve_now(table);
  end_at_boundary();
}

// Room must have been made before: the links must not point at a frame that could not be written.
void JournalWriter::resolve_now(Table& table) {
  std::vector<uint64_t> waiting = std::move(table.unresolved);
  table.unresolved.clear();
  table.pending = table.resolving = false;
  uint64_t resolved = 0;
  if (!table.resolution.empty()) {
    table.definition = std::move(table.resolution);
    table.position = 0;
    if (!waiting.empty()) {
      put_table(table, 0);
      resolved = table.position;
    }
  }
  for (uint64_t position : waiting) link(position, resolved);
  if (!waiting.empty()) --unresolved_;
  if (table.forgotten) release(static_cast<Handle>(&table - tables_.data()));
}

void JournalWriter::link(uint64_t table_position, uint64_t resolved) {
  std::unique_ptr<Mapping> earlier;
  Mapping* segment = segment_.get();
  if (!segment->holds(table_position)) {
    std::vector<uint64_t> bases = list_segments(directory_);
    auto after = std::upper_bound(bases.begin(), bases.end(), table_position);
    earlier = Mapping::open(directory_, *std::prev(after), true);
    segment = earlier.get();
  }
  uint8_t* frame = segment->at(table_position);
  msgpack::put_u64(frame + kFrameHeader + 2, resolved);
  seal(frame, load<uint32_t>(frame));
  if (!earlier) return;
  note_->begin();
  sync(*earlier);
  note_->end();
}

void JournalWriter::sync(const Mapping& segment) {
  if (int error = sync_data(segment.fd)) fail_sync(segment_path(directory_, segment.base), error);
}

void JournalWriter::fail_sync(const std::string& path, int error) {
  note_->fail();
  throw JournalError("sync_failed", "flush journal: " + path + ": " + std::strerror(error));
}

void JournalWriter::rows(Handle handle, RowKind kind, uint64_t end_position, uint32_t timestamp, uint32_t rows,
                         Bytes body) {
  Table& table = known(handle);
  uint64_t own = frame_size(kNumbers + body.size);
  uint64_t definition = frame_size(table_payload(table.definition));
  if (!has_room(own + (table.position ? 0 : definition))) start_segment(segment_->end(), own + definition, state_);
  if (!table.position) {
    put_table(table, table.pending ? kUnresolved : 0);
    if (table.pending) {
      if (table.unresolved.empty()) ++unresolved_;
      table.unresolved.push_back(table.position);
    }
  }
  uint8_t* p = put_head(payload(), 8, FrameKind::rows);
  p = msgpack::put_u32(p, static_cast<uint32_t>(kind));
  p = msgpack::put_u64(p, table.position);
  p = msgpack::put_u64(p, end_position);
  p = msgpack::put_u32(p, timestamp);
  p = msgpack::put_u32(p, rows);
  p = msgpack::put_u64(p, sequence_);
  p = msgpack::put_bin(p, body);
  append(p);
  sequence_ += rows;
  open_ = true;
}

void JournalWriter::ddl(uint64_t end_position, uint32_t timestamp, std::string_view schema, std::string_view statement,
                        Bytes dialect, Bytes tables) {
  make_room(frame_size(kNumbers + schema.size() + statement.size() + dialect.size + tables.size));
  uint8_t* p = put_head(payload(), 7, FrameKind::ddl);
  p = msgpack::put_u64(p, end_position);
  p = msgpack::put_u32(p, timestamp);
  p = msgpack::put_str(p, schema);
  p = msgpack::put_str(p, statement);
  p = msgpack::put_bin(p, dialect);
  p = msgpack::put_bin(p, tables);
  append(p);
  ++sequence_;
  open_ = true;
}

void JournalWriter::commit(uint64_t position, uint32_t timestamp, const Gtid& gtid, uint32_t server) {
  std::string text = gtid.text();
  uint64_t room = frame_size(kNumbers + text.size());
  bool resolving = unresolved_ != 0;
  if (resolving)
    for (const Table& table : tables_)
      if (table.resolving) room += frame_size(table_payload(table.resolution));
  make_room(room);
  if (resolving)
    for (Table& table : tables_)
      if (table.resolving) resolve_now(table);
  uint8_t* p = put_head(payload(), 6, FrameKind::commit);
  p = msgpack::put_u64(p, position);
  p = msgpack::put_u32(p, timestamp);
  p = msgpack::put_u64(p, sequence_);
  p = msgpack::put_str(p, text);
  p = msgpack::put_u32(p, server);
  append(p);
  state_.position = position;
  state_.gtids.add(gtid);
  state_.sequence = sequence_;
  end_at_boundary();
}

void JournalWriter::rollback() {
  if (end_ == boundary_) return;
  cut_to(boundary_);
  sequence_ = state_.sequence;
  open_ = false;
  for (Table& table : tables_) {
    if (!segment_->holds(table.position) || table.position >= boundary_) table.position = 0;
    auto& waiting = table.unresolved;
    bool waited = !waiting.empty();
    waiting.erase(std::lower_bound(waiting.begin(), waiting.end(), boundary_), waiting.end());
    if (waited && waiting.empty()) --unresolved_;
  }
  for (Handle handle = 0; handle < tables_.size(); ++handle) {
    if (!tables_[handle].resolving) continue;
    const std::string resolution = tables_[handle].resolution;  // `resolve` changes the table
    resolve(handle, Bytes(resolution));
  }
}

void JournalWriter::source(uint64_t position, std::string_view file, const GtidSet& gtids, std::string_view identity) {
  std::string set = gtids.text();
  make_room(frame_size(kNumbers + file.size() + set.size() + identity.size()));
  state_ = {std::string(file), position, gtids, std::string(identity), sequence_};
  append(put_source(payload(), state_, set));
  end_at_boundary();
}

void JournalWriter::file(uint64_t position, std::string_view file) {
  make_room(frame_size(kNumbers + file.size()));
  uint8_t* p = put_head(payload(), 3, FrameKind::file);
  p = msgpack::put_u64(p, position);
  p = msgpack::put_str(p, file);
  append(p);
  state_.file = file;
  state_.position = position;
  end_at_boundary();
}

void JournalWriter::gap(uint64_t position, std::string_view file, std::string_view reason) {
  make_room(frame_size(kNumbers + file.size() + reason.size()));
  uint8_t* p = put_head(payload(), 4, FrameKind::gap);
  p = msgpack::put_u64(p, position);
  p = msgpack::put_str(p, file);
  p = msgpack::put_str(p, reason);
  append(p);
  end_at_boundary();
}

uint64_t JournalWriter::flush() {
  std::vector<std::shared_ptr<Mapping>> dirty;
  bool grown;
  uint64_t upto = committed();  // read before the list, so that everything committed lies in segments on the list
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dirty = dirty_;
    grown = dirty_.size() > 1 || !flushed();
  }
  if (upto == flushed()) return upto;
  if (flushed() && note_->trust() == SyncNote::Trust::none)
    throw JournalError("sync_failed", "flush journal: " + directory_ + ": an earlier flush has failed");
  note_->begin();
  for (const auto& segment : dirty) sync(*segment);
  if (grown)
    if (int error = folder_->sync()) fail_sync(directory_, error);
  note_->end();
  std::lock_guard<std::mutex> lock(mutex_);
  // The last segment stays on the list, because it is still written; a rollback may have made another one the last.
  size_t done = 0;
  while (done + 1 < std::min(dirty.size(), dirty_.size()) && dirty_[done] == dirty[done]) ++done;
  dirty_.erase(dirty_.begin(), dirty_.begin() + static_cast<std::ptrdiff_t>(done));
  marks_.flush(upto);
  dirty_.back()->raise_flushed(upto);
  return upto;
}

void JournalWriter::prepare(uint64_t bytes) {
  const uint64_t from = committed();
  std::shared_ptr<Mapping> segment;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    segment = dirty_.back();
  }
  const uint64_t begin = std::max({from, prepared_, segment->base}), end = std::min(from + bytes, segment->end());
  if (begin >= end) return;
  const uint64_t skew = (begin - segment->base) % kPage;
  // Reads the pages, because writing would make pages dirty too early. Kernels before 5.14 refuse; then the first store
  // to each page loads it, as usual.
  madvise(segment->at(begin - skew), end - begin + skew, MADV_POPULATE_READ);
  prepared_ = end;
}

std::vector<JournalWriter::SegmentFacts> JournalWriter::segments() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentFacts> facts;
  for (uint64_t base : bases_) {
    std::string path = segment_path(directory_, base);
    struct stat st{};
    if (stat(path.c_str(), &st) != 0) throw_system("journal_lost", "look at journal segment", path, errno);
    facts.push_back({base, base + static_cast<uint64_t>(st.st_size), st.st_mtim.tv_sec});
  }
  return facts;
}

void JournalWriter::drop_before(uint64_t position) {
  std::lock_guard<std::mutex> lock(mutex_);
  position = std::min(position, committed());
  while (bases_.size() > 1 && bases_[1] <= position) {
    std::string path = segment_path(directory_, bases_.front());
    if (unlink(path.c_str()) != 0 && errno != ENOENT)
      throw_system("journal_lost", "delete journal segment", path, errno);
    bases_.erase(bases_.begin());
  }
}

}  // namespace relay
