"""SQLite files in DataDir, as all processes use them: opened after the fork, of a format that this release knows.

The format of a file is its `user_version`: 0 in files of before there was one, which are of format 1.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from relay.errors import RelayError, StopCode

STATE_FORMAT: Final = 1
"""Of state.db, which reader and broker share."""
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def opened(path: Path, known: int) -> sqlite3.Connection:
    """A connection to the file, made if there is none. What is committed survives any process.

    `known` is the newest format that the caller knows. Raises `RelayError` for a newer one, and `sqlite3.Error`.
    """
    database = sqlite3.connect(path, isolation_level=None, timeout=10)
    try:
        [[found]] = database.execute("PRAGMA user_version")
        if found > known:
            cause = f"it is of format {found}, this release knows up to {known}"
            raise RelayError(StopCode.NEWER_FORMAT, "open state", cause, position=str(path))
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            database.execute(f"PRAGMA {pragma}")
        if found < known:
            database.execute(f"PRAGMA user_version = {known}")
    except BaseException:
        database.close()
        raise
    return database


def for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing to a file that is there, of whatever format."""
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=10)


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that its file is damaged."""
    return error_code(error) in _DAMAGED


def error_code(error: Exception) -> int | None:
    """SQLite's primary error code, if it is an error of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None) if isinstance(error, sqlite3.Error) else None
    return None if code is None else code & 0xFF
