// Reading and parsing of frames, and the search for binlog positions.
#include "journal/journal.hpp"

#include <algorithm>

#include "base/msgpack.hpp"
#include "journal/segment.hpp"

namespace relay {
namespace {

constexpr unsigned kMaxLinks = 16;
constexpr size_t kMostKept = 1 << 16;   // limit of the cached facts of TABLE frames; beyond it they are read again
constexpr size_t kVerified = 4096;      // number of frames remembered as verified
constexpr unsigned kSequenceBits = 62;  // with a base added, it stays a signed number in the lake and in SQLite

// Reads a payload of fields with fixed widths. A tag other than the expected one makes `ok` false.
class Fields {
 public:
  Fields(Bytes payload, unsigned count, FrameKind kind) : r_(payload) {
    ok_ = r_.u8() == (0x90 | count) && r_.u8() == static_cast<uint8_t>(kind);
  }
  bool ok() const { return ok_ && r_.ok(); }
  uint32_t u32() {
    expect(0xce);
    Bytes b = r_.take(4);
    return b.data ? load_be32(b.data) : 0;
  }
  uint64_t u64() {
    expect(0xcf);
    Bytes b = r_.take(8);
    return b.data ? load_be64(b.data) : 0;
  }
  std::string_view str() { return take(0xdb).text(); }
  Bytes bin() { return take(0xc6); }

 private:
  void expect(uint8_t tag) { ok_ = (r_.u8() == tag) && ok_; }
  Bytes take(uint8_t tag) {
    expect(tag);
    Bytes b = r_.take(4);
    return b.data ? r_.take(load_be32(b.data)) : Bytes();
  }

  Reader r_;
  bool ok_;
};

[[noreturn]] void throw_damaged(const Mapping& segment, uint64_t position) {
  throw_corrupt({position, position, segment.base, {}}, "is damaged");
}

bool is_sequence(uint64_t number) { return number >> kSequenceBits == 0; }

bool at_or_before(std::string_view file, uint64_t position, std::string_view other, uint64_t other_position) {
  return !binlog_before(other, other_position, file, position);
}

}  // namespace

void throw_corrupt(const FrameView& view, const std::string& what) {
  const std::string file = segment_path("", view.segment).substr(1);
  throw JournalError("journal_corrupt", "read journal: " + file + ", offset " +
                                            std::to_string(view.position - view.segment) + ": the frame at position " +
                                            std::to_string(view.position) + " " + what);
}

bool binlog_before(std::string_view file, uint64_t position, std::string_view other_file, uint64_t other_position) {
  if (file == other_file) return position < other_position;
  auto number = [](std::string_view name) {
    return name.substr(name.rfind('.') == name.npos ? 0 : name.rfind('.') + 1);
  };
  std::string_view a = number(file), b = number(other_file);
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool TableFrame::parse(Bytes payload, TableFrame* out) {
  Fields in(payload, 3, FrameKind::table);
  out->link = in.u64();
  out->definition = in.bin();
  return in.ok();
}

bool RowsFrame::parse(Bytes payload, RowsFrame* out) {
  constexpr size_t kBody = 49;
  const uint8_t* p = payload.data;
  if (payload.size < kBody || p[0] != 0x98 || p[1] != static_cast<uint8_t>(FrameKind::rows)) return false;
  uint32_t size = load_be32(p + 45);
  if (size != payload.size - kBody) return false;
  out->kind = static_cast<RowKind>(p[6]);
  if (out->kind != RowKind::insert && out->kind != RowKind::update && out->kind != RowKind::remove) return false;
  out->table = load_be64(p + 8);
  out->end_position = load_be64(p + 17);
  out->timestamp = load_be32(p + 26);
  out->rows = load_be32(p + 31);
  out->sequence = load_be64(p + 36);
  out->body = Bytes(p + kBody, size);
  return is_sequence(out->sequence);
}

bool CommitFrame::parse(Bytes payload, CommitFrame* out) {
  constexpr size_t kGtid = 30;
  const uint8_t* p = payload.data;
  // Journals without a server here have five fields. Fields that later versions may append are ignored.
  if (payload.size < kGtid || p[0] < 0x95 || p[0] > 0x9f || p[1] != static_cast<uint8_t>(FrameKind::commit) ||
      p[2] != 0xcf || p[11] != 0xce || p[16] != 0xcf || p[25] != 0xdb)
    return false;
  Reader rest(payload.from(kGtid));
  out->position = load_be64(p + 3);
  out->timestamp = load_be32(p + 12);
  out->sequence = load_be64(p + 17);
  out->gtid = rest.take(load_be32(p + 26)).text();
  out->server = 0;
  if (p[0] >= 0x96) {
    const Bytes server = rest.take(5);
    if (!server.data || server.data[0] != 0xce) return false;
    out->server = load_be32(server.data + 1);
  }
  return rest.ok() && is_sequence(out->sequence);
}

bool FileFrame::parse(Bytes payload, FileFrame* out) {
  Fields in(payload, 3, FrameKind::file);
  out->position = in.u64();
  out->file = in.str();
  return in.ok();
}

bool SourceFrame::parse(Bytes payload, SourceFrame* out) {
  Fields in(payload, 6, FrameKind::source);
  out->position = in.u64();
  out->sequence = in.u64();
  out->file = in.str();
  out->gtid_set = in.str();
  out->identity = in.str();
  return in.ok() && is_sequence(out->sequence);
}

bool DdlFrame::parse(Bytes payload, DdlFrame* out) {
  // Journals before format 3 have five fields. Fields that later versions may append after the seventh are ignored.
  const unsigned fields = payload.size ? payload.data[0] & 0x0f : 0;
  const bool has_tables = fields >= 7;
  Fields in(payload, std::max(fields, 5u), FrameKind::ddl);
  out->end_position = in.u64();
  out->timestamp = in.u32();
  out->schema = in.str();
  out->statement = in.str();
  out->dialect = has_tables ? in.bin() : Bytes();
  out->tables = has_tables ? in.bin() : Bytes();
  return in.ok();
}

bool GapFrame::parse(Bytes payload, GapFrame* out) {
  Fields in(payload, 4, FrameKind::gap);
  out->position = in.u64();
  out->file = in.str();
  out->reason = in.str();
  return in.ok();
}

JournalReader::JournalReader(std::string directory) : directory_(std::move(directory)) {}

JournalReader::~JournalReader() = default;

const Mapping& JournalReader::segment_of(uint64_t position) {
  if (last_ && last_->holds(position)) return *last_;
  if (const Mapping* found = find_segment(position)) return *found;
  throw JournalError("journal_lost",
                     "read journal: position " + std::to_string(position) + " is not yet in " + directory_);
}

// The segment that holds the position; nullptr if the journal ends before it. Throws JournalError if it is gone.
const Mapping* JournalReader::find_segment(uint64_t position) {
  auto after = segments_.upper_bound(position);
  if (after != segments_.begin() && std::prev(after)->second->holds(position))
    return last_ = std::prev(after)->second.get();
  std::vector<uint64_t> bases = list_segments(directory_);
  auto above = std::upper_bound(bases.begin(), bases.end(), position);
  if (above == bases.begin())
    throw JournalError("journal_lost",
                       "read journal: position " + std::to_string(position) + " is no longer in " + directory_);
  std::unique_ptr<Mapping> opened = Mapping::open(directory_, *std::prev(above), false);
  if (!opened->holds(position)) {
    if (above == bases.end()) return nullptr;
    throw JournalError("journal_lost",
                       "read journal: position " + std::to_string(position) + " is missing from " + directory_);
  }
  last_ = opened.get();
  segments_[opened->base] = std::move(opened);
  return last_;
}

uint64_t JournalReader::flushed() {
  for (;;) {
    std::vector<uint64_t> bases = list_segments(directory_);
    try {
      if (!bases.empty() && header_is_blank(directory_, bases.back())) bases.pop_back();
      // Not kept mapped: if a transaction is taken back, this segment is deleted and another one gets its name.
      if (!bases.empty()) flushed_ = std::max(flushed_, Mapping::open(directory_, bases.back(), false)->flushed_now());
      return flushed_;
    } catch (const JournalError&) {
      if (list_segments(directory_) == bases) throw;
    }
  }
}

uint64_t JournalReader::first() {
  std::vector<uint64_t> bases = list_segments(directory_);
  if (bases.empty()) throw JournalError("journal_lost", "read journal: there is none in " + directory_);
  return bases.front();
}

uint64_t JournalReader::generation() { return segment_of(first()).generation; }

FrameView JournalReader::frame(uint64_t position, bool check) {
  FrameView view;
  const bool is_near = last_ && position >= last_->base + kSegmentHeader && position < last_->end();
  if (is_near && read_frame(*last_, position, check, &view) == Reading::frame) return view;
  return find_frame(position, check);
}

// Reads a frame wherever it is, or says why it cannot be read.
FrameView JournalReader::find_frame(uint64_t position, bool check) {
  FrameView view;
  for (;;) {
    const Mapping& segment = segment_of(position);
    if (position < segment.base + kSegmentHeader) position = segment.base + kSegmentHeader;
    switch (read_frame(segment, position, check, &view)) {
      case Reading::frame: return view;
      case Reading::next_segment:
        if (find_segment(segment.end())) {
          position = segment.end();
          break;
        }
        [[fallthrough]];
      case Reading::end:
        if (position < flushed()) throw_damaged(segment, position);  // there was a segment
        throw JournalError("journal_lost", "read journal: no frame at position " + std::to_string(position));
      case Reading::damaged: throw_damaged(segment, position);
    }
  }
}

bool JournalReader::next(uint64_t position, uint64_t end, uint32_t kinds, FrameView* out) {
  while (position < end) {
    *out = frame(position);
    if (!kinds || kinds >> static_cast<unsigned>(out->kind()) & 1) {
      *out = frame(position, true);
      return true;
    }
    position = out->next;
  }
  return false;
}

FrameView JournalReader::verified(uint64_t position) {
  if (verified_.empty()) verified_.assign(kVerified, ~uint64_t{0});
  uint64_t& place = verified_[position / 8 % kVerified];
  FrameView view = frame(position, place != position);
  place = position;
  return view;
}

uint64_t JournalReader::segment(uint64_t position) { return segment_of(position).base; }

TableFrame JournalReader::table(uint64_t table) {
  TableFrame found;
  table_frame(table, &found);
  return found;
}

// Follows the links. A later frame names the first one, so that what cannot be read here is damaged and not lost.
FrameView JournalReader::table_frame(uint64_t table, TableFrame* out) {
  FrameView view{table, table, segment_of(table).base, {}};
  for (unsigned links = 0; links < kMaxLinks; ++links) {
    const Mapping& segment = segment_of(view.position);
    if (read_frame(segment, view.position, true, &view) != Reading::frame) throw_damaged(segment, view.position);
    *out = parsed<TableFrame>(view);
    if (out->link == 0 || out->link == kUnresolved) return view;
    if (out->link < view.next || !find_segment(out->link)) break;  // the definition of a proof comes later
    view.position = out->link;
  }
  throw_corrupt(view, "leads to no table definition");
}

std::shared_ptr<const Definition> JournalReader::definition(uint64_t table) {
  auto known = definitions_.find(table);
  if (known != definitions_.end()) return known->second;
  TableFrame found;
  const FrameView view = table_frame(table, &found);
  std::string error;
  std::shared_ptr<const Definition> definition = Definition::parse(found.definition, &error);
  if (!definition) throw_corrupt(view, "holds no readable definition: " + error);
  if (definitions_.size() >= kMostKept) definitions_.clear();
  definitions_[table] = definition;
  return definition;
}

uint32_t JournalReader::table_number(uint64_t table) {
  const auto known = numbers_.find(table);
  if (known != numbers_.end()) return known->second;
  const TableFrame frame = this->table(table);
  if (frame.link) return 0;
  const auto [schema, name] = table_name(table);
  if (numbers_.size() >= kMostKept) numbers_.clear();
  return numbers_[table] = table_number(schema, name);
}

uint32_t JournalReader::table_number(std::string_view schema, std::string_view name) {
  const auto next = static_cast<uint32_t>(numbered_.size() + 1);
  return numbered_.try_emplace({std::string(schema), std::string(name)}, next).first->second;
}

std::shared_ptr<const Definition> JournalReader::definition_at(uint64_t position) {
  const FrameView view = frame(position, true);
  return view.kind() == FrameKind::rows ? definition(parsed<RowsFrame>(view).table) : nullptr;
}

std::pair<std::string, std::string> JournalReader::table_name(uint64_t table) {
  TableFrame found;
  const FrameView view = table_frame(table, &found);
  std::pair<std::string, std::string> name;
  if (!Definition::names(found.definition, &name.first, &name.second)) throw_corrupt(view, "names no table");
  return name;
}

bool JournalReader::torn(uint64_t segment, uint64_t until, FrameView* commit) {
  FrameView view = frame(segment);
  uint64_t next = parsed<SourceFrame>(view).sequence;
  bool missed = false;
  for (uint64_t at = view.next; at < until; at = view.next) {
    view = frame(at);
    if (view.kind() == FrameKind::rows) {
      const auto rows = parsed<RowsFrame>(view);
      missed |= rows.sequence > next;
      if (!missed) return false;
      next = rows.sequence + rows.rows;
    } else if (view.kind() == FrameKind::ddl) {
      ++next;
    } else if (view.kind() == FrameKind::commit) {
      *commit = view;
      return missed || parsed<CommitFrame>(view).sequence > next;
    } else if (view.kind() != FrameKind::table && view.kind() != FrameKind::source) {
      return false;
    }
  }
  return false;
}

void JournalReader::release_before(uint64_t position) {
  const size_t before = segments_.size();
  while (!segments_.empty() && segments_.begin()->second->end() <= position) {
    if (last_ == segments_.begin()->second.get()) last_ = nullptr;
    segments_.erase(segments_.begin());
  }
  if (segments_.size() == before) return;
  numbers_.clear();
  const uint64_t first = segments_.empty() ? 0 : segments_.begin()->first;
  for (auto each = definitions_.begin(); each != definitions_.end();) {
    each = each->first < first ? definitions_.erase(each) : std::next(each);
  }
}

uint64_t JournalReader::locate(std::string_view file, uint64_t position, uint64_t committed) {
  // The last segment that begins at or before the binlog position. The SOURCE frame of a segment says where it begins.
  std::vector<uint64_t> bases = list_segments(directory_);
  SourceFrame source;
  auto begins_before = [&](uint64_t base) {
    source = parsed<SourceFrame>(frame(base));
    return source.file.empty() || at_or_before(source.file, source.position, file, position);
  };
  while (!bases.empty() && (bases.back() >= committed || !begins_before(bases.back()))) bases.pop_back();
  if (bases.empty())
    throw JournalError("journal_lost",
                       "find " + std::string(file) + ":" + std::to_string(position) + ": the journal begins later");
  // A segment may begin within a transaction; then the binlog position lies in an earlier segment.
  for (; !bases.empty(); bases.pop_back()) {
    uint64_t found = find_boundary(bases.back(), file, position, committed);
    if (found) return found;
    if (bases.size() == 1) break;
  }
  return bases.front();
}

// The last end of a transaction or change of file at or before the binlog position, walking from the segment at `base`;
// 0 if there is none.
uint64_t JournalReader::find_boundary(uint64_t base, std::string_view file, uint64_t position, uint64_t committed) {
  uint64_t found = 0;
  std::string current;
  bool open = false;
  for (uint64_t at = base; at < committed;) {
    const FrameView view = frame(at);
    at = view.next;
    if (view.kind() == FrameKind::source) {
      const auto source = parsed<SourceFrame>(view);
      if (open) continue;
      if (!at_or_before(source.file, source.position, file, position)) break;
      current = source.file;
      if (view.position == base + kSegmentHeader) continue;
    } else if (view.kind() == FrameKind::commit) {
      if (!at_or_before(current, parsed<CommitFrame>(view).position, file, position)) break;
      open = false;
    } else if (view.kind() == FrameKind::file) {
      const auto rotated = parsed<FileFrame>(view);
      if (!at_or_before(rotated.file, rotated.position, file, position)) break;
      current = rotated.file;
    } else {
      open = open || view.kind() != FrameKind::table;
      continue;
    }
    found = at;
  }
  return found;
}

}  // namespace relay
