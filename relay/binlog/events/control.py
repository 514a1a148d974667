"""Events about the stream and its files."""

from __future__ import annotations

from relay.binlog.events.header import BinlogEvent


class FormatDescriptionEvent(BinlogEvent, frozen=True, tag="FORMAT_DESCRIPTION"):
    """The first event of a file: who wrote it and how its events are laid out."""

    format: int
    """Version of the binlog's format, 4 on all servers since MySQL 5.0."""
    server_version: str
    """As the server's `version` variable."""
    timestamp: int
    """Seconds since 1970 at which the file was begun by a starting server; 0 in all files after it."""
    header_len: int
    """Bytes of the common header: 19."""
    post_header_lengths: bytes
    """Bytes of the fixed part of each event type's body, a byte a type beginning with type 1."""
    checksum_algorithm: int | None
    """0: events carry no checksum; 1: CRC-32; None: the server is too old to say, and writes none."""


class RotateEvent(BinlogEvent, frozen=True, tag="ROTATE"):
    """The stream goes on in another file; made by the sending thread also at the beginning of a stream."""

    position: int
    """Of the first event to come in the file: 4, but where a stream begins inside of a file."""
    filename: str
    """Name of the file, without a folder."""


class StopEvent(BinlogEvent, frozen=True, tag="STOP"):
    """The server was shut down in good order; the last event of its file."""


class HeartbeatEvent(BinlogEvent, frozen=True, tag="HEARTBEAT"):
    """The server has nothing new to send. Stands in no file, and moves no position."""

    timestamp: int
    """0, as in the header."""
    next_position: int
    """Low 32 bits of where the sending thread stands in the file."""
    type: int
    """27, as in the header."""
    flags: int
    """As in the header: ARTIFICIAL, or 0 on newer servers."""
    filename: str
    """The file in which the sending thread stands."""


class HeartbeatV2Event(BinlogEvent, frozen=True, tag="HEARTBEAT_V2"):
    """As HEARTBEAT, from MySQL 8.0.26 on to those who ask for it: the position has all its bits."""

    filename: str
    """The file in which the sending thread stands."""
    position: int
    """Where in it."""


class BinlogCheckpointEvent(BinlogEvent, frozen=True, tag="BINLOG_CHECKPOINT"):
    """MariaDB: what stands in files before this one needs no recovery any more after a crash."""

    filename: str
    """The oldest file that crash recovery would need."""


class StartEncryptionEvent(BinlogEvent, frozen=True, tag="START_ENCRYPTION"):
    """MariaDB: all events of the file after this one are encrypted. Servers send events decrypted, and this one not."""

    scheme: int
    """How they are encrypted: 1."""
    key_version: int
    """Version of the server's key."""
    nonce: bytes
    """12 bytes from which, with an event's position, its initialisation vector is made."""


class IncidentEvent(BinlogEvent, frozen=True, tag="INCIDENT"):
    """Something happened on the server that its binlog does not hold: replicas stop here."""

    incident: int
    """1: events were lost."""
    message: str
    """What happened, in the server's words."""


class IgnorableEvent(BinlogEvent, frozen=True, tag="IGNORABLE"):
    """An event that says of itself that it may be passed over."""

    body: bytes
    """Everything between header and checksum."""


class UnknownEvent(BinlogEvent, frozen=True, tag="UNKNOWN"):
    """An event of a type that is not decoded here."""

    type: int
    """Its code, as in the header."""
    body: bytes
    """Everything between header and checksum."""
