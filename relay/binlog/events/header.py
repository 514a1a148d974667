"""The common header of binlog events, and the event type codes."""

from __future__ import annotations

from enum import IntEnum, IntFlag

import msgspec


class EventType(IntEnum):
    """The type code in an event's header: up to 42 MySQL's codes, from 160 on MariaDB's."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USERVAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V0 = 20
    UPDATE_ROWS_V0 = 21
    DELETE_ROWS_V0 = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171


class HeaderFlag(IntFlag):
    """Bits of `Header.flags`."""

    BINLOG_IN_USE = 0x01
    """In a FORMAT_DESCRIPTION: the file is being written, or its server crashed while writing it."""
    THREAD_SPECIFIC = 0x04
    """The event depends on its session's temporary tables."""
    SUPPRESS_USE = 0x08
    """The statement does not depend on the default database."""
    ARTIFICIAL = 0x20
    """Made by the sending thread; the event is in no file."""
    RELAY_LOG = 0x40
    """Made by a replica for its relay log."""
    IGNORABLE = 0x80
    """Readers that do not know the event may ignore it."""
    NO_FILTER = 0x100
    """MySQL: a replica's filters do not apply."""
    MTS_ISOLATE = 0x200
    """MySQL: do not execute in parallel with other events."""
    ACCEPT_OWN = 0x4000
    """MariaDB: a server accepts the event even if it wrote it first."""
    SKIP_REPLICATION = 0x8000
    """MariaDB: written with skip_replication on; replicas may skip it."""


class Header(msgspec.Struct, frozen=True):
    """The common header, 19 bytes before each event, and the checksum after it."""

    checksum: int | None
    """CRC-32 of the event as it was sent; None if events have no checksums. The decoder verified it."""
    event_type: int
    """An `EventType`, or a newer code."""
    timestamp: int
    """Start of the statement, in seconds since 1970; 0 in events made by the sending thread."""
    server_id: int
    """The server that first wrote the event."""
    event_length: int
    """Bytes of the whole event: header, body and checksum."""
    next_event_pos: int
    """Low 32 bits of the event's end in its file.

    0 if unknown: in events made by the sending thread, and inside transactions of MariaDB 11.4 and later.
    """
    flags: int
    """`HeaderFlag` bits."""


class BinlogEvent(msgspec.Struct, frozen=True, tag_field="event"):
    """The base of all events."""

    header: Header
    """The common header."""
