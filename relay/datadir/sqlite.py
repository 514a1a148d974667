"""Open SQLite files in DataDir, after the fork, and check that this release knows their format.

The format of a file is its `user_version`. It is 0 in files from before formats were recorded; these are of format 1.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from relay.base.errors import RelayError, StopCode
from relay.datadir.sync import Database

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OUT_OF_REACH: Final = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
})  # fmt: skip
_CACHE_KIB: Final = 256  # by default 2 MiB, in which processes would have all of most files once more


def opened(path: Path, known: int) -> sqlite3.Connection:
    """Open the file as `connected` does, and set its format to `known`."""
    database, found = connected(path, known)
    try:
        if found < known:
            set_format(database, known)
    except BaseException:
        database.close()
        raise
    return database


def connected(path: Path, known: int) -> tuple[sqlite3.Connection, int]:
    """Open the file, or create it, and return the connection and the file's format.

    Commits survive the death of any process. `known` is the newest format that the caller knows. Raises `RelayError`
    for a newer format and for a file with a failed sync, and `sqlite3.Error`.
    """
    database = sqlite3.connect(path, isolation_level=None, timeout=10, factory=Database)
    try:
        [[found]] = database.execute("PRAGMA user_version")
        if found > known:
            cause = f"it is of format {found}, this release knows up to {known}"
            raise RelayError(StopCode.NEWER_FORMAT, "open state", cause, position=str(path))
        cache = f"cache_size = -{_CACHE_KIB}"
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON", cache):
            database.execute(f"PRAGMA {pragma}")
    except BaseException:
        database.close()
        raise
    return database, found


def set_format(database: sqlite3.Connection, number: int) -> None:
    """Store the format of a file in it."""
    database.execute(f"PRAGMA user_version = {number}")


def for_reading(path: Path) -> sqlite3.Connection:
    """Open an existing file of any format for reading only."""
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=10)


def is_damage(error: Exception) -> bool:
    """Whether SQLite reports that its file is damaged."""
    return error_code(error) in _DAMAGED


def is_out_of_reach(error: sqlite3.DatabaseError, path: Path) -> bool:
    """Whether an error means that the file could not be read or written, and says nothing about its content."""
    code = error_code(error)
    refused = code == sqlite3.SQLITE_READONLY and not os.access(path, os.W_OK)
    return code is None or code in _OUT_OF_REACH or refused


def error_code(error: Exception) -> int | None:
    """SQLite's primary error code; None if the error is not from SQLite."""
    code = getattr(error, "sqlite_errorcode", None) if isinstance(error, sqlite3.Error) else None
    return None if code is None else code & 0xFF
