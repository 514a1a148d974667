"""What the reader keeps in DataDir/state.db: ids of names, versions of definitions and where in the binlog each holds,
its server id.

The clients' tables in the same file belong to the broker. All writes are small and rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from relay.binlog.statements import Statement
from relay.journal.frames import Column, Definition
from relay.statefile import STATE_FORMAT, opened

VERSIONS_KEPT: Final = 100
"""Of each table. Rows are read again from no further back than the oldest prepared transaction."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS proofs (
  id INTEGER PRIMARY KEY, schema_name TEXT NOT NULL, table_name TEXT NOT NULL, content BLOB NOT NULL,
  since_file TEXT NOT NULL, since_position INTEGER NOT NULL, until_file TEXT, until_position INTEGER);
CREATE INDEX IF NOT EXISTS proofs_by_table ON proofs (schema_name, table_name);
CREATE INDEX IF NOT EXISTS proofs_that_hold ON proofs (id) WHERE until_file IS NULL;
CREATE TABLE IF NOT EXISTS gaps (
  at REAL NOT NULL, before_file TEXT NOT NULL, before_position INTEGER NOT NULL, after_file TEXT NOT NULL,
  after_position INTEGER NOT NULL, cause TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS source (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class Place(msgspec.Struct, frozen=True):
    """A position in the source's binlog. Places are ordered by the number that ends the file's name."""

    file: str
    position: int

    def __lt__(self, other: Place) -> bool:
        return self._order() < other._order()

    def __le__(self, other: Place) -> bool:
        return self._order() <= other._order()

    def _order(self) -> tuple[int, int]:
        return _number(self.file), self.position

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


def _number(file: str) -> int:
    suffix = file.rpartition(".")[2]
    return int(suffix) if suffix.isdecimal() else 0


class Version(NamedTuple):
    """A definition, with its numbers, and where in the binlog it holds: from `since` up to `until`, if that is known.

    `until` is where a statement ended that mentions the table, or where another definition is known to hold.
    """

    definition: Definition
    since: Place
    until: Place | None


class Catalog:
    """The reader's tables. One process writes; opened after the fork."""

    def __init__(self, path: Path) -> None:
        self._db = opened(path, STATE_FORMAT)
        self._db.executescript(_SCHEMA)
        self._numbered: dict[bytes, Definition] = {}
        self._ids: dict[str, int] = dict(self._db.execute("SELECT name, id FROM names"))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, key: str) -> str:
        """A kept fact of the source ("server_id", "generation"), "" if there is none."""
        row = self._db.execute("SELECT value FROM source WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""

    def put(self, key: str, value: str) -> None:
        """Keep a fact of the source."""
        self._db.execute("INSERT OR REPLACE INTO source VALUES (?, ?)", (key, value))

    def add_gap(self, at: float, before: Place, after: Place, cause: str) -> None:
        """Note that nothing is known of what the source did between two places; `at` is in Unix seconds."""
        self._db.execute(
            "INSERT INTO gaps VALUES (?, ?, ?, ?, ?, ?)",
            (at, before.file, before.position, after.file, after.position, cause),
        )

    def numbered(self, definition: Definition) -> Definition:
        """The definition with the ids of its names and the version of its content; the same content keeps both."""
        content = msgspec.msgpack.encode(_bare(definition))
        known = self._numbered.get(content)
        if known is None:
            known = self._numbered[content] = self._number(definition, content)
        return known

    def _number(self, definition: Definition, content: bytes) -> Definition:
        with self._transaction():
            row = self._db.execute(
                "INSERT INTO schema_versions (content) VALUES (?) ON CONFLICT DO UPDATE SET content = content"
                " RETURNING version",
                (content,),
            ).fetchone()
            return msgspec.structs.replace(
                definition,
                version=row[0],
                schema_id=self._id(definition.schema),
                table_id=self._id(definition.table),
                columns=[
                    msgspec.structs.replace(column, name_id=self._id(column.name)) for column in definition.columns
                ],
            )

    def history(self, schema: str, table: str) -> list[Version]:
        """What is known of a table over time, in the order of the binlog; between two versions nothing may be known."""
        return [
            Version(self._definition(number), since, until) for number, since, until in self._intervals(schema, table)
        ]

    def definition_at(self, schema: str, table: str, place: Place) -> Definition | None:
        """The definition of a table that is known to hold at a place of the binlog."""
        for number, since, until in self._intervals(schema, table):
            if since <= place and (until is None or place < until):
                return self._definition(number)
        return None

    def _intervals(self, schema: str, table: str) -> list[tuple[int, Place, Place | None]]:
        """Number of each proof, and where it holds; in order, and none overlaps another."""
        rows = self._db.execute(
            "SELECT id, since_file, since_position, until_file, until_position FROM proofs"
            " WHERE schema_name = ? AND table_name = ? ORDER BY id",
            (schema, table),
        )
        found = [
            (number, Place(since_file, since_position), None if until_file is None else Place(until_file, until))
            for number, since_file, since_position, until_file, until in rows
        ]
        found.sort(key=lambda interval: interval[1])  # a restart may prove an earlier place later
        for at, ((number, since, until), (_, after, _)) in enumerate(pairwise(found)):
            if until is None or after < until:
                found[at] = number, since, after
        return found

    def _definition(self, number: int) -> Definition:
        (content,) = self._db.execute("SELECT content FROM proofs WHERE id = ?", (number,)).fetchone()
        return self.numbered(msgspec.msgpack.decode(content, type=Definition))

    def prove(self, definition: Definition, since: Place) -> None:
        """The definition holds from `since` until a statement that mentions the table."""
        known = self.definition_at(definition.schema, definition.table, since)
        if known is not None and _bare(known) == _bare(definition):
            return
        content = msgspec.msgpack.encode(_bare(definition))
        name = definition.schema, definition.table
        with self._transaction():
            self._db.execute(
                "INSERT INTO proofs (schema_name, table_name, content, since_file, since_position)"
                " VALUES (?, ?, ?, ?, ?)",
                (*name, content, since.file, since.position),
            )
            self._db.execute(
                "DELETE FROM proofs WHERE schema_name = ? AND table_name = ? AND id <="
                " (SELECT id FROM proofs WHERE schema_name = ? AND table_name = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (*name, *name, VERSIONS_KEPT),
            )

    def end_proofs(self, statement: Statement, place: Place) -> None:
        """End what was proven of the tables that a statement at `place` mentions.

        What is proven from a later place on is left alone: the statement is read once more, after a restart.
        """
        rows = self._db.execute(
            "SELECT id, schema_name, table_name, since_file, since_position FROM proofs WHERE until_file IS NULL"
        )
        ended = [
            (place.file, place.position, number)
            for number, schema, table, file, position in rows
            if Place(file, position) <= place and statement.mentions(schema, table)
        ]
        if ended:
            with self._on_disk():
                self._db.executemany("UPDATE proofs SET until_file = ?, until_position = ? WHERE id = ?", ended)

    def forget_proofs(self) -> None:
        """Positions have a new meaning: another source, or a binlog begun anew."""
        with self._on_disk():
            self._db.execute("DELETE FROM proofs")

    def _id(self, name: str) -> int:
        found = self._ids.get(name)
        if found is None:
            found = int(self._db.execute("INSERT INTO names (name) VALUES (?) RETURNING id", (name,)).fetchone()[0])
            self._ids[name] = found
        return found

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """A transaction that the host's death does not undo: a proof that came back would put names on other values."""
        self._db.execute("PRAGMA synchronous = FULL")
        try:
            with self._transaction():
                yield
        finally:
            self._db.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            self._ids = dict(self._db.execute("SELECT name, id FROM names"))
            raise
        self._db.execute("COMMIT")


def _bare(definition: Definition) -> Definition:
    """Without numbers: what the definition says."""
    columns: list[Column] = [msgspec.structs.replace(column, name_id=0) for column in definition.columns]
    return msgspec.structs.replace(definition, version=0, schema_id=0, table_id=0, columns=columns)
