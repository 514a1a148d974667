"""What the reader keeps in DataDir/state.db: ids of names, versions of definitions, accepted gaps, its server id.

The clients' tables in the same file belong to the broker. All writes are small and rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from relay.binlog.place import Place
from relay.journal.frames import Column, Definition
from relay.statefile import STATE_FORMAT, opened

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS gaps (
  at REAL NOT NULL, before_file TEXT NOT NULL, before_position INTEGER NOT NULL, after_file TEXT NOT NULL,
  after_position INTEGER NOT NULL, cause TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS source (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


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
        """A kept fact of the source ("server_id", "generation", "skipped"), "" if there is none."""
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

    @property
    def is_earlier(self) -> bool:
        """Whether a release before the schema history made the file."""
        return bool(self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'proofs'").fetchone())

    def earlier_proofs(self) -> list[tuple[Definition, Place]]:
        """Definitions that a release before the schema history proved, and since where each holds."""
        if not self.is_earlier:
            return []
        rows = self._db.execute(
            "SELECT content, since_file, since_position FROM proofs WHERE until_file IS NULL ORDER BY id"
        )
        return [
            (msgspec.msgpack.decode(content, type=Definition), Place(file, position))
            for content, file, position in rows
        ]

    def forget_earlier_proofs(self) -> None:
        """They stand in the schema history now."""
        self._db.execute("DROP TABLE IF EXISTS proofs")

    def _id(self, name: str) -> int:
        found = self._ids.get(name)
        if found is None:
            found = int(self._db.execute("INSERT INTO names (name) VALUES (?) RETURNING id", (name,)).fetchone()[0])
            self._ids[name] = found
        return found

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
