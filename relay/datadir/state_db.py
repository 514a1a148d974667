"""DataDir/state.db: its tables, and the check on opening that every row is as it was written.

Reader and state writer share it; each table has one writer. A file of a release without seals is sealed as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relay.base.errors import RelayError, StopCode
from relay.datadir import seals
from relay.datadir.sqlite import connected, is_out_of_reach, set_format
from relay.datadir.state_mark import Mark, StateLost

FORMAT: Final = 2
EARLIER: Final = "proofs"
"""A table of releases before the schema history. The reader reads it once and drops it."""
_TABLES: Final = (
    # Tables of the state writer.
    "CREATE TABLE IF NOT EXISTS clients ("
    "id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, created REAL NOT NULL, checkpoint BLOB)",
    "CREATE TABLE IF NOT EXISTS filters ("
    "id INTEGER PRIMARY KEY, client INTEGER NOT NULL REFERENCES clients (id) ON DELETE CASCADE,"
    " schema_name TEXT NOT NULL, table_name TEXT NOT NULL, kinds INTEGER NOT NULL,"
    " discard INTEGER NOT NULL, queue_limit INTEGER NOT NULL, since BLOB NOT NULL, until BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS filters_by_client ON filters (client)",
    "CREATE TABLE IF NOT EXISTS broker (key TEXT PRIMARY KEY, value BLOB NOT NULL)",
    # Tables of the reader.
    "CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS gaps ("
    "at REAL NOT NULL, before_file TEXT NOT NULL, before_position INTEGER NOT NULL, after_file TEXT NOT NULL,"
    " after_position INTEGER NOT NULL, cause TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS source (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
)


def opened(path: Path) -> sqlite3.Connection:
    """Open the file, or create it. Read all of it and verify that everything is as it was written.

    Raises `RelayError`: state_damaged with what is damaged, `StateLost` for an older file, newer_format. Raises
    `sqlite3.Error` if the file cannot be read or written.
    """
    with _damage_as_fatal_error(path):
        database, found = connected(path, FORMAT)
        try:
            seals.prepare(database)
            if found != FORMAT:
                _seal(database, path)
            known = Mark(path).known()  # read first, because the other process keeps writing
            database.execute("BEGIN")
            _verify(database, path)
            changes = seals.changes(database)
            database.execute("COMMIT")
            _require_writable(database, path)
            if changes < known:
                raise StateLost(path, f"it is new, or an older copy: it has {changes} of {known} changes")
        except BaseException:
            database.close()
            raise
    return database


def damaged(path: Path, cause: str | BaseException) -> RelayError:
    """Return the fatal error for a state.db that is not as it was written."""
    return RelayError(StopCode.STATE_DAMAGED, "open state", cause, position=str(path))


@contextmanager
def _damage_as_fatal_error(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message contains damaged text
        raise damaged(path, "its schema is not what the relay wrote") from error
    except sqlite3.DatabaseError as error:
        raise error if is_out_of_reach(error, path) else damaged(path, error) from error


def _seal(database: sqlite3.Connection, path: Path) -> None:
    """Create a new file's tables, or seal those of an earlier release."""
    database.execute("BEGIN IMMEDIATE")
    try:
        [[found]] = database.execute("PRAGMA user_version")
        if found != FORMAT:  # else the other process has sealed it meanwhile
            if seals.is_sealed(database):
                raise damaged(path, f"it declares format {found}, but has content of format {FORMAT}")
            _verify_structure(database, path)
            for table in _TABLES:
                database.execute(table)
            seals.add(database, EARLIER)
            set_format(database, FORMAT)
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _verify(database: sqlite3.Connection, path: Path) -> None:
    _verify_structure(database, path)
    found = seals.flaws(database, EARLIER)
    if found:
        names = dict(database.execute("SELECT id, CAST(name AS BLOB) FROM clients"))
        text = "; ".join(_describe(flaw, names) for flaw in found[:3])
        raise damaged(path, text if len(found) <= 3 else f"{text}; and {len(found) - 3} more rows")


def _require_writable(database: sqlite3.Connection, path: Path) -> None:
    """Check the file's header: it may have a version of SQLite's format that can be read but not written."""
    try:
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE changes SET number = number")
    except sqlite3.OperationalError as error:
        if not is_out_of_reach(error, path):
            raise
    if database.in_transaction:
        database.execute("ROLLBACK")


def _verify_structure(database: sqlite3.Connection, path: Path) -> None:
    [(found,)] = database.execute("PRAGMA integrity_check(1)")
    if found != "ok":
        raise damaged(path, str(found))


def _describe(flaw: seals.Flaw, clients: dict[int, bytes]) -> str:
    what = "is not what the relay wrote" if flaw.row else "is missing"
    text = f"row {flaw.key!r} of table {flaw.table} {what}"
    owner = {"clients": 0, "filters": 1}.get(flaw.table)
    known = clients.get(flaw.row[owner]) if flaw.row and owner is not None else None
    return text if known is None else f"{text} (client {known.decode(errors='replace')!r})"
