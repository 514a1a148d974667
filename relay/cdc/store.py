"""The database of the CDC service: numbers of domains, versions of tables, and the known position of the journal.

One SQLite file, DataDir/cdc.db, shared by the processes of the service. An entry never changes its meaning: a number is
never used again.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from relay._native import cdc_fields
from relay.datadir.sqlite import opened

FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS domains (number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS versions (
  schema_name TEXT NOT NULL, table_name TEXT NOT NULL, generation TEXT NOT NULL, position INTEGER NOT NULL,
  begins INTEGER NOT NULL, number INTEGER NOT NULL, gtid TEXT NOT NULL, definition BLOB NOT NULL,
  PRIMARY KEY (schema_name, table_name, generation, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS known (generation TEXT PRIMARY KEY, position INTEGER NOT NULL);
"""


class Version(msgspec.Struct, frozen=True):
    """A definition of a table, counted from 1, whose rows begin at `position` in the journal.

    `begins` is the position of the transaction of its first row. `gtid` is the triplet of the statement that made the
    definition, or else of that transaction.
    """

    number: int
    position: int
    begins: int
    gtid: str
    definition: bytes


class Store:
    """The database, for one generation of the journal. Raises `sqlite3.Error`, and `RelayError` for a newer format."""

    def __init__(self, path: Path, generation: int) -> None:
        self._generation = str(generation)  # 64 unsigned bits do not fit into SQLite's integers
        self._db = opened(path, FORMAT)
        try:
            self._db.executescript(_SCHEMA)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def domain(self, source: str) -> int:
        """Return the number of a MySQL source, `uuid` or `uuid:tag`. Numbers begin at 1, in the order of first use."""
        ask = "SELECT number FROM domains WHERE source = ?"
        row = self._db.execute(ask, (source,)).fetchone()
        if row is None:  # even an ignored INSERT would take a number
            self._db.execute("INSERT OR IGNORE INTO domains (source) VALUES (?)", (source,))
            row = self._db.execute(ask, (source,)).fetchone()
        return int(row[0])

    def source(self, domain: int) -> str | None:
        """Return the source with this number."""
        row = self._db.execute("SELECT source FROM domains WHERE number = ?", (domain,)).fetchone()
        return row[0] if row else None

    def known(self) -> int:
        """Return the position up to which all versions are in the database, 0 if none is known."""
        row = self._db.execute("SELECT position FROM known WHERE generation = ?", (self._generation,)).fetchone()
        return row[0] if row else 0

    def keep_known(self, position: int) -> None:
        """Record that all versions up to this position are in the database."""
        self._db.execute(
            "INSERT INTO known VALUES (?, ?) ON CONFLICT (generation)"
            " DO UPDATE SET position = max(position, excluded.position)",
            (self._generation, position),
        )

    def versions(self) -> dict[tuple[str, str], list[Version]]:
        """Return the versions of each table, in the journal's order."""
        found: dict[tuple[str, str], list[Version]] = {}
        for schema, table, *facts in self._db.execute(
            "SELECT schema_name, table_name, number, position, begins, gtid, definition FROM versions"
            " WHERE generation = ? ORDER BY position",
            (self._generation,),
        ):
            found.setdefault((schema, table), []).append(Version(*facts))
        return found

    def add_version(self, schema: str, table: str, position: int, begins: int, gtid: str, definition: bytes) -> Version:
        """Return the version of the rows at `position`: the one that applies, or a new one that begins there."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            here = self._db.execute(
                "SELECT number, position, begins, gtid, definition FROM versions WHERE schema_name = ?"
                " AND table_name = ? AND generation = ? AND position <= ? ORDER BY position DESC LIMIT 1",
                (schema, table, self._generation, position),
            ).fetchone()
            if here and (here[1] == position or cdc_fields(here[4]) == cdc_fields(definition)):
                return Version(*here)  # another process has added it
            last = self._db.execute(
                "SELECT number, gtid, definition FROM versions WHERE schema_name = ? AND table_name = ?"
                " AND (generation != ? OR position < ?) ORDER BY number DESC LIMIT 1",
                (schema, table, self._generation, position),
            ).fetchone()
            if last and cdc_fields(last[2]) == cdc_fields(definition):  # a version from another journal
                made = Version(last[0], position, begins, last[1], definition)
            else:
                made = Version(last[0] + 1 if last else 1, position, begins, gtid, definition)
            self._db.execute(
                "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (schema, table, self._generation, position, begins, made.number, made.gtid, definition),
            )
            return made

    def forget_after(self, position: int) -> None:
        """Forget everything after the end of the journal: after a restore, what comes there is read again."""
        self._db.execute("DELETE FROM versions WHERE generation = ? AND position >= ?", (self._generation, position))
        self._db.execute(
            "UPDATE known SET position = min(position, ?) WHERE generation = ?", (position, self._generation)
        )

    def forget(self, schema: str, table: str, version: Version) -> None:
        """Delete a version that the journal does not contain."""
        self._db.execute(
            "DELETE FROM versions WHERE schema_name = ? AND table_name = ? AND generation = ? AND position = ?"
            " AND definition = ?",
            (schema, table, self._generation, version.position, version.definition),
        )
