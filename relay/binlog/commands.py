"""The commands of a replica, as packets, and the error packets that answer them. No I/O here.

Written from the protocol documentation of MySQL (COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID) and
MariaDB.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_REGISTER_SLAVE: Final = 0x15
_BINLOG_DUMP: Final = 0x12
_BINLOG_DUMP_GTID: Final = 0x1E
_THROUGH_GTID: Final = 0x04
NON_BLOCKING: Final = 0x01
"""Flag of both dumps: the source ends it at the binlog's end, and does not wait for more."""
LONGEST_FILE_NAME: Final = 511
FIRST_POSITION: Final = 4
"""Where the first event of a binlog file stands."""
SHORT_POSITION: Final = 2**32 - 1
"""The highest position that COM_BINLOG_DUMP can carry."""


class ServerError(NamedTuple):
    """An error packet: the server's number, SQLSTATE and text."""

    code: int
    state: str
    text: str


def packet(payload: bytes) -> bytes:
    """A command as it goes over the connection: with length, and sequence number 0."""
    return struct.pack("<I", len(payload)) + payload


def register_replica(server_id: int, host: str = "relay") -> bytes:
    """COM_REGISTER_SLAVE: announces `server_id`, so that the source lists this replica. Raises `ValueError`."""
    _check_server_id(server_id)
    name = host.encode()[:60]
    return packet(struct.pack("<BI", _REGISTER_SLAVE, server_id) + bytes([len(name)]) + name + bytes(12))


def binlog_dump(server_id: int, file: str, position: int, flags: int = 0) -> bytes:
    """COM_BINLOG_DUMP: the stream from a position of a file ("" and 4: the oldest). Raises `ValueError`."""
    _check_server_id(server_id, flags)
    if not FIRST_POSITION <= position <= SHORT_POSITION:
        raise ValueError(f"position {position} is not between {FIRST_POSITION} and {SHORT_POSITION}")
    return packet(struct.pack("<BIHI", _BINLOG_DUMP, position, flags, server_id) + _file_name(file))


def binlog_dump_gtid(
    server_id: int, encoded_set: bytes, file: str = "", position: int = FIRST_POSITION, flags: int = 0
) -> bytes:
    """COM_BINLOG_DUMP_GTID (MySQL): the stream without the transactions in the set. Raises `ValueError`.

    From a file and position on, which may be beyond 4 GiB; "" lets the server find the file. Only with gtid_mode = ON.
    """
    _check_server_id(server_id, flags)
    if position < FIRST_POSITION:
        raise ValueError(f"position {position} is below {FIRST_POSITION}")
    name = _file_name(file)
    head = struct.pack("<BHII", _BINLOG_DUMP_GTID, _THROUGH_GTID | flags, server_id, len(name))
    return packet(head + name + struct.pack("<QI", position, len(encoded_set)) + encoded_set)


def parse_error(payload: bytes) -> ServerError | None:
    """The error in a packet, None if it holds none."""
    if len(payload) < 3 or payload[0] != 0xFF:
        return None
    code = int.from_bytes(payload[1:3], "little")
    state, text = "", payload[3:]
    if text[:1] == b"#":
        state, text = text[1:6].decode("ascii", "replace"), text[6:]
    return ServerError(code, state, text.decode("utf-8", "replace"))


def _check_server_id(server_id: int, flags: int = 0) -> None:
    if server_id == 0 and flags & NON_BLOCKING:  # a reader that is no replica
        return
    if not 1 <= server_id <= 2**32 - 1:
        raise ValueError(f"server id {server_id} is not between 1 and {2**32 - 1}")


def _file_name(file: str) -> bytes:
    name = file.encode()
    if len(name) > LONGEST_FILE_NAME or b"\0" in name:
        raise ValueError(f"{file[:80]!r} is no name of a binlog file")
    return name
