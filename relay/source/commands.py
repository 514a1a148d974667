"""Make the packets for the commands of a replica, and parse the error packets of replies. No I/O.

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
"""A flag of both dump commands: the source ends the stream at the binlog's end, and does not wait for more."""
LONGEST_FILE_NAME: Final = 511
FIRST_POSITION: Final = 4
"""The position of the first event in a binlog file."""
SHORT_POSITION: Final = 2**32 - 1
"""The highest position that COM_BINLOG_DUMP can have."""


class ServerError(NamedTuple):
    """An error packet: the server's number, SQLSTATE and text."""

    code: int
    state: str
    text: str


def packet(payload: bytes) -> bytes:
    """Return a command as a packet: its length, sequence number 0, and the payload."""
    return struct.pack("<I", len(payload)) + payload


def register_replica(server_id: int) -> bytes:
    """COM_REGISTER_SLAVE: the source lists this replica, as `server_id` on host "relay". Raises `ValueError`."""
    _check_server_id(server_id)
    return packet(struct.pack("<BI", _REGISTER_SLAVE, server_id) + b"\x05relay" + bytes(12))


def binlog_dump(server_id: int, file: str, position: int, flags: int = 0) -> bytes:
    """COM_BINLOG_DUMP: requests the stream from a position in a file ("" and 4: the oldest). Raises `ValueError`."""
    _check_server_id(server_id, flags)
    if not FIRST_POSITION <= position <= SHORT_POSITION:
        raise ValueError(f"position {position} is not between {FIRST_POSITION} and {SHORT_POSITION}")
    return packet(struct.pack("<BIHI", _BINLOG_DUMP, position, flags, server_id) + _file_name(file))


def binlog_dump_gtid(
    server_id: int, encoded_set: bytes, file: str = "", position: int = FIRST_POSITION, flags: int = 0
) -> bytes:
    """COM_BINLOG_DUMP_GTID (MySQL): requests the stream without the transactions in the set. Raises `ValueError`.

    The stream begins at a file and position, which may be beyond 4 GiB; with "" the server finds the file. The server
    must have gtid_mode = ON.
    """
    _check_server_id(server_id, flags)
    if position < FIRST_POSITION:
        raise ValueError(f"position {position} is below {FIRST_POSITION}")
    name = _file_name(file)
    head = struct.pack("<BHII", _BINLOG_DUMP_GTID, _THROUGH_GTID | flags, server_id, len(name))
    return packet(head + name + struct.pack("<QI", position, len(encoded_set)) + encoded_set)


def parse_error(payload: bytes) -> ServerError | None:
    """Return the error in a packet, None if it is not an error packet."""
    if len(payload) < 3 or payload[0] != 0xFF:
        return None
    code = int.from_bytes(payload[1:3], "little")
    state, text = "", payload[3:]
    if text[:1] == b"#":
        state, text = text[1:6].decode("ascii", "replace"), text[6:]
    return ServerError(code, state, text.decode("utf-8", "replace"))


def _check_server_id(server_id: int, flags: int = 0) -> None:
    if server_id == 0 and flags & NON_BLOCKING:  # a reader that is not a replica
        return
    if not 1 <= server_id <= 2**32 - 1:
        raise ValueError(f"server id {server_id} is not between 1 and {2**32 - 1}")


def _file_name(file: str) -> bytes:
    name = file.encode()
    if len(name) > LONGEST_FILE_NAME or b"\0" in name:
        raise ValueError(f"{file[:80]!r} is not a name of a binlog file")
    return name
