// Parsing of binlog events.
#include "binlog/events.hpp"

namespace relay {
namespace {

// Reads an integer of mysql::serialization. The number of trailing ones in the first byte is the number of bytes that
// follow. The bits after the first zero are the integer, least significant first.
uint64_t varlen(Reader& in) {
  uint8_t first = in.u8();
  unsigned more = static_cast<unsigned>(__builtin_ctz(~uint32_t{first}));
  if (more == 8) return in.le(8);
  uint64_t low = uint64_t{first} >> (more + 1);
  return more == 0 ? low : low | in.le(more) << (7 - more);
}

// A tagged GTID event is a serialized message: version, size, last non-ignorable field, then (field id, value) in
// ascending order.
bool parse_tagged(Bytes body, Gtid* out) {
  constexpr unsigned kUuidField = 1, kNumberField = 2, kTagField = 3;
  Reader in(body);
  varlen(in);
  varlen(in);
  varlen(in);
  for (unsigned seen = 0; in.ok() && seen < kTagField;) {
    uint64_t field = varlen(in);
    if (field == 0) {
      varlen(in);  // flags
    } else if (field == kUuidField) {
      for (uint8_t& byte : out->uuid) byte = static_cast<uint8_t>(varlen(in));
    } else if (field == kNumberField) {
      out->number = varlen(in) >> 1;  // the lowest bit is the sign
    } else if (field == kTagField) {
      out->tag = std::string(in.take(varlen(in)).text());
    } else {
      return false;
    }
    seen = static_cast<unsigned>(field);
  }
  return in.ok() && out->number != 0 && out->tag.size() <= 32;
}

void append_hex(std::string& out, Bytes bytes) {
  static const char kHex[] = "0123456789abcdef";
  out += "x'";
  for (size_t i = 0; i < bytes.size; ++i) {
    out += kHex[bytes.data[i] >> 4];
    out += kHex[bytes.data[i] & 15];
  }
  out += '\'';
}

// After the flags of MariaDB's GTID may follow the id of a group commit, the id of an XA transaction, and more flags.
bool unfinished_alter(Reader in, uint8_t flags) {
  constexpr uint8_t kGroupCommit = 0x02, kXa = 0x40 | 0x80;
  constexpr uint8_t kStartAlter = 0x02, kRollbackAlter = 0x08;
  if (flags & kGroupCommit) in.skip(8);
  if (flags & kXa) {
    in.skip(4);
    size_t global = in.u8(), branch = in.u8();
    in.skip(global + branch);
  }
  uint8_t more = in.u8();
  return in.ok() && more & (kStartAlter | kRollbackAlter);
}

}  // namespace

bool Event::parse(Bytes bytes, size_t checksum, Event* out) {
  if (bytes.size < kEventHeader + checksum || load<uint32_t>(bytes.data + 9) != bytes.size) return false;
  const uint8_t* p = bytes.data;
  out->timestamp = load<uint32_t>(p);
  out->type = p[4];
  out->server = load<uint32_t>(p + 5);
  out->log_pos = load<uint32_t>(p + 13);
  out->flags = load<uint16_t>(p + 17);
  out->body = bytes.sub(kEventHeader, bytes.size - kEventHeader - checksum);
  return true;
}

bool QueryBody::parse(Bytes body, QueryBody* out) {
  Reader in(body);
  in.skip(8);  // thread, duration in seconds
  uint8_t schema = in.u8();
  in.skip(2);         // error
  in.skip(in.u16());  // status variables
  out->schema = in.take(schema).text();
  in.skip(1);
  out->statement = in.rest();
  return in.ok();
}

bool RowsHead::is(uint8_t type) {
  return (type >= kWriteRowsV1Event && type <= kDeleteRowsV1Event) ||
         (type >= kWriteRowsEvent && type <= kDeleteRowsEvent) ||
         (type >= kWriteRowsCompressedV1Event && type <= kDeleteRowsCompressedEvent) || type == kPartialUpdateRowsEvent;
}

bool RowsHead::parse(uint8_t type, Bytes body, RowsHead* out) {
  static constexpr RowKind kKinds[] = {RowKind::insert, RowKind::update, RowKind::remove};
  out->partial = type == kPartialUpdateRowsEvent;
  if (out->partial) type = kUpdateRowsEvent;
  bool second = (type >= kWriteRowsEvent && type <= kDeleteRowsEvent) || type >= kWriteRowsCompressedEvent;
  unsigned first = type >= kWriteRowsCompressedEvent     ? kWriteRowsCompressedEvent
                   : type >= kWriteRowsCompressedV1Event ? kWriteRowsCompressedV1Event
                   : second                              ? kWriteRowsEvent
                                                         : kWriteRowsV1Event;
  out->kind = kKinds[type - first];
  out->compressed = type >= kWriteRowsCompressedV1Event;
  Reader in(body);
  out->table_id = in.le(6);
  out->statement_end = in.u16() & kStatementEnd;
  if (second) {
    uint16_t extra = in.u16();  // includes its own bytes
    if (extra < 2) return false;
    in.skip(extra - 2u);
  }
  out->body = in.rest();
  return in.ok();
}

bool Packed::parse(Bytes bytes, Packed* out) {
  Reader in(bytes);
  uint8_t head = in.u8();
  unsigned width = head & 0x07;
  if (!(head & 0x80) || (head >> 4 & 0x07) != 0 || width < 1 || width > 4) return false;
  Bytes size = in.take(width);
  if (!in.ok()) return false;
  out->size = load_be(size.data, width);
  out->data = in.rest();
  return true;
}

bool GroupHead::parse(const Event& event, GroupHead* out) {
  constexpr uint8_t kStandalone = 0x01, kPreparedXa = 0x40;
  Reader in(event.body);
  switch (event.type) {
    case kAnonymousGtidEvent: return true;
    case kGtidEvent: {
      in.skip(1);
      Bytes uuid = in.take(16);
      out->gtid.number = in.u64();
      if (uuid.size) std::memcpy(out->gtid.uuid.data(), uuid.data, 16);
      return in.ok() && out->gtid.number != 0;
    }
    case kTaggedGtidEvent: return parse_tagged(event.body, &out->gtid);
    default: {
      out->gtid.mariadb = true;
      out->gtid.number = in.u64();
      out->gtid.domain = in.u32();
      out->gtid.server = event.server;
      uint8_t flags = in.u8();
      out->standalone = flags & kStandalone;
      out->prepared = flags & kPreparedXa;
      out->unfinished = unfinished_alter(in, flags);
      return in.ok();
    }
  }
}

bool XaPrepareBody::parse(Bytes body, XaPrepareBody* out) {
  Reader in(body);
  out->one_phase = in.u8() != 0;
  uint32_t format = in.u32();
  uint32_t global = in.u32(), branch = in.u32();
  if (global > 64 || branch > 64) return false;
  append_hex(out->xid, in.take(global));
  out->xid += ',';
  append_hex(out->xid, in.take(branch));
  out->xid += ',' + std::to_string(format);
  return in.ok();
}

bool PayloadBody::parse(Bytes body, PayloadBody* out) {
  constexpr uint64_t kEnd = 0, kSize = 1, kAlgorithm = 2, kInflatedSize = 3;
  constexpr uint64_t kZstd = 0, kNone = 255;
  Reader in(body);
  uint64_t size = 0;
  for (;;) {
    uint64_t field = in.lenenc();
    if (!in.ok()) return false;
    if (field == kEnd) break;
    Reader value(in.take(in.lenenc()));
    uint64_t v = value.lenenc();
    if (!in.ok() || !value.ok()) return false;
    if (field == kSize) size = v;
    if (field == kInflatedSize) out->size = v;
    if (field == kAlgorithm) {
      if (v != kZstd && v != kNone) return false;
      out->zstd = v == kZstd;
    }
  }
  out->data = in.rest();
  if (!out->zstd) out->size = out->data.size;
  return size == out->data.size;
}

}  // namespace relay
