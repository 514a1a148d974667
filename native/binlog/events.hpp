// Binlog events: their types, their header, and the event bodies that the ingest reads.
#pragma once

#include "base/gtid.hpp"
#include "values/rows.hpp"

namespace relay {

enum EventType : uint8_t {
  kQueryEvent = 2,
  kStopEvent = 3,
  kRotateEvent = 4,
  kIntvarEvent = 5,
  kRandEvent = 13,
  kUserVarEvent = 14,
  kFormatDescriptionEvent = 15,
  kXidEvent = 16,
  kTableMapEvent = 19,
  kWriteRowsV1Event = 23,
  kUpdateRowsV1Event = 24,
  kDeleteRowsV1Event = 25,
  kHeartbeatEvent = 27,
  kIgnorableEvent = 28,
  kRowsQueryEvent = 29,
  kWriteRowsEvent = 30,
  kUpdateRowsEvent = 31,
  kDeleteRowsEvent = 32,
  kGtidEvent = 33,
  kAnonymousGtidEvent = 34,
  kPreviousGtidsEvent = 35,
  kTransactionContextEvent = 36,
  kViewChangeEvent = 37,
  kXaPrepareEvent = 38,
  kPartialUpdateRowsEvent = 39,
  kTransactionPayloadEvent = 40,
  kHeartbeatV2Event = 41,
  kTaggedGtidEvent = 42,
  kAnnotateRowsEvent = 160,
  kBinlogCheckpointEvent = 161,
  kMariadbGtidEvent = 162,
  kGtidListEvent = 163,
  kStartEncryptionEvent = 164,
  kQueryCompressedEvent = 165,
  kWriteRowsCompressedV1Event = 166,
  kUpdateRowsCompressedV1Event = 167,
  kDeleteRowsCompressedV1Event = 168,
  kWriteRowsCompressedEvent = 169,
  kUpdateRowsCompressedEvent = 170,
  kDeleteRowsCompressedEvent = 171,
};

constexpr size_t kEventHeader = 19;
constexpr size_t kEventChecksum = 4;
constexpr uint16_t kInUseFlag = 0x01;       // of a FORMAT_DESCRIPTION: the file is open; not under its checksum
constexpr uint16_t kArtificialFlag = 0x20;  // made by the dump thread; not in any file
constexpr uint16_t kStatementEnd = 0x01;    // flag of a rows event

struct Event {
  uint32_t timestamp = 0;
  uint8_t type = 0;
  uint32_t server = 0;
  uint32_t log_pos = 0;  // low 32 bits of the event's end; 0 if the server omits it
  uint16_t flags = 0;
  Bytes body;  // without header and checksum

  // Parses an event from its header on. False unless the size in the header is the number of bytes. `checksum` bytes
  // follow the body.
  static bool parse(Bytes bytes, size_t checksum, Event* out);
};

struct QueryBody {
  std::string_view schema;
  Bytes statement;  // compressed in a QUERY_COMPRESSED event
  static bool parse(Bytes body, QueryBody* out);
};

struct RowsHead {
  RowKind kind = RowKind::insert;
  bool compressed = false;
  bool partial = false;  // an update with changes of JSON values: see rows_partial.hpp
  uint64_t table_id = 0;
  bool statement_end = false;
  Bytes body;  // from the column count on; in a compressed event the images are packed
  static bool is(uint8_t type);
  static bool parse(uint8_t type, Bytes body, RowsHead* out);
};

// A statement or images that MariaDB compressed: a byte (1 << 7 | algorithm << 4 | length of the size), the size in
// big-endian order, and the zlib stream.
struct Packed {
  uint64_t size = 0;
  Bytes data;
  static bool parse(Bytes bytes, Packed* out);
};

struct GroupHead {
  Gtid gtid;                // none for an anonymous group
  bool standalone = true;   // MariaDB: the group is one statement without COMMIT; MySQL does not say this
  bool prepared = false;    // MariaDB: the group ends in XA PREPARE
  bool unfinished = false;  // MariaDB: a two-phase ALTER that begins here or was rolled back
  static bool parse(const Event& event, GroupHead* out);
};

// The id of an XA transaction as statements in the binlog write it: X'gtrid',X'bqual',format.
struct XaPrepareBody {
  bool one_phase = false;
  std::string xid;
  static bool parse(Bytes body, XaPrepareBody* out);
};

struct PayloadBody {
  bool zstd = true;  // otherwise not compressed
  uint64_t size = 0;
  Bytes data;
  static bool parse(Bytes body, PayloadBody* out);
};

}  // namespace relay
