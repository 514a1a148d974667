"""Classify errors of the source: fatal errors, after which another attempt cannot help, and lost connections."""

from __future__ import annotations

import random
import re
from typing import Final

from relay.base.errors import MEANINGS, ErrorCode, RelayError, StopCode
from relay.source.commands import ServerError
from relay.source.errors import BinlogError

_FATAL_DUMP: Final = 1236
_BY_NUMBER: Final = {
    **dict.fromkeys(
        (1044, 1045, 1130, 1142, 1143, 1227, 1251, 1698, 1820, 1862, 3118, 3159, 4151), StopCode.SOURCE_DENIED
    ),
    1789: StopCode.BINLOG_PURGED,
    1885: StopCode.GTID_GAP,
    4052: StopCode.SERVER_ID_CLASH,  # MariaDB 11; its older releases and MySQL report it in a text of error 1236
}

# (part of the text of error 1236, folded; its code; the hint, "" for that of the code)
_DUMP_TEXTS: Final = (
    ("same server_uuid/server_id", StopCode.SERVER_ID_CLASH, ""),
    ("could not find first log file", StopCode.BINLOG_PURGED, ""),
    ("purged", StopCode.BINLOG_PURGED, ""),
    ("impossible position", StopCode.BINLOG_PURGED, ""),
    ("position > file size", StopCode.BINLOG_PURGED, ""),
    ("could not find gtid state requested", StopCode.BINLOG_PURGED, ""),
    ("has more gtids than", StopCode.GTID_GAP, ""),
    ("which is not in the master's binlog", StopCode.GTID_GAP, ""),
    ("is missing the gtid", StopCode.GTID_GAP, ""),
    ("binary log is not open", StopCode.SOURCE_DENIED, "enable log_bin on the source and restart it"),
    ("gtid_mode", StopCode.SOURCE_DENIED, "set gtid_mode = ON on the source, or start from a file and position"),
    ("max_allowed_packet", StopCode.EVENT_TOO_LARGE, ""),  # for a dump it is 1 GiB, whatever the source's setting
    ("checksum", StopCode.CHECKSUM_MISMATCH, ""),
    ("crc", StopCode.CHECKSUM_MISMATCH, ""),
    ("bogus data", StopCode.CHECKSUM_MISMATCH, ""),
    ("corrupt", StopCode.CHECKSUM_MISMATCH, ""),
    ("truncated", StopCode.CHECKSUM_MISMATCH, ""),
)  # fmt: skip
_CLIENT_ERRORS: Final = range(2000, 3000)  # the driver's own errors, about connections


class SourceLost(Exception):
    """The connection to the source is lost, or could not be made; another attempt may succeed.

    `error` is the source's error, None if there is none. `code` and `hint` are those of a command that makes only
    one attempt.
    """

    def __init__(
        self,
        cause: str,
        error: ServerError | None = None,
        *,
        code: ErrorCode = ErrorCode.SOURCE_UNREACHABLE,
        hint: str = "",
    ) -> None:
        super().__init__(cause)
        self.error = error
        self.code = code
        self.hint = hint or MEANINGS[code].hint

    def failure(self, operation: str, position: str = "") -> RelayError:
        """Return the error of a command that makes only one attempt."""
        return RelayError(self.code, operation, str(self), position=position, hint=self.hint)

    @property
    def sent_by_server(self) -> bool:
        """Whether the error came from the server, over a connection that still exists."""
        return self.error is not None and self.error.code not in _CLIENT_ERRORS


def classify(error: ServerError, operation: str, position: str = "") -> BinlogError | SourceLost:
    """Return the exception for a server's error: `BinlogError` if it is fatal, else `SourceLost`."""
    origin = "" if error.code in _CLIENT_ERRORS else "the source says: "
    shown = re.sub(r"\[Errno -?\d+\] ", "", error.text)
    cause = f"{origin}{shown} ({error.code})"

    def fatal(code: StopCode, hint: str = "") -> BinlogError:
        return BinlogError(code, operation, cause, position=position, hint=hint, errno=error.code, text=error.text)

    if code := _BY_NUMBER.get(error.code):
        return fatal(code)
    text = error.text.casefold()
    if error.code == _FATAL_DUMP:
        for part, code, hint in _DUMP_TEXTS:
            if part in text:
                return fatal(code, hint)
        return fatal(StopCode.UNKNOWN_EVENT)
    return SourceLost(f"{operation}: {cause}", error)


class Backoff:
    """The waits between attempts: doubling from 0.1 to 10 seconds, each shortened by up to a half at random."""

    _FIRST: Final = 0.1
    _LONGEST: Final = 10.0

    def __init__(self) -> None:
        self._next = self._FIRST

    def wait(self) -> float:
        """Return the seconds until the next attempt."""
        span = self._next
        self._next = min(span * 2, self._LONGEST)
        return span * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start over after a successful attempt."""
        self._next = self._FIRST
