"""Bodies of events about the stream and its files."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from relay._native import Cursor
from relay.binlog.bodies.state import Reader, State, undecoded, utf8
from relay.binlog.events import (
    BinlogCheckpointEvent,
    Event,
    EventType,
    FormatDescriptionEvent,
    Header,
    HeartbeatEvent,
    HeartbeatV2Event,
    IgnorableEvent,
    IncidentEvent,
    RotateEvent,
    StartEncryptionEvent,
    StopEvent,
)

CHECKSUM_FIELDS: Final = 5
"""The bytes at the end of a FORMAT_DESCRIPTION from a server with checksums: the algorithm and the checksum."""
_KNOW_CHECKSUMS: Final = {"mysql": (5, 6, 1), "mariadb": (5, 3, 0)}
_VERSION_BYTES: Final = 50


def is_mariadb(server_version: str) -> bool:
    """Whether this is the version of a MariaDB server."""
    return "mariadb" in server_version.lower()


def knows_checksums(server_version: str) -> bool:
    """Whether FORMAT_DESCRIPTIONs of that server end in `CHECKSUM_FIELDS`, whether or not checksums are on."""
    release = tuple(int(part) for part in re.findall(r"\d+", server_version)[:3])
    return release >= _KNOW_CHECKSUMS["mariadb" if is_mariadb(server_version) else "mysql"]


def server_version(body: bytes) -> str:
    """Return the version in the body of a FORMAT_DESCRIPTION."""
    return utf8(body[2 : 2 + _VERSION_BYTES].rstrip(b"\0"))


def _format_description(header: Header, body: Cursor, state: State) -> Event:
    version = server_version(body.data)
    number = body.integer(2)
    body.take(_VERSION_BYTES)
    timestamp, header_len = body.integer(4), body.integer(1)
    checked = knows_checksums(version)
    lengths = body.take(len(body) - checked)
    algorithm = body.integer(1) if checked else None
    return FormatDescriptionEvent(header, number, version, timestamp, header_len, lengths, algorithm)


def _rotate(header: Header, body: Cursor, state: State) -> Event:
    return RotateEvent(header, body.integer(8), utf8(body.rest()))


def _stop(header: Header, body: Cursor, state: State) -> Event:
    return StopEvent(header)


def _heartbeat(header: Header, body: Cursor, state: State) -> Event:
    filename = utf8(body.rest())
    return HeartbeatEvent(header, header.timestamp, header.next_event_pos, header.event_type, header.flags, filename)


def _heartbeat_v2(header: Header, body: Cursor, state: State) -> Event:
    filename, position = "", 0
    while (kind := body.length()) != 0:
        value = Cursor(body.text())
        if kind == 1:
            filename = utf8(value.rest())
        elif kind == 2:
            position = value.length()
    return HeartbeatV2Event(header, filename, position)


def _binlog_checkpoint(header: Header, body: Cursor, state: State) -> Event:
    return BinlogCheckpointEvent(header, utf8(body.take(body.integer(4))))


def _start_encryption(header: Header, body: Cursor, state: State) -> Event:
    return StartEncryptionEvent(header, body.integer(1), body.integer(4), body.take(12))


def _incident(header: Header, body: Cursor, state: State) -> Event:
    return IncidentEvent(header, body.integer(2), utf8(body.short_text()))


READERS: Final[dict[int, Reader]] = {
    EventType.STOP: _stop,
    EventType.ROTATE: _rotate,
    EventType.FORMAT_DESCRIPTION: _format_description,
    EventType.INCIDENT: _incident,
    EventType.HEARTBEAT: _heartbeat,
    EventType.IGNORABLE: partial(undecoded, IgnorableEvent),
    EventType.HEARTBEAT_V2: _heartbeat_v2,
    EventType.BINLOG_CHECKPOINT: _binlog_checkpoint,
    EventType.START_ENCRYPTION: _start_encryption,
}
