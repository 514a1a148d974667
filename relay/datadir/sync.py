"""SQLite files after a failed sync: nothing that was written after the last good sync is trusted.

Linux reports a failed sync only once, and then treats the pages as written. SQLite would sync again, get no error, and
delete its log. So each sync is recorded before it begins and after it succeeds, in NAME-sync beside the file. That
record lives as long as the page cache. A sync that failed, or during which its process died, leaves the file in doubt:
nobody uses it until the supervisor has rewritten it while no process has it open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from relay._native import SyncNote
from relay.base.errors import RelayError, StopCode

USERS: Final = {
    "state.db": ("reader", "state-writer"),
    "schema.db": ("reader",),
    "usage.db": ("monitor",),
    "cdc.db": ("cdc-",),
}
"""The SQLite files in DataDir, and the name prefixes of the processes that open them."""
_KNOWN_BY: Final = {"state.db": "broker"}
"""The process that keeps in memory what is in the file, as the process that opens it has answered."""
LOG_BYTES: Final = 4 << 20  # SQLite's log is copied into the file when it is longer than this
_SYNCS: Final = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})
_kept = list["Database"]()


class Database(sqlite3.Connection):
    """A connection with recorded syncs. After a failed sync, each use raises `RelayError` (sync_failed)."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._path = path
        self._note = SyncNote(_note(path))
        self._changes = 0
        self._require_synced()
        super().__init__(path, **options)
        # SQLite does not report a failure of an automatic checkpoint.
        super().execute("PRAGMA wal_autocheckpoint = 0")
        super().execute("PRAGMA journal_size_limit = 0")

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`."""
        with self._recorded():
            cursor = super().execute(*arguments)
        self._restart_long_log()
        return cursor

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`."""
        with self._recorded():
            return super().executemany(*arguments)

    def executescript(self, script: str) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executescript`."""
        with self._recorded():
            return super().executescript(script)

    def __exit__(self, *raised: Any) -> Any:
        """Commit, or roll back."""
        with self._recorded():
            done = super().__exit__(*raised)
        self._restart_long_log()
        return done

    def close(self) -> None:
        """Close it. The last connection to close deletes the log, after its content is synced in the file."""
        with suppress(sqlite3.Error):  # on failure, the log stays
            self._checkpoint()
        super().close()

    def _require_synced(self) -> None:
        if self._note.failed:
            raise self._sync_error("an earlier sync failed")

    def _sync_error(self, cause: str | Exception) -> RelayError:
        _kept.append(self)  # if it were finalized, SQLite would delete the log
        return RelayError(StopCode.SYNC_FAILED, "sync state to disk", cause, position=str(self._path))

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        self._require_synced()
        self._note.begin()
        try:
            yield
        except BaseException as error:
            if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) in _SYNCS:
                self._note.fail()
                raise self._sync_error(error) from error
            self._note.end()
            raise
        self._note.end()

    def _restart_long_log(self) -> None:
        """Restart the log once it is long. If another process is syncing, it is left to that process."""
        if self.total_changes == self._changes or self.in_transaction:
            return
        self._changes = self.total_changes
        if _size(self._path.with_name(f"{self._path.name}-wal")) > LOG_BYTES and not self._note.unknown:
            with suppress(sqlite3.OperationalError):  # another process reads: try next time
                self._checkpoint()

    def _checkpoint(self) -> None:
        with self._recorded():
            super().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def failed(folder: Path, process: str) -> bool:
    """Whether a sync of a file that the process has open failed."""
    return any(note.failed for _, note in _notes(folder, process))


def doubtful(folder: Path, process: str) -> list[Path]:
    """Return the files of a dead process whose sync failed or may have failed."""
    return [path for path, note in _notes(folder, process) if note.failed or note.unknown]


def uses(process: str, name: str) -> bool:
    """Whether the process has the file with this name open, or keeps in memory what is in it."""
    return process.startswith(USERS[name]) or process == _KNOWN_BY.get(name)


def _notes(folder: Path, process: str) -> Iterator[tuple[Path, SyncNote]]:
    for path in (folder / name for name in USERS if process.startswith(USERS[name])):
        if _note(path).exists():
            with suppress(RelayError):  # DataDir is read-only: the process that opens the file reports that
                yield path, SyncNote(_note(path))


def rewrite(path: Path) -> None:
    """Write the file and its log to disk again, as reading returns them now, whatever earlier syncs reported.

    No process may have them open. The log is written first: with the log, the old file and the new one are both
    complete. The next process that opens them checks the log, and copies it to the file again, because nothing records
    that this was done. Raises `RelayError` (sync_failed).
    """
    note = SyncNote(_note(path))
    note.fail()  # until everything is written
    try:
        for each in (path.with_name(f"{path.name}-wal"), path):
            if each.exists():
                made = each.with_name(f"{each.name}.new")
                shutil.copy(each, made)
                sync_path(made)
                made.replace(each)
                sync_path(path.parent)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    except OSError as error:
        raise RelayError(StopCode.SYNC_FAILED, "rewrite state", error, position=str(path)) from error
    note.settle()


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}-sync")


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def sync_path(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
