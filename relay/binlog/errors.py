"""What can go wrong with `relay.binlog`, as exceptions: the source's errors, descriptions that are wrong, misuse."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from relay.errors import ErrorCode, RelayError, StopCode


class BinlogError(RelayError):
    """Reading a binlog failed. All that `relay.binlog` raises is one of these.

    `errno` is the source's error number, as in its manual, 0 if the error is not the source's; `text` what it said, or
    the cause. Operation, position, cause and hint are those of every `RelayError`.
    """

    def __init__(
        self,
        code: ErrorCode | StopCode,
        operation: str,
        cause: str | BaseException = "",
        *,
        position: str = "",
        hint: str = "",
        errno: int = 0,
        text: str = "",
    ) -> None:
        super().__init__(code, operation, cause, position=position, hint=hint)
        self.errno = errno
        self.text = text or self.cause


# What to do, for those who read a binlog themselves and have no relay to configure.
_HINTS: Final = {
    StopCode.BINLOG_PURGED: "begin at a place that the server has: SHOW BINARY LOGS lists its files",
    StopCode.GTID_GAP: "the server lacks transactions of gtid_set: is it the right server?",
    StopCode.SERVER_ID_CLASH: "another replica uses this server_id: choose another one",
    StopCode.SOURCE_DENIED: "the account needs the right REPLICATION SLAVE",
    StopCode.CHECKSUM_MISMATCH: "it was damaged on its way or on the server's disk: look at the place with mysqlbinlog",
    StopCode.EVENT_TOO_LARGE: "no server sends an event beyond 1 GiB: go on with the next file of the binlog",
    StopCode.UNKNOWN_EVENT: "look at the place with mysqlbinlog of the server's own release",
    ErrorCode.SOURCE_UNREACHABLE: "connect again, and go on with the description as it is",
}


def for_callers(error: RelayError, position: str = "") -> BinlogError:
    """The error as callers of `relay.binlog` are to see it; `position` if that is better known than by the error."""
    said = error if isinstance(error, BinlogError) else None
    return BinlogError(
        error.code,
        error.operation,
        error.cause,
        position=position or error.position,
        hint=_HINTS.get(error.code, error.hint),
        errno=said.errno if said else 0,
        text=said.text if said else "",
    )


class DescriptionError(BinlogError):
    """A field of a `Replication` is wrong; nothing was sent. `position` is the field's name."""


class Misuse(StrEnum):
    """What a `Stream`, a `BinlogFile` or the connection of a stream was used for at the wrong time."""

    NOT_OPEN = "not_open"
    ALREADY_OPEN = "already_open"
    CLOSED = "closed"
    CONNECTION_CLOSED = "connection_closed"
    UNREAD_RESULT = "unread_result"
    CONNECTION_TAKEN = "connection_taken"


_WORDS: Final = {
    Misuse.NOT_OPEN: ("it is not open", "call open() first, or use `with`"),
    Misuse.ALREADY_OPEN: ("it is open already", "read on with fetch(), or make another one for another place"),
    Misuse.CLOSED: ("it was closed", "make a new one; the description says where to go on"),
    Misuse.CONNECTION_CLOSED: (
        "the connection is not open",
        "connect with pymysql.connect(), and keep the connection until the stream is closed",
    ),
    Misuse.UNREAD_RESULT: (
        "the connection has a result that was not read to its end",
        "fetch all rows of the query before, or close its cursor",
    ),
    Misuse.CONNECTION_TAKEN: (
        "the connection carries a binlog stream, or carried one",
        "it can only be closed; connect again for queries",
    ),
}


class MisuseError(BinlogError):
    """Something was asked for at the wrong time; `misuse` says what. A defect of the calling program."""

    def __init__(self, misuse: Misuse, operation: str) -> None:
        cause, hint = _WORDS[misuse]
        super().__init__(ErrorCode.USAGE, operation, cause, hint=hint)
        self.misuse = misuse

    def __reduce__(self) -> tuple[type[MisuseError], tuple[Misuse, str]]:
        """Pickled by what it was made from."""
        return MisuseError, (self.misuse, self.operation)
