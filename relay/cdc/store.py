"""What the CDC service keeps on disk: numbers of domains, versions of tables, and how far the journal is known.

One SQLite file, DataDir/cdc.db, shared by the processes of the service. Whatever is in it once keeps its meaning:
numbers are never given to anything else.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from relay._native import cdc_fields
from relay.statefile import opened

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
    """A definition of a table, counted from 1, whose rows are in the journal from `position` on.

    `begins`: where the transaction of the first of them does. `gtid`: triplet of the statement that made it, or of that
    transaction.
    """

    number: int
    position: int
    begins: int
    gtid: str
    definition: bytes


class Store:
    """The file, for one generation of the journal. Raises `sqlite3.Error`, and `RelayError` for a newer format."""

    def __init__(self, path: Path, generation: int) -> None:
        self._generation = str(generation)  # 64 bits do not fit into SQLite's integers
        self._db = opened(path, FORMAT)
        try:
            self._db.executescript(_SCHEMA)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        """Close it; what was kept stays."""
        self._db.close()

    def domain(self, source: str) -> int:
        """The number that stands for a source of MySQL's, `uuid` or `uuid:tag`: from 1, in the order they are met."""
        ask = "SELECT number FROM domains WHERE source = ?"
        row = self._db.execute(ask, (source,)).fetchone()
        if row is None:  # an INSERT that is ignored takes a number all the same
            self._db.execute("INSERT OR IGNORE INTO domains (source) VALUES (?)", (source,))
            row = self._db.execute(ask, (source,)).fetchone()
        number: int = row[0]
        return number

    def source(self, domain: int) -> str | None:
        """The source that a number stands for."""
        row = self._db.execute("SELECT source FROM domains WHERE number = ?", (domain,)).fetchone()
        return row[0] if row else None

    def known(self) -> int:
        """Up to where all versions are in here, 0: nothing is."""
        row = self._db.execute("SELECT position FROM known WHERE generation = ?", (self._generation,)).fetchone()
        return row[0] if row else 0

    def keep_known(self, position: int) -> None:
        """All versions up to this position are in here."""
        self._db.execute(
            "INSERT INTO known VALUES (?, ?) ON CONFLICT (generation)"
            " DO UPDATE SET position = max(position, excluded.position)",
            (self._generation, position),
        )

    def versions(self) -> dict[tuple[str, str], list[Version]]:
        """Those of each table, in the journal's order."""
        found: dict[tuple[str, str], list[Version]] = {}
        for schema, table, *facts in self._db.execute(
            "SELECT schema_name, table_name, number, position, begins, gtid, definition FROM versions"
            " WHERE generation = ? ORDER BY position",
            (self._generation,),
        ):
            found.setdefault((schema, table), []).append(Version(*facts))
        return found

    def add_version(self, schema: str, table: str, position: int, begins: int, gtid: str, definition: bytes) -> Version:
        """The version of the rows there: the one that is in force already, or that begins there."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            here = self._db.execute(
                "SELECT number, position, begins, gtid, definition FROM versions WHERE schema_name = ?"
                " AND table_name = ? AND generation = ? AND position <= ? ORDER BY position DESC LIMIT 1",
                (schema, table, self._generation, position),
            ).fetchone()
            if here and (here[1] == position or cdc_fields(here[4]) == cdc_fields(definition)):
                return Version(*here)  # another process was here already
            last = self._db.execute(
                "SELECT number, gtid, definition FROM versions WHERE schema_name = ? AND table_name = ?"
                " AND (generation != ? OR position < ?) ORDER BY number DESC LIMIT 1",
                (schema, table, self._generation, position),
            ).fetchone()
            if last and cdc_fields(last[2]) == cdc_fields(definition):  # of another journal
                made = Version(last[0], position, begins, last[1], definition)
            else:
                made = Version(last[0] + 1 if last else 1, position, begins, gtid, definition)
            self._db.execute(
                "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (schema, table, self._generation, position, begins, made.number, made.gtid, definition),
            )
            return made

    def forget_after(self, position: int) -> None:
        """The journal ends at this position; where it had more before it was restored, what comes is looked at anew."""
        self._db.execute("DELETE FROM versions WHERE generation = ? AND position >= ?", (self._generation, position))
        self._db.execute(
            "UPDATE known SET position = min(position, ?) WHERE generation = ?", (position, self._generation)
        )

    def forget(self, schema: str, table: str, version: Version) -> None:
        """The journal does not have it."""
        self._db.execute(
            "DELETE FROM versions WHERE schema_name = ? AND table_name = ? AND generation = ? AND position = ?"
            " AND definition = ?",
            (schema, table, self._generation, version.position, version.definition),
        )
