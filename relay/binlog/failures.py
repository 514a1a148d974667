"""What a source's error means: a named stop, because trying again cannot help, or a lost connection."""

from __future__ import annotations

import random
from typing import Final

from relay.binlog.commands import ServerError
from relay.binlog.errors import BinlogError
from relay.errors import StopCode

_FATAL_DUMP: Final = 1236
_BY_NUMBER: Final = {
    **dict.fromkeys(
        (1044, 1045, 1130, 1142, 1143, 1227, 1251, 1698, 1820, 1862, 3118, 3159, 4151), StopCode.SOURCE_DENIED
    ),
    1789: StopCode.BINLOG_PURGED,
    1885: StopCode.GTID_GAP,
    4052: StopCode.SERVER_ID_CLASH,  # MariaDB 11; its older releases and MySQL say it in a text of error 1236
}

# (part of the text of error 1236, folded; what it means; what to do, "" for the stop's own hint)
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
    ("binary log is not open", StopCode.SOURCE_DENIED, "switch log_bin on at the source and start it again"),
    ("gtid_mode", StopCode.SOURCE_DENIED, "set gtid_mode = ON on the source, or start from a file and position"),
    ("max_allowed_packet", StopCode.EVENT_TOO_LARGE, ""),  # of a dump it is 1 GiB, whatever the source has configured
    ("checksum", StopCode.CHECKSUM_MISMATCH, ""),
    ("crc", StopCode.CHECKSUM_MISMATCH, ""),
    ("bogus data", StopCode.CHECKSUM_MISMATCH, ""),
    ("corrupt", StopCode.CHECKSUM_MISMATCH, ""),
    ("truncated", StopCode.CHECKSUM_MISMATCH, ""),
)  # fmt: skip
_CLIENT_ERRORS: Final = range(2000, 3000)  # the driver's own, of connections


class SourceLost(Exception):
    """The connection to the source is gone, or could not be made; another attempt may succeed.

    `error` is what the source said, None if it said nothing.
    """

    def __init__(self, cause: str, error: ServerError | None = None) -> None:
        super().__init__(cause)
        self.error = error

    @property
    def refused(self) -> bool:
        """Whether the server said so itself, over a connection that is still there."""
        return self.error is not None and self.error.code not in _CLIENT_ERRORS


def judge(error: ServerError, operation: str, position: str = "") -> BinlogError | SourceLost:
    """The exception for a server's error: a named stop where it says so, else a lost connection."""
    said = "" if error.code in _CLIENT_ERRORS else "the source says: "
    cause = f"{said}{error.text} ({error.code})"

    def stopped(code: StopCode, hint: str = "") -> BinlogError:
        return BinlogError(code, operation, cause, position=position, hint=hint, errno=error.code, text=error.text)

    if code := _BY_NUMBER.get(error.code):
        return stopped(code)
    text = error.text.casefold()
    if error.code == _FATAL_DUMP:
        for part, stop, hint in _DUMP_TEXTS:
            if part in text:
                return stopped(stop, hint)
        return stopped(StopCode.UNKNOWN_EVENT)
    return SourceLost(f"{operation}: {cause}", error)


class Backoff:
    """Waits between attempts: doubling from 0.1 to 10 seconds, each cut by up to a half at random."""

    _FIRST: Final = 0.1
    _LONGEST: Final = 10.0

    def __init__(self) -> None:
        self._next = self._FIRST

    def wait(self) -> float:
        """Seconds to wait before the next attempt."""
        span = self._next
        self._next = min(span * 2, self._LONGEST)
        return span * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """An attempt succeeded."""
        self._next = self._FIRST
