"""Table usage on disk: totals, rows by minute, definitions, and the position up to which the journal is counted.

It is one SQLite file, DataDir/usage.db, which only the monitor uses: no other process waits for the locks of a monitor
that hangs. Counts and their position change in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import astuple

from relay.datadir.sqlite import opened
from relay.runtime.process_status import Counts, TableUsage

FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS counted (
  id INTEGER PRIMARY KEY CHECK (id = 1), generation TEXT NOT NULL, position INTEGER NOT NULL, number INTEGER NOT NULL,
  since REAL NOT NULL, missed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tables (
  id INTEGER PRIMARY KEY, schema_name TEXT NOT NULL, table_name TEXT NOT NULL, inserts INTEGER NOT NULL,
  updates INTEGER NOT NULL, deletes INTEGER NOT NULL, last REAL NOT NULL, definition BLOB,
  UNIQUE (schema_name, table_name));
CREATE TABLE IF NOT EXISTS minutes (
  minute INTEGER NOT NULL, table_id INTEGER NOT NULL, inserts INTEGER NOT NULL, updates INTEGER NOT NULL,
  deletes INTEGER NOT NULL, PRIMARY KEY (minute, table_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unproven (table_id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
"""
_FORGOTTEN_AT_A_TIME: Final = 60  # minutes
_BUSY_MILLISECONDS: Final = 100  # time to wait for the lock of another program; HTTP requests wait, too
_SLICE: Final = 60  # minutes
_LAST_MINUTE: Final = 2**62


class Counted(msgspec.Struct):
    """Everything in the journal `generation` before the frame at `position` is counted. `number`: of the next change.

    `since`: when counting began, Unix seconds. `missed`: changes that were deleted before they were counted.
    """

    generation: int = 0
    position: int = 0
    number: int = 0
    since: float = 0.0
    missed: int = 0


class Table(msgspec.Struct):
    """A table with counted rows. `id` is valid in this file only. `usage` has the windows as they were last moved."""

    id: int
    usage: TableUsage


class UsageStore:
    """The open file. Raises `sqlite3.Error`, and `RelayError` for a file with a newer format."""

    def __init__(self, path: Path) -> None:
        self._db = opened(path, FORMAT)
        try:
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            # No save waits for the disk, which would delay the page: counts and position are lost together, and the
            # changes are counted again.
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL"):
                self._db.execute(f"PRAGMA {pragma}")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file. Do not save."""
        self._db.close()

    def counted(self) -> Counted:
        """Return the state of the last save."""
        row = self._db.execute("SELECT generation, position, number, since, missed FROM counted").fetchone()
        return Counted(int(row[0]), *row[1:]) if row else Counted()

    def tables(self) -> list[Table]:
        """All tables with their totals; the windows are empty."""
        return [
            Table(id, TableUsage(schema, table, Counts(*total), Counts(), Counts(), last, unproven))
            for id, schema, table, *total, last, unproven in self._db.execute(
                "SELECT id, schema_name, table_name, inserts, updates, deletes, last, ifnull(count, 0)"
                " FROM tables LEFT JOIN unproven ON table_id = id ORDER BY id"
            )
        ]

    def between(self, after: int, last: int) -> list[tuple[int, int, int, int]]:
        """For each table, its id and the rows inserted, updated and deleted in the minutes (after, last]."""
        return self._db.execute(
            "SELECT table_id, SUM(inserts), SUM(updates), SUM(deletes) FROM minutes WHERE minute > ? AND minute <= ?"
            " GROUP BY table_id",
            (after, last),
        ).fetchall()

    def since(self, first: int, now: int) -> dict[int, Counts]:
        """By table id, the rows in the minute `first` and all later minutes, including those after `now`."""
        found: dict[int, Counts] = {}
        # In slices, because SQLite sorts in memory the rows that it sums.
        for after in range(first - 1, now, _SLICE):
            last = after + _SLICE if after + _SLICE < now else _LAST_MINUTE
            for id, *rows in self.between(after, last):
                found.setdefault(id, Counts()).add(Counts(*rows))
        return found

    def minutes(self, table: Table, minutes: range) -> list[Counts]:
        """Rows of a table in each of these minutes."""
        marks = ",".join("?" * len(minutes))
        rows = self._db.execute(
            f"SELECT minute, inserts, updates, deletes FROM minutes WHERE minute IN ({marks}) AND table_id = ?",
            (*minutes, table.id),
        )
        found = {minute: Counts(*counts) for minute, *counts in rows}
        return [found.get(minute, Counts()) for minute in minutes]

    def definition(self, table: Table) -> bytes | None:
        """Return the newest definition of a table."""
        row = self._db.execute("SELECT definition FROM tables WHERE id = ?", (table.id,)).fetchone()
        return None if row is None else row[0]

    def definitions(self) -> dict[int, bytes]:
        """Return the newest definition of each table, by its id."""
        return dict(self._db.execute("SELECT id, definition FROM tables WHERE definition IS NOT NULL ORDER BY id"))

    def save(
        self,
        counted: Counted,
        tables: Collection[Table],
        minutes: dict[tuple[int, int], Counts],
        definitions: dict[int, bytes],
        forget: int,
    ) -> None:
        """Save all or nothing: tables with new totals, counts to add by (minute, table id), definitions by table id.

        Deletes minutes up to `forget`, the oldest 60 at a time.
        """
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "INSERT OR REPLACE INTO counted VALUES (1, ?, ?, ?, ?, ?)",
                (str(counted.generation), counted.position, counted.number, counted.since, counted.missed),
            )
            self._db.executemany(
                "INSERT INTO tables VALUES (?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT (id) DO UPDATE SET"
                " inserts = excluded.inserts, updates = excluded.updates, deletes = excluded.deletes,"
                " last = excluded.last",
                [(table.id, table.usage.schema, table.usage.table, *astuple(table.usage.total), table.usage.last)
                 for table in tables],
            )  # fmt: skip
            self._db.executemany(
                "INSERT OR REPLACE INTO unproven VALUES (?, ?)",
                [(table.id, table.usage.unproven) for table in tables if table.usage.unproven],
            )
            self._db.executemany(
                "INSERT INTO minutes VALUES (?, ?, ?, ?, ?) ON CONFLICT (minute, table_id) DO UPDATE SET"
                " inserts = inserts + excluded.inserts, updates = updates + excluded.updates,"
                " deletes = deletes + excluded.deletes",
                [(*key, *astuple(counts)) for key, counts in sorted(minutes.items())],
            )
            self._db.executemany(
                "UPDATE tables SET definition = ? WHERE id = ?",
                [(definition, id) for id, definition in definitions.items()],
            )
            self._db.execute(
                "DELETE FROM minutes WHERE minute <= ? AND minute < (SELECT MIN(minute) FROM minutes) + ?",
                (forget, _FORGOTTEN_AT_A_TIME),
            )
