"""Which named stop a failure of the disk is, whoever met it."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from relay.errors import RelayError, StopCode
from relay.statefile import error_code, is_damage

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def named(error: Exception, file: str = "state.db") -> RelayError | None:
    """The named stop for a full disk or a damaged state file, that of `file`; None for everything else."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return RelayError(StopCode.DISK_FULL, "write to DataDir", error)
    if error_code(error) == sqlite3.SQLITE_FULL:
        return RelayError(StopCode.DISK_FULL, "write to DataDir", error, position=file)
    if is_damage(error):
        return RelayError(StopCode.JOURNAL_CORRUPT, "read DataDir", error, position=file)
    return None
