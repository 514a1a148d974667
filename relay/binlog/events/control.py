"""Events about the stream and its files."""

from __future__ import annotations

from relay.binlog.events.header import BinlogEvent


class FormatDescriptionEvent(BinlogEvent, frozen=True, tag="FORMAT_DESCRIPTION"):
    """The first event of a file: the server that wrote it, and the layout of its events."""

    format: int
    """Version of the binlog format, 4 on all servers since MySQL 5.0."""
    server_version: str
    """The server's `version` variable."""
    timestamp: int
    """Time of the server's start, in seconds since 1970, if the start began this file; 0 in all files after it."""
    header_len: int
    """Length of the common header: 19 bytes."""
    post_header_lengths: bytes
    """Length of the fixed part of each event type's body: one byte for each type, from type 1 on."""
    checksum_algorithm: int | None
    """0: events have no checksum; 1: CRC-32; None: the server is too old for checksums."""


class RotateEvent(BinlogEvent, frozen=True, tag="ROTATE"):
    """The stream continues in another file. The sending thread also makes one at the beginning of a stream."""

    position: int
    """Position of the next event in the file: 4, unless a stream begins within a file."""
    filename: str
    """Name of the file, without a folder."""


class StopEvent(BinlogEvent, frozen=True, tag="STOP"):
    """The server was shut down normally; the last event of its file."""


class HeartbeatEvent(BinlogEvent, frozen=True, tag="HEARTBEAT"):
    """The server has nothing new to send. The event is in no file and does not change the position."""

    timestamp: int
    """0, as in the header."""
    next_position: int
    """Low 32 bits of the sending thread's position in the file."""
    type: int
    """27, as in the header."""
    flags: int
    """As in the header: ARTIFICIAL, or 0 on newer servers."""
    filename: str
    """The sending thread's file."""


class HeartbeatV2Event(BinlogEvent, frozen=True, tag="HEARTBEAT_V2"):
    """Like HEARTBEAT, with all bits of the position. Sent on request by MySQL 8.0.26 and later."""

    filename: str
    """The sending thread's file."""
    position: int
    """The sending thread's position in the file."""


class BinlogCheckpointEvent(BinlogEvent, frozen=True, tag="BINLOG_CHECKPOINT"):
    """MariaDB: crash recovery no longer needs the files before `filename`."""

    filename: str
    """The oldest file that crash recovery needs."""


class StartEncryptionEvent(BinlogEvent, frozen=True, tag="START_ENCRYPTION"):
    """MariaDB: all later events of the file are encrypted. Servers send them decrypted, and do not send this event."""

    scheme: int
    """Encryption scheme: 1."""
    key_version: int
    """Version of the server's key."""
    nonce: bytes
    """12 bytes that form an event's initialisation vector together with its position."""


class IncidentEvent(BinlogEvent, frozen=True, tag="INCIDENT"):
    """An incident on the server that its binlog does not contain: replicas stop here."""

    incident: int
    """1: events were lost."""
    message: str
    """The server's message."""


class IgnorableEvent(BinlogEvent, frozen=True, tag="IGNORABLE"):
    """An event that readers may ignore."""

    body: bytes
    """All bytes between header and checksum."""


class UnknownEvent(BinlogEvent, frozen=True, tag="UNKNOWN"):
    """An event of a type that is not decoded."""

    type: int
    """The event type, as in the header."""
    body: bytes
    """All bytes between header and checksum."""
