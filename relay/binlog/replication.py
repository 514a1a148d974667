"""The description of a stream: what is asked for, and, as events are fetched, what came and where to go on."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import msgspec

from relay._native import GtidSet
from relay.binlog.commands import FIRST_POSITION, LONGEST_FILE_NAME, NON_BLOCKING, SHORT_POSITION
from relay.binlog.errors import DescriptionError
from relay.errors import ErrorCode

_HIGHEST_ID: Final = 2**32 - 1
_HIGHEST_POSITION: Final = 2**64 - 1


class Flag(IntFlag):
    """What a stream is to be like. The low 16 bits go to the server in the dump command, the others are ours."""

    NON_BLOCK = NON_BLOCKING
    """End at the end of the binlog; without it, `fetch` waits for more."""
    SEND_ANNOTATE_ROWS = 0x02
    """MariaDB: send ANNOTATE_ROWS events, the statements of row events."""
    HEARTBEAT_V2 = 0x02
    """MySQL 8.0.26 and later give the same bit another meaning: heartbeats come as HEARTBEAT_V2."""
    GTID = 1 << 16
    """Begin after the transactions in `gtid_set`, whatever file they are in: COM_BINLOG_DUMP_GTID on MySQL,
    @slave_connect_state on MariaDB. `file_name` and `start_position` are not sent."""
    SKIP_HEARTBEAT = 1 << 17
    """`fetch` does not return heartbeats."""


_KNOWN: Final = int(Flag.NON_BLOCK | Flag.SEND_ANNOTATE_ROWS | Flag.GTID | Flag.SKIP_HEARTBEAT)


class Replication(msgspec.Struct):
    """What MySQL's C API calls MYSQL_RPL: filled in by the caller before `open`, updated by every `fetch`.

    As `fetch` left it, the description can be given to a new stream, which goes on where this one stopped: it repeats
    the transaction under way from its beginning, and nothing before that.
    """

    file_name: str = ""
    """Name of a binlog file, as SHOW BINARY LOGS has it, at most 511 bytes; "" for the oldest. Follows the stream."""
    start_position: int = FIRST_POSITION
    """Byte in the file at which to begin, where an event begins; 4 is the first. Follows the stream: the end of the
    last transaction that came whole."""
    server_id: int = 0
    """The id of this replica, 1 to 4294967295, that no other replica of the server may have; the server lists it in
    SHOW REPLICAS. 0 is for non-blocking streams: a reader that is no replica."""
    flags: int = 0
    """`Flag` bits."""
    gtid_set: str = ""
    """With `Flag.GTID`, the transactions that are not to come: a set of MySQL's (uuid:1-7,...), or MariaDB's position
    (0-1-7,...). Follows the stream in any case: each transaction that came whole is added. It is complete if it was at
    the beginning, or if the stream began at the beginning of a file."""
    position: int = 0
    """Where the last event ended in the file, counted beyond 4 GiB; heartbeats and what the server makes for the
    occasion do not move it."""
    size: int = 0
    """Bytes in `buffer`; 0 at the end of a non-blocking stream, -1 after an error."""
    buffer: bytes = b""
    """The packet as the server sent it: an OK byte (0), then the event."""

    def check(self, mariadb: bool) -> None:
        """Raise `DescriptionError` if a field is not what a server of this kind can be asked for."""
        self._check_types()
        if self.flags & ~_KNOWN:
            raise _wrong("flags", f"{self.flags & ~_KNOWN:#x} is no flag", "use the members of relay.binlog.Flag")
        if not 0 <= self.server_id <= _HIGHEST_ID:
            raise _wrong("server_id", f"{self.server_id} is not between 0 and {_HIGHEST_ID}", "choose another")
        if not self.server_id and not self.flags & Flag.NON_BLOCK:
            raise _wrong(
                "server_id",
                "0 would be no replica, and wait for events",
                "give the stream an id that no other replica of the server has, or Flag.NON_BLOCK",
            )
        if self.flags & Flag.GTID:
            self._check_gtid_set(mariadb)
            return
        self.check_place()
        if self.start_position > SHORT_POSITION:
            raise _wrong(
                "start_position",
                f"{self.start_position} is beyond 4 GiB, and COM_BINLOG_DUMP has 4 bytes for it",
                "begin at an earlier position of the file, or, but for MariaDB 11.4 and later, by GTID (Flag.GTID)",
            )
        if self.gtid_set:
            self._check_gtid_set(mariadb)

    def check_place(self) -> None:
        """Raise `DescriptionError` if file name and position are no place in a file."""
        self._check_types()
        name = self.file_name.encode(errors="surrogateescape")
        if len(name) > LONGEST_FILE_NAME:
            raise _wrong("file_name", f"it has {len(name)} bytes", f"{LONGEST_FILE_NAME} is the most a server takes")
        if any(byte < 0x20 for byte in name) or "/" in self.file_name:
            raise _wrong("file_name", f"{self.file_name[:80]!r} is no name", "take one of SHOW BINARY LOGS, no folder")
        if not FIRST_POSITION <= self.start_position <= _HIGHEST_POSITION:
            raise _wrong("start_position", f"{self.start_position} is no position", "4 is the first in a file")

    def _check_types(self) -> None:
        for name, kind in (("file_name", str), ("start_position", int), ("server_id", int), ("flags", int)):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise _wrong(name, f"{value!r} is no {kind.__name__}", "see relay.binlog.Replication")
        if not isinstance(self.gtid_set, str):
            raise _wrong("gtid_set", f"{self.gtid_set!r} is no str", "give it as text, as the server prints it")

    def _check_gtid_set(self, mariadb: bool) -> None:
        kind = "MariaDB" if mariadb else "MySQL"
        example = "0-1-7,1-2-3" if mariadb else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
        try:
            parsed = GtidSet(self.gtid_set)
        except ValueError as error:
            raise _wrong("gtid_set", error, f"a set of {kind} looks like {example}") from None
        if parsed and parsed.mariadb is not mariadb:
            raise _wrong(
                "gtid_set", f"{self.gtid_set[:80]} is none of {kind}, and the server is", f"it looks like {example}"
            )


def _wrong(field: str, cause: str | BaseException, hint: str) -> DescriptionError:
    return DescriptionError(ErrorCode.USAGE, "check the stream's description", cause, position=field, hint=hint)
