// The ingest's main loop: packets, events, checksums, payloads and groups.
#include "binlog/ingest.hpp"

#include <algorithm>

#include "base/crc.hpp"

namespace relay {

Ingest::Ingest(JournalWriter& writer, std::string directory, IngestLimits limits, Inflate inflate)
    : writer_(writer),
      limits_(limits),
      inflate_(inflate),
      packets_(limits.event_bytes + 1),
      log_(directory, writer.end()),
      spill_(std::move(directory)) {}

std::string Ingest::where() const { return file_ + ':' + std::to_string(start_); }

void Ingest::malformed(const std::string& what) const {
  throw StreamError("unknown_event", "read the binlog", where(), what);
}

bool Ingest::ask(Asks asks, const Event& event, Attention* out) const {
  *out = Attention();
  out->asks = asks;
  out->file = file_;
  out->start = start_;
  out->position = end_;
  out->timestamp = event.timestamp;
  out->type = event.type;
  out->flags = event.flags;
  out->gtid = group_.gtid.text();
  out->in_transaction = group_.open && group_.begun;
  return false;
}

bool Ingest::ask_unknown(const Event& event, std::string message, Attention* out) {
  if (answer_ == Answer::skip) return true;
  ask(Asks::unknown, event, out);
  out->message = std::move(message);
  constexpr size_t kShown = 1024;
  out->body.assign(event.body.text().substr(0, kShown));
  return false;
}

void Ingest::ddl(std::string statement, std::string dialect, std::string tables) {
  answer_ = Answer::record;
  recorded_ = {std::move(statement), std::move(dialect), std::move(tables)};
}

void Ingest::skip() { answer_ = Answer::skip; }

Ingest::Resume Ingest::resume() const {
  const JournalState& state = writer_.state();
  Resume resume{state.file, state.position, state.gtids, true};
  for (const PreparedLog::Entry& entry : log_.prepared()) {
    if (prepared_.count(entry.xid)) continue;
    if (auto gtid = Gtid::parse(entry.gtid); gtid && !gtid->mariadb)
      resume.gtids.remove(*gtid);
    else
      resume.by_gtid_possible = false;
    if (binlog_before(entry.file, entry.start, resume.file, resume.position)) {
      resume.file = entry.file;
      resume.position = entry.start;
    }
  }
  return resume;
}

size_t Ingest::forget_prepared() {
  size_t lost = log_.prepared().size();
  prepared_.clear();
  prepared_bytes_ = 0;
  log_.clear();
  return lost;
}

void Ingest::start(std::string_view file, uint64_t position, bool by_gtid) {
  writer_.rollback();
  packets_.clear();
  inner_.clear();
  inner_at_ = 0;
  inner_left_ = 0;
  in_payload_ = false;
  answer_ = Answer::none;
  group_ = Group();
  collected_.reset();
  tables_.clear();
  forget_known();
  last_ = nullptr;
  checksum_ = Checksum::unknown;
  mark_ = Mark();
  file_ = file;
  at_ = start_ = end_ = position;
  by_gtid_ = by_gtid;
  const JournalState& state = writer_.state();
  skip_file_ = state.file;
  skip_to_ = state.position;
  skipping_ = !by_gtid && !state.file.empty() && binlog_before(file, position, state.file, state.position);
}

bool Ingest::step(Attention* out) {
  for (;;) {
    if (stop_at_boundary_ && !group_.open && !in_payload_) {
      ask(Asks::boundary, Event(), out);
      return true;
    }
    Bytes payload;
    switch (packets_.front(&payload)) {
      case PacketBuffer::Front::incomplete: return false;
      case PacketBuffer::Front::too_large:
        throw StreamError("unknown_event", "read the binlog", where(),
                          "an event is larger than " + std::to_string(limits_.event_bytes) + " bytes");
      case PacketBuffer::Front::packet: break;
    }
    if (!packet(payload, out)) return true;
    packets_.pop();
    answer_ = Answer::none;
  }
}

// True if the packet is processed, false if the ingest needs a reply.
bool Ingest::packet(Bytes payload, Attention* out) {
  constexpr uint8_t kOk = 0x00, kError = 0xff, kEnd = 0xfe;
  constexpr size_t kLongestEnd = 9;
  Reader in(payload);
  uint8_t kind = in.u8();
  if (!in.ok()) malformed("an empty packet");
  if (kind == kOk) return outer_event(in.rest(), out);
  ask(Asks::end, Event(), out);
  if (kind == kEnd && payload.size < kLongestEnd) return false;
  if (kind != kError) malformed("a packet that is neither an event nor an error");
  out->asks = Asks::error;
  out->code = in.u16();
  std::string_view text = in.rest().text();
  if (text.size() >= 6 && text[0] == '#') text.remove_prefix(6);  // SQLSTATE
  out->message = text;
  return false;
}

// Checks the event's checksum and returns the event without it.
Bytes Ingest::verified(Bytes bytes) {
  if (bytes.size < kEventHeader + kEventChecksum) return bytes;
  size_t covered = bytes.size - kEventChecksum;
  uint32_t sum;
  if (bytes.data[4] == kFormatDescriptionEvent) {
    uint8_t flags = static_cast<uint8_t>(bytes.data[17] & ~kInUseFlag);
    sum = crc32(Bytes(&flags, 1), crc32(bytes.sub(0, 17)));
    sum = crc32(bytes.sub(18, covered - 18), sum);
  } else {
    sum = crc32(bytes.sub(0, covered));
  }
  if (sum == load<uint32_t>(bytes.data + covered)) return bytes.sub(0, covered);
  // Before the first FORMAT_DESCRIPTION it is not known whether there are checksums. At a change of file, the dump
  // thread's own events may still follow the last file.
  bool undecided = checksum_ == Checksum::unknown || bytes.data[4] == kRotateEvent;
  if (undecided && load<uint16_t>(bytes.data + 17) & kArtificialFlag) return bytes;
  throw StreamError("checksum_mismatch", "read the binlog", where(),
                    "the checksum of an event of " + std::to_string(bytes.size) + " bytes does not match its content");
}

bool Ingest::outer_event(Bytes bytes, Attention* out) {
  start_ = at_;
  Event e;
  if (bytes.size < kEventHeader || load<uint32_t>(bytes.data + 9) != bytes.size)
    malformed("an event of the wrong size");
  bool artificial = load<uint16_t>(bytes.data + 17) & kArtificialFlag;
  bool describes = bytes.data[4] == kFormatDescriptionEvent;
  size_t checksum = 0;
  if (describes) {
    checksum = kEventChecksum;  // the bytes are there even if checksums are off
    if (bytes.size < kEventHeader + kEventChecksum + 1) malformed("a FORMAT_DESCRIPTION without its end");
    if (bytes.data[bytes.size - kEventChecksum - 1] == 1) verified(bytes);
  } else if (checksum_ == Checksum::crc32 ||
             (artificial && (checksum_ == Checksum::unknown || bytes.data[4] == kRotateEvent))) {
    checksum = bytes.size - verified(bytes).size;
  } else if (checksum_ == Checksum::unknown) {
    malformed("an event before the FORMAT_DESCRIPTION");
  }
  if (!Event::parse(bytes, checksum, &e)) malformed("an event of the wrong size");
  end_ = end_of(e, bytes.size);
  if (end_ != at_) start_ = end_ - std::min<uint64_t>(bytes.size, end_);
  bool in_group = group_.open;
  if (!event(e, out)) return false;
  if (describes)
    mark_ = {file_, e.timestamp, 0, ""};
  else if (in_group && !group_.open && end_ != at_)
    leave_mark(bytes.sub(0, bytes.size - checksum));
  if (e.type != kRotateEvent) at_ = std::max(at_, end_);
  ++counters_->events[e.type];
  counters_->bytes += bytes.size;
  if (e.timestamp) timestamp_ = e.timestamp;
  return true;
}

void Ingest::leave_mark(Bytes bytes) {
  mark_.start = start_;
  mark_.head.assign(bytes.text().substr(0, kMarkBytes));
}

// The header has the low 32 bits of the end, or nothing within a transaction of MariaDB 11.4 and later.
uint64_t Ingest::end_of(const Event& e, size_t size) const {
  constexpr uint64_t kWrap = uint64_t{1} << 32;
  bool heartbeat = e.type == kHeartbeatEvent || e.type == kHeartbeatV2Event;
  bool artificial = e.flags & kArtificialFlag || (e.type == kFormatDescriptionEvent && e.log_pos == 0);
  if (artificial || heartbeat) return at_;
  if (e.log_pos == 0) return at_ + size;
  uint64_t end = (at_ & ~(kWrap - 1)) | e.log_pos;
  if (end + kWrap / 2 < at_) end += kWrap;
  // By GTID, MariaDB begins at the start of the file and leaves out all known groups, however many these are. So what
  // it then sends is after what the journal has of the file.
  const JournalState& state = writer_.state();
  if (by_gtid_ && e.type == kMariadbGtidEvent && file_ == state.file && end <= state.position)
    end += ((state.position - end) / kWrap + 1) * kWrap;
  return end;
}

bool Ingest::event(const Event& e, Attention* out) {
  if (RowsHead::is(e.type)) return rows(e, out);
  switch (e.type) {
    case kTableMapEvent: return table_map(e, out);
    case kGtidEvent:
    case kAnonymousGtidEvent:
    case kTaggedGtidEvent:
    case kMariadbGtidEvent: begin_group(e); return true;
    case kQueryEvent:
    case kQueryCompressedEvent: return query(e, out);
    case kXidEvent: end_group(e); return true;
    case kXaPrepareEvent: xa_prepared(e); return true;
    case kTransactionPayloadEvent: return (in_payload_ || payload(e)) && inner_events(out);
    case kRotateEvent: rotate(e); return true;
    case kFormatDescriptionEvent: format_description(e); return true;
    case kHeartbeatEvent:
    case kHeartbeatV2Event: ++heartbeats_; return true;
    // These do not affect rows: annotations, bookkeeping of the source, variables of statements (which need a reply
    // themselves).
    case kStopEvent:
    case kIntvarEvent:
    case kRandEvent:
    case kUserVarEvent:
    case kIgnorableEvent:
    case kRowsQueryEvent:
    case kPreviousGtidsEvent:
    case kTransactionContextEvent:
    case kViewChangeEvent:
    case kAnnotateRowsEvent:
    case kBinlogCheckpointEvent:
    case kGtidListEvent:
    case kStartEncryptionEvent: return true;
    default: return ask_unknown(e, "", out);
  }
}

void Ingest::format_description(const Event& e) {
  Reader in(e.body);
  uint16_t version = in.u16();
  std::string_view server = in.take(50).text();
  in.skip(4);
  uint8_t header = in.u8();
  if (!in.ok() || version != 4 || header != kEventHeader) malformed("a binlog of a version that is not 4");
  if (server.substr(0, 4) == "5.5." || server.substr(0, 4) == "5.1." || server.substr(0, 4) == "5.0.")
    malformed("the source is " + std::string(server.substr(0, server.find('\0'))) +
              "; 5.6 is the oldest that can be read");
  if (!e.body.size) malformed("a FORMAT_DESCRIPTION without its end");
  checksum_ = e.body.data[e.body.size - 1] == 1 ? Checksum::crc32 : Checksum::none;
  server_ = server.substr(0, server.find('\0'));
}

void Ingest::rotate(const Event& e) {
  Reader in(e.body);
  uint64_t position = in.u64();
  std::string_view name = in.rest().text();
  bool printable = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  if (!in.ok() || name.empty() || name.size() > 511 || !printable) malformed("a ROTATE without a name");
  abandon_group();
  if (skipping_ && file_ == skip_file_ && name != skip_file_) skipping_ = false;
  // By GTID, a source may begin with an earlier file than the journal's. The change is recorded when a group is new.
  const JournalState& state = writer_.state();
  bool ahead = state.file.empty() || binlog_before(state.file, state.position, name, position);
  if (!skipping_ && name != state.file && (ahead || !by_gtid_)) writer_.file(position, name);
  file_ = name;
  at_ = end_ = position;
}

// The events of a payload have no checksums and belong to one group. Their position is the end of the payload.
bool Ingest::payload(const Event& e) {
  if (group_.open && group_.mode == Mode::skip) {
    group_ = Group();
    return true;
  }
  PayloadBody body;
  if (!PayloadBody::parse(e.body, &body)) malformed("a TRANSACTION_PAYLOAD that cannot be read");
  inner_at_ = 0;
  inner_left_ = 0;
  if (!body.zstd) {
    inner_ = body.data.text();
  } else if (body.size <= limits_.whole_bytes) {
    inner_ = inflated(Algorithm::zstd, body.data, body.size);
  } else {
    inner_.clear();
    inner_left_ = body.size;
    if (!inflate_.begin(inflate_.context, body.data, body.size))
      malformed("a compressed event that cannot be decompressed");
  }
  in_payload_ = true;
  return true;
}

// Inflates the payload until `bytes` bytes are available; false if it ends earlier. A transaction may be larger than
// memory.
bool Ingest::has_inner(size_t bytes) {
  while (inner_.size() - inner_at_ < bytes && inner_left_) {
    inner_.erase(0, inner_at_);
    inner_at_ = 0;
    size_t before = inner_.size();
    bool more = inflate_.next(inflate_.context, &inner_) && inner_.size() > before;
    if (!more || inner_.size() - before > inner_left_) malformed("a compressed event that does not hold what it says");
    inner_left_ -= inner_.size() - before;
  }
  return inner_.size() - inner_at_ >= bytes;
}

bool Ingest::inner_events(Attention* out) {
  while (has_inner(1)) {
    Event e;
    size_t size =
        has_inner(kEventHeader) ? load<uint32_t>(reinterpret_cast<const uint8_t*>(&inner_[inner_at_ + 9])) : 0;
    bool whole = size >= kEventHeader && size <= limits_.event_bytes && has_inner(size);
    if (!whole || !Event::parse(Bytes(inner_).sub(inner_at_, size), 0, &e) || e.type == kTransactionPayloadEvent)
      malformed("a TRANSACTION_PAYLOAD with a damaged event");
    if (!event(e, out)) return false;
    ++counters_->events[e.type];
    inner_at_ += size;
    answer_ = Answer::none;
  }
  in_payload_ = false;
  inner_ = std::string();
  return true;
}

bool Ingest::already_there(const Gtid& gtid) const {
  if (by_gtid_) return gtid && !gtid.mariadb && writer_.state().gtids.contains(gtid);
  return skipping_ && !(file_ == skip_file_ && end_ > skip_to_);
}

void Ingest::open_group(const Gtid& gtid) {
  bool there = already_there(gtid);
  if (!there) {
    skipping_ = false;
    if (file_ != writer_.state().file) writer_.file(start_, file_);
  }
  group_ = Group();
  group_.open = true;
  group_.mode = there ? Mode::skip : Mode::journal;
  group_.gtid = gtid;
  group_.start = start_;
}

void Ingest::begin_group(const Event& e) {
  GroupHead head;
  if (!GroupHead::parse(e, &head)) malformed("a GTID that cannot be read");
  abandon_group();
  open_group(head.gtid);
  group_.begun = !head.standalone;
  group_.unfinished = head.unfinished;
  if (head.prepared) collect_group();
}

// The source crashed, or this stream began, within a group: the group was not committed.
void Ingest::abandon_group() {
  if (group_.open && group_.begun) ++abandoned_;
  writer_.rollback();
  group_ = Group();
  ++statement_;
  collected_.reset();
}

void Ingest::commit_group(const Event& e) {
  writer_.commit(end_, e.timestamp, group_.gtid, e.server);
  ++counters_->transactions;
}

void Ingest::end_group(const Event& e) {
  if (!group_.open) open_group(Gtid());
  if (group_.mode == Mode::collect) malformed("a COMMIT within an XA transaction");
  if (group_.mode == Mode::journal) commit_group(e);
  group_ = Group();
  ++statement_;  // table maps end with their group
}

}  // namespace relay
