// Recovery when a writer opens the journal: finds the end of the last complete transaction and discards everything
// after it.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "journal/journal_writer.hpp"
#include "journal/system_calls.hpp"

namespace relay {
namespace {

constexpr uint64_t kWorthACall = 1 << 20;  // below this size, memset is faster than a system call

void zero(Mapping& segment, uint64_t from, uint64_t to) {
  uint64_t page = std::min((from + kPage - 1) / kPage * kPage, to);
  std::memset(segment.at(from), 0, page - from);
  if (to - page >= kWorthACall &&
      fallocate(segment.fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(page - segment.base),
                static_cast<off_t>(to - page)) == 0)
    return;
  static const uint8_t kBlank[kPage] = {};
  for (; page < to; page += kPage) {  // a blank page need not become dirty
    uint64_t n = std::min(kPage, to - page);
    if (std::memcmp(segment.at(page), kBlank, n) != 0) std::memset(segment.at(page), 0, n);
  }
}

void sync_all(const std::vector<std::unique_ptr<Mapping>>& segments, const std::string& directory) {
  int error = 0;
  for (const auto& segment : segments)
    if (int failed = sync_data(segment->fd)) error = failed;
  if (!error) error = Directory(directory).sync();
  if (error) throw JournalError("sync_failed", "write journal anew: " + directory + ": " + std::strerror(error));
}

// Removes segments that the last writer was creating when it was killed.
void remove_unfinished(const std::string& directory) {
  std::error_code failed;
  std::filesystem::directory_iterator entry(directory, failed);
  while (!failed && entry != std::filesystem::directory_iterator()) {
    if (entry->path().extension() == ".new") std::filesystem::remove(entry->path(), failed);
    if (!failed) entry.increment(failed);
  }
  if (failed) throw_system("journal_lost", "remove unfinished journal segments", directory, failed.value());
}

uint64_t random_generation() {
  uint64_t v = 0;
  while (v == 0)
    if (getrandom(&v, sizeof v, 0) != sizeof v) throw JournalError("environment", "make journal: no random numbers");
  return v;
}

}  // namespace

void settle_syncs(const std::string& directory) {
  SyncNote note(SyncNote::of_journal(directory));
  if (note.trust() != SyncNote::Trust::unknown) return;
  const std::vector<uint64_t> bases = list_segments(directory);
  std::vector<std::unique_ptr<Mapping>> segments;
  uint64_t safe = 0;
  for (auto base = bases.rbegin(); base != bases.rend() && (segments.empty() || segments.back()->base > safe); ++base) {
    segments.push_back(Mapping::open(directory, *base, true));
    if (segments.size() == 1) safe = segments.back()->flushed_now();
  }
  auto flip = [&] {  // changes a byte of each page: the kernel may skip pages that did not change
    for (const auto& segment : segments) {
      *segment->spare() ^= 0xff;
      for (uint64_t at = std::max(segment->base + kSegmentHeader, safe); at < segment->end();
           at += kPage - (at - segment->base) % kPage)
        *segment->at(at) ^= 0xff;
    }
  };
  note.fail();  // while the bytes are wrong
  flip();
  sync_all(segments, directory);
  flip();
  sync_all(segments, directory);
  note.settle();
}

void JournalWriter::recover() {
  remove_unfinished(directory_);
  bases_ = list_segments(directory_);
  const SyncNote::Trust trust = note_->trust();
  while (!bases_.empty() &&
         header_is_blank(directory_, bases_.back())) {  // the host failed before their first page was written
    unlink(segment_path(directory_, bases_.back()).c_str());
    bases_.pop_back();
  }
  if (bases_.empty()) {
    if (!generation_) generation_ = random_generation();
    start_segment(0, 0, state_);
    end_at_boundary();
    flush();
    note_->settle();
    return;
  }
  uint64_t safe, scan;
  {
    auto last = Mapping::open(directory_, bases_.back(), false);
    generation_ = last->generation;
    safe = last->flushed_now();
    scan = last->flushed;  // what was written since this segment was made may have been lost when the host failed
  }
  if (trust == SyncNote::Trust::none && !safe) {  // not even its beginning is safe
    for (uint64_t base : bases_) unlink(segment_path(directory_, base).c_str());
    bases_.clear();
    return recover();
  }
  auto after = std::upper_bound(bases_.begin(), bases_.end(), scan);
  size_t from = after == bases_.begin() ? 0 : static_cast<size_t>(after - bases_.begin()) - 1;
  uint64_t cut = find_cut(from);
  // Other processes may depend on anything before the flushed position: it cannot be cut away and written again.
  if (cut < safe || !cut)
    throw JournalError("journal_corrupt", "recover journal: " + segment_path(directory_, bases_[from]) +
                                              ": it is damaged before position " + std::to_string(safe) +
                                              ", which was on disk already");
  if (trust == SyncNote::Trust::none) cut = safe;
  replay_state(from, cut);
  for (size_t i = from; i < bases_.size() && bases_[i] <= cut; ++i)
    dirty_.push_back(Mapping::open(directory_, bases_[i], true));
  segment_ = dirty_.back();
  cut_to(cut);
  sequence_ = state_.sequence;
  end_at_boundary();
  flush();
  note_->settle();
  if (segment_->version == kVersion) return;
  // An older release that knows only the previous version must refuse what is written from now on, not skip it.
  start_segment(segment_->end(), 0, state_);
  end_at_boundary();
  flush();
}

// The end of the last complete transaction whose definitions are all proven, or 0 if nothing can be read.
uint64_t JournalWriter::find_cut(size_t from) const {
  std::vector<uint64_t> boundaries;
  std::vector<std::pair<uint64_t, uint64_t>> links;  // TABLE frame and its link
  std::unordered_set<uint64_t> targets;
  bool open = false;
  uint64_t expected = bases_[from];
  for (size_t i = from; i < bases_.size() && bases_[i] == expected && !header_is_blank(directory_, expected); ++i) {
    auto segment = Mapping::open(directory_, bases_[i], false);
    if (segment->generation != generation_) break;
    FrameView frame;
    uint64_t position = segment->base + kSegmentHeader;
    Reading step;
    for (; (step = read_frame(*segment, position, true, &frame)) == Reading::frame; position = frame.next) {
      FrameKind kind = frame.kind();
      if (position == segment->base + kSegmentHeader && kind != FrameKind::source) break;
      bool target = false;
      TableFrame table;
      if (kind == FrameKind::table && TableFrame::parse(frame.payload, &table)) {
        target = targets.count(position) != 0;
        if (table.link) {
          links.emplace_back(position, table.link);
          targets.insert(table.link);
        }
      } else if (kind == FrameKind::rows || kind == FrameKind::ddl) {
        open = true;
      } else if (kind == FrameKind::commit) {
        open = false;
      }
      bool content = kind == FrameKind::rows || kind == FrameKind::ddl || (kind == FrameKind::table && !target);
      if (!open && !content) boundaries.push_back(frame.next);
    }
    if (step != Reading::next_segment) break;
    expected = segment->end();
  }
  if (boundaries.empty()) return 0;
  uint64_t cut = boundaries.back();
  // A definition that never came, or that the cut removes, also removes its transaction and all after it.
  for (auto link = links.begin(); link != links.end();) {
    bool dangling = link->first < cut && link->second >= cut;
    if (!dangling) {
      ++link;
      continue;
    }
    auto after = std::upper_bound(boundaries.begin(), boundaries.end(), link->first);
    if (after == boundaries.begin()) return 0;
    cut = *std::prev(after);
    link = links.begin();
  }
  return cut;
}

void JournalWriter::replay_state(size_t from, uint64_t cut) {
  std::unique_ptr<Mapping> segment;
  for (size_t i = from; i < bases_.size() && bases_[i] < cut; ++i) {
    segment = Mapping::open(directory_, bases_[i], false);
    FrameView frame;
    for (uint64_t position = segment->base + kSegmentHeader;
         position < cut && read_frame(*segment, position, false, &frame) == Reading::frame; position = frame.next) {
      bool first = i == from && position == segment->base + kSegmentHeader;
      switch (frame.kind()) {
        case FrameKind::commit: {
          const auto commit = parsed<CommitFrame>(frame);
          state_.position = commit.position;
          state_.sequence = commit.sequence;
          if (auto gtid = Gtid::parse(commit.gtid)) state_.gtids.add(*gtid);
          break;
        }
        case FrameKind::file: {
          const auto file = parsed<FileFrame>(frame);
          state_.position = file.position;
          state_.file = file.file;
          break;
        }
        case FrameKind::source: {
          // A frame that opens a later segment, perhaps within a transaction, repeats what is already known.
          if (!first && position == segment->base + kSegmentHeader) break;
          const auto source = parsed<SourceFrame>(frame);
          auto gtids = GtidSet::parse(source.gtid_set);
          if (!gtids) throw_corrupt(frame, "has a GTID set that cannot be read");
          state_.position = source.position;
          state_.sequence = source.sequence;
          state_.file = source.file;
          state_.gtids = std::move(*gtids);
          state_.identity = source.identity;
          break;
        }
        default: break;
      }
    }
  }
}

// Deletes later segments and blanks the rest of this one, so that no stale frame can be taken for a new one.
void JournalWriter::cut_to(uint64_t position) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t blank_to = std::min(end_ + kFrameHeader, segment_->end());
  bool whole = end_ == 0;  // during recovery, nothing is known of what follows
  while (bases_.back() > position) {
    std::string path = segment_path(directory_, bases_.back());
    if (unlink(path.c_str()) != 0 && errno != ENOENT)
      throw_system("journal_lost", "delete journal segment", path, errno);
    bases_.pop_back();
    whole = true;
  }
  while (!dirty_.empty() && dirty_.back()->base > position) dirty_.pop_back();
  if (dirty_.empty()) dirty_.push_back(Mapping::open(directory_, bases_.back(), true));
  segment_ = dirty_.back();
  segment_->raise_flushed(flushed());
  zero(*segment_, position, whole ? segment_->end() : blank_to);
  end_ = position;
}

}  // namespace relay
