"""The reader state in DataDir/state.db: ids of names, versions of definitions, accepted gaps, the server id.

The clients' tables in the same file belong to the state writer. All writes are small and rare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from relay.binlog.events.position import BinlogPosition
from relay.datadir import state_db
from relay.journal.frames import Column, Definition


class ReaderState:
    """The reader's tables. One process writes; opened after the fork."""

    def __init__(self, path: Path) -> None:
        self._db = state_db.opened(path)
        self._with_ids: dict[bytes, Definition] = {}
        self._ids: dict[str, int] = dict(self._db.execute("SELECT name, id FROM names"))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, key: str) -> str:
        """Return a fact of the source, such as "server_id", "generation" or "skipped"; "" if there is none."""
        row = self._db.execute("SELECT value FROM source WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""

    def put(self, key: str, value: str) -> None:
        """Store a fact of the source."""
        self._db.execute("INSERT OR REPLACE INTO source VALUES (?, ?)", (key, value))

    def put_all(self, facts: Mapping[str, str]) -> None:
        """Store facts of the source together."""
        self._together("INSERT OR REPLACE INTO source VALUES (?, ?)", facts.items())

    def delete(self, keys: Iterable[str]) -> None:
        """Delete facts of the source together."""
        self._together("DELETE FROM source WHERE key = ?", ((key,) for key in keys))

    def _together(self, sql: str, rows: Iterable[tuple[str, ...]]) -> None:
        """Execute a statement for each of the rows, in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(sql, rows)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def all(self, prefix: str) -> dict[str, str]:
        """Return the facts of the source whose keys begin with `prefix`, by the rest of the key."""
        rows = self._db.execute("SELECT key, value FROM source WHERE substr(key, 1, ?) = ?", (len(prefix), prefix))
        return {str(key)[len(prefix) :]: str(value) for key, value in rows}

    def broker_position(self) -> int:
        """Return the journal position of the clients' queues, which the broker maintains."""
        row = self._db.execute("SELECT value FROM broker WHERE key = 'position'").fetchone()
        return int.from_bytes(row[0], "big") if row else 0

    def add_gap(self, at: float, before: BinlogPosition, after: BinlogPosition, cause: str) -> None:
        """Record a gap: the events between two binlog positions are lost. `at` is in Unix seconds."""
        self._db.execute(
            "INSERT INTO gaps VALUES (?, ?, ?, ?, ?, ?)",
            (at, before.file, before.position, after.file, after.position, cause),
        )

    def with_ids(self, definition: Definition) -> Definition:
        """Return the definition with its version and the ids of its names. The same definition always gets the same."""
        content = msgspec.msgpack.encode(without_ids(definition))
        known = self._with_ids.get(content)
        if known is None:
            known = self._with_ids[content] = self._number(definition, content)
        return known

    def _number(self, definition: Definition, content: bytes) -> Definition:
        # A known definition is only read: the first row of its table after a start waits for no disk.
        row = self._db.execute("SELECT version FROM schema_versions WHERE content = ?", (content,)).fetchone()
        if row is not None:
            return self._numbered(definition, row[0])
        self._db.execute("BEGIN IMMEDIATE")
        try:
            [version] = self._db.execute(
                "INSERT INTO schema_versions (content) VALUES (?) RETURNING version", (content,)
            ).fetchone()
            known = self._numbered(definition, version)
        except BaseException:
            self._db.execute("ROLLBACK")
            self._ids = dict(self._db.execute("SELECT name, id FROM names"))
            raise
        self._db.execute("COMMIT")
        return known

    def _numbered(self, definition: Definition, version: int) -> Definition:
        return msgspec.structs.replace(
            definition,
            version=version,
            schema_id=self._id(definition.schema),
            table_id=self._id(definition.table),
            columns=[msgspec.structs.replace(column, name_id=self._id(column.name)) for column in definition.columns],
        )

    @property
    def is_of_earlier_release(self) -> bool:
        """Whether a release before the schema history made the file."""
        return bool(self._db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (state_db.EARLIER,)).fetchone())

    def earlier_proofs(self) -> list[tuple[Definition, BinlogPosition]]:
        """Return what a release before the schema history had proven: definitions, each with its first position."""
        if not self.is_of_earlier_release:
            return []
        rows = self._db.execute(
            "SELECT content, since_file, since_position FROM proofs WHERE until_file IS NULL ORDER BY id"
        )
        return [
            (msgspec.msgpack.decode(content, type=Definition), BinlogPosition(file, position))
            for content, file, position in rows
        ]

    def forget_earlier_proofs(self) -> None:
        """Drop the earlier proofs, once the schema history has them."""
        self._db.execute(f"DROP TABLE IF EXISTS {state_db.EARLIER}")

    def _id(self, name: str) -> int:
        found = self._ids.get(name)
        if found is None:
            found = int(self._db.execute("INSERT INTO names (name) VALUES (?) RETURNING id", (name,)).fetchone()[0])
            self._ids[name] = found
        return found


def without_ids(definition: Definition) -> Definition:
    """Return the definition without its version and ids."""
    columns: list[Column] = [msgspec.structs.replace(column, name_id=0) for column in definition.columns]
    return msgspec.structs.replace(definition, version=0, schema_id=0, table_id=0, columns=columns)
