"""The description of a stream: the request, and after each fetch the event and the position."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import msgspec

from relay._native import GtidSet
from relay.base.errors import ErrorCode
from relay.source.commands import FIRST_POSITION, LONGEST_FILE_NAME, NON_BLOCKING, SHORT_POSITION
from relay.source.errors import DescriptionError

_HIGHEST_ID: Final = 2**32 - 1
_HIGHEST_POSITION: Final = 2**64 - 1


class Flag(IntFlag):
    """Options of a stream. The low 16 bits are sent to the server in the dump command, the others are local."""

    NON_BLOCK = NON_BLOCKING
    """End at the end of the binlog; without it, `fetch` waits for more."""
    SEND_ANNOTATE_ROWS = 0x02
    """MariaDB: send ANNOTATE_ROWS events, the statements of row events."""
    HEARTBEAT_V2 = 0x02
    """MySQL 8.0.26 and later: send heartbeats as HEARTBEAT_V2. The same bit as SEND_ANNOTATE_ROWS."""
    GTID = 1 << 16
    """Begin after the transactions in `gtid_set`, in any file.

    This is COM_BINLOG_DUMP_GTID on MySQL, and @slave_connect_state on MariaDB. `file_name` and `start_position` are not
    sent.
    """
    SKIP_HEARTBEAT = 1 << 17
    """`fetch` does not return heartbeats."""


_KNOWN: Final = int(Flag.NON_BLOCK | Flag.SEND_ANNOTATE_ROWS | Flag.GTID | Flag.SKIP_HEARTBEAT)


class Replication(msgspec.Struct):
    """The counterpart of MYSQL_RPL in MySQL's C API: filled in by the caller before `open`, updated by every `fetch`.

    After a `fetch`, the description can be passed to a new stream, which continues where this one stopped: it repeats
    the current transaction from its beginning, and nothing before it.
    """

    file_name: str = ""
    """The name of a binlog file as in SHOW BINARY LOGS, at most 511 bytes; "" for the oldest. Follows the stream."""
    start_position: int = FIRST_POSITION
    """The byte in the file at which to begin, which must be the beginning of an event; 4 is the first.

    It follows the stream: it becomes the end of the last complete transaction.
    """
    server_id: int = 0
    """The id of this replica, 1 to 4294967295, unique among the server's replicas; SHOW REPLICAS lists it.

    0 is for non-blocking streams: their reader is not a replica.
    """
    flags: int = 0
    """`Flag` bits."""
    gtid_set: str = ""
    """With `Flag.GTID`, the transactions to skip: a GTID set of MySQL (uuid:1-7,...) or position of MariaDB
    (0-1-7,...).

    It follows the stream in any case: each complete transaction is added. It is complete if it was complete at the
    beginning, or if the stream began at the beginning of a file.
    """
    position: int = 0
    """The end of the last event in the file, counted beyond 4 GiB.

    Heartbeats and events that the server generates for the stream do not change it.
    """
    size: int = 0
    """The bytes in `buffer`; 0 at the end of a non-blocking stream, -1 after an error."""
    buffer: bytes = b""
    """The packet as the server sent it: an OK byte (0), then the event."""

    def check(self, mariadb: bool) -> None:
        """Raise `DescriptionError` if a field is invalid for a server of this kind."""
        self._check_types()
        if self.flags & ~_KNOWN:
            raise _wrong("flags", f"{self.flags & ~_KNOWN:#x} is not a flag", "use the members of relay.binlog.Flag")
        if not 0 <= self.server_id <= _HIGHEST_ID:
            raise _wrong("server_id", f"{self.server_id} is not between 0 and {_HIGHEST_ID}", "choose another")
        if not self.server_id and not self.flags & Flag.NON_BLOCK:
            raise _wrong(
                "server_id",
                "0 is not a replica id, and the stream would wait for events",
                "set an id that no other replica of the server uses, or Flag.NON_BLOCK",
            )
        if self.flags & Flag.GTID:
            self._check_gtid_set(mariadb)
            return
        self.check_position()
        if self.start_position > SHORT_POSITION:
            raise _wrong(
                "start_position",
                f"{self.start_position} is beyond 4 GiB, the limit of COM_BINLOG_DUMP",
                "start at an earlier position of the file, or by GTID (Flag.GTID; not on MariaDB 11.4 and later)",
            )
        if self.gtid_set:
            self._check_gtid_set(mariadb)

    def check_position(self) -> None:
        """Raise `DescriptionError` if file name and position are not a valid position."""
        self._check_types()
        name = self.file_name.encode(errors="surrogateescape")
        if len(name) > LONGEST_FILE_NAME:
            raise _wrong("file_name", f"it has {len(name)} bytes", f"{LONGEST_FILE_NAME} is the limit of servers")
        if any(byte < 0x20 for byte in name) or "/" in self.file_name:
            raise _wrong(
                "file_name", f"{self.file_name[:80]!r} is not a name", "use one of SHOW BINARY LOGS, no folder"
            )
        if not FIRST_POSITION <= self.start_position <= _HIGHEST_POSITION:
            raise _wrong("start_position", f"{self.start_position} is not a position", "4 is the first in a file")

    def _check_types(self) -> None:
        for name, kind in (("file_name", str), ("start_position", int), ("server_id", int), ("flags", int)):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise _wrong(name, f"{value!r} is not of type {kind.__name__}", "see relay.binlog.Replication")
        if not isinstance(self.gtid_set, str):
            raise _wrong("gtid_set", f"{self.gtid_set!r} is not a str", "give it as the text that the server prints")

    def _check_gtid_set(self, mariadb: bool) -> None:
        kind = "MariaDB" if mariadb else "MySQL"
        example = "0-1-7,1-2-3" if mariadb else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
        try:
            parsed = GtidSet(self.gtid_set)
        except ValueError as error:
            raise _wrong("gtid_set", error, f"a set of {kind} looks like {example}") from None
        if parsed and parsed.mariadb is not mariadb:
            raise _wrong("gtid_set", f"{self.gtid_set[:80]} is not a GTID set of {kind}", f"it looks like {example}")


def _wrong(field: str, cause: str | BaseException, hint: str) -> DescriptionError:
    return DescriptionError(ErrorCode.USAGE, "check the stream's description", cause, position=field, hint=hint)
