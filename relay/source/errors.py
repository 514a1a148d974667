"""The exceptions of `relay.binlog`: errors of the source, invalid descriptions, misuse."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from relay.base.errors import ErrorCode, RelayError, StopCode


class BinlogError(RelayError):
    """Reading a binlog failed. All exceptions of `relay.binlog` are of this class.

    `errno` is the source's error number, as in its manual, 0 if the error is not the source's; `text` is its text, or
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


# For programs that read a binlog themselves, without a relay to configure.
_HINTS: Final = {
    StopCode.BINLOG_PURGED: "begin at a position that the server has: SHOW BINARY LOGS lists its files",
    StopCode.GTID_GAP: "the server lacks transactions of gtid_set: is it the right server?",
    StopCode.SERVER_ID_CLASH: "another replica uses this server_id: choose another one",
    StopCode.SOURCE_DENIED: "the account needs the privilege REPLICATION SLAVE",
    StopCode.CHECKSUM_MISMATCH: "it was damaged on its way or on the server's disk: see the position with mysqlbinlog",
    StopCode.EVENT_TOO_LARGE: "no server sends an event beyond 1 GiB: continue with the next file of the binlog",
    StopCode.UNKNOWN_EVENT: "see the position with mysqlbinlog of the server's own release",
    ErrorCode.SOURCE_UNREACHABLE: "connect again, and continue with the description as it is",
}


def as_binlog_error(error: RelayError, position: str = "") -> BinlogError:
    """Return the error as `BinlogError`, with a hint for programs without a relay.

    `position` overrides the error's own.
    """
    found = error if isinstance(error, BinlogError) else None
    return BinlogError(
        error.code,
        error.operation,
        error.cause,
        position=position or error.position,
        hint=_HINTS.get(error.code, error.hint),
        errno=found.errno if found else 0,
        text=found.text if found else "",
    )


class DescriptionError(BinlogError):
    """A field of a `Replication` is invalid; nothing was sent. `position` is the field's name."""


class Misuse(StrEnum):
    """The kind of misuse of a `Stream`, a `BinlogFile` or the connection of a stream."""

    NOT_OPEN = "not_open"
    ALREADY_OPEN = "already_open"
    CLOSED = "closed"
    CONNECTION_CLOSED = "connection_closed"
    UNREAD_RESULT = "unread_result"
    CONNECTION_TAKEN = "connection_taken"


_TEXTS: Final = {
    Misuse.NOT_OPEN: ("it is not open", "call open() first, or use `with`"),
    Misuse.ALREADY_OPEN: ("it is already open", "continue with fetch(), or make another one for another position"),
    Misuse.CLOSED: ("it was closed", "make a new one; the description says where to continue"),
    Misuse.CONNECTION_CLOSED: (
        "the connection is not open",
        "connect with pymysql.connect(), and keep the connection until the stream is closed",
    ),
    Misuse.UNREAD_RESULT: (
        "the connection has a result that was not read to its end",
        "fetch all rows of the query first, or close its cursor",
    ),
    Misuse.CONNECTION_TAKEN: (
        "the connection has a binlog stream, or had one",
        "it can only be closed; connect again for queries",
    ),
}


class MisuseError(BinlogError):
    """A call at the wrong time; `misuse` says which. This is a defect of the calling program."""

    def __init__(self, misuse: Misuse, operation: str) -> None:
        cause, hint = _TEXTS[misuse]
        super().__init__(ErrorCode.USAGE, operation, cause, hint=hint)
        self.misuse = misuse

    def __reduce__(self) -> tuple[type[MisuseError], tuple[Misuse, str]]:
        """Pickle by the constructor's arguments."""
        return MisuseError, (self.misuse, self.operation)
