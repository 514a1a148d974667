"""Map disk failures to fatal errors."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from relay.base.errors import RelayError, StopCode
from relay.datadir.sqlite import error_code, is_damage

STATE: Final = "state.db"
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def fatal_error(error: Exception, file: str = STATE) -> RelayError | None:
    """Return the fatal error for a full disk or for a damaged state file, `file`; None for every other error."""
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return RelayError(StopCode.DISK_FULL, "write to DataDir", error)
    if error_code(error) == sqlite3.SQLITE_FULL:
        return RelayError(StopCode.DISK_FULL, "write to DataDir", error, position=file)
    if is_damage(error):
        code = StopCode.STATE_DAMAGED if file == STATE else StopCode.JOURNAL_CORRUPT
        return RelayError(code, "read DataDir", error, position=file)
    return None
