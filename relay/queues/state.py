"""What is kept of clients on disk: names, ids, filters with the positions between which they held, and checkpoints.

One SQLite file, DataDir/state.db, which the reader's catalog shares; the tables here have one writer, the broker.
Committed means: survives the death of any process. A host that loses power loses what came after the last checkpoint,
which waits for the disk.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from sys import intern

import msgspec

from relay.statefile import STATE_FORMAT, opened

OPEN_END = 2**64 - 1  # `until` of a filter that is still in force

_SCHEMA = """
CREATE TABLE IF NOT EXISTS clients (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, created REAL NOT NULL, checkpoint BLOB);
CREATE TABLE IF NOT EXISTS filters (
  id INTEGER PRIMARY KEY, client INTEGER NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
  schema_name TEXT NOT NULL, table_name TEXT NOT NULL, kinds INTEGER NOT NULL,
  discard INTEGER NOT NULL, queue_limit INTEGER NOT NULL, since BLOB NOT NULL, until BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS filters_by_client ON filters (client);
CREATE TABLE IF NOT EXISTS broker (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class Filter(msgspec.Struct, frozen=True):
    """A filter of one client and the journal positions [since, until) of the rows that it decides on.

    `kinds` is a bit mask (1 insert, 2 update, 4 delete), `discard` and `limit` as in the protocol (limit 0: none).
    """

    schema: str
    table: str
    kinds: int
    discard: int
    limit: int
    since: int
    until: int = OPEN_END

    @property
    def key(self) -> tuple[str, str, int]:
        """What the protocol takes for the same filter."""
        return self.schema, self.table, self.kinds


class Client(msgspec.Struct):
    """A client as the broker knows it."""

    id: int
    name: str
    filters: list[Filter]
    checkpoint: bytes | None

    def in_force(self) -> list[Filter]:
        """The filters that hold for rows still to come, oldest first."""
        return [f for f in self.filters if f.until == OPEN_END]


def _pack(position: int) -> bytes:
    # SQLite integers end at 2^63; big-endian blobs keep the whole range and its order.
    return position.to_bytes(8, "big")


class ClientState:
    """The broker's tables. Every method that changes something has committed it when it returns."""

    def __init__(self, path: Path) -> None:
        self._db = opened(path, STATE_FORMAT)
        self._db.executescript(_SCHEMA)
        self._unflushed = False  # names or filters were written since the last checkpoint
        self._position = self.position()

    def close(self) -> None:
        self._db.close()

    def generation(self) -> int | None:
        """The generation of the journal that the stored positions belong to; None before the first start."""
        row = self._db.execute("SELECT value FROM broker WHERE key = 'generation'").fetchone()
        return None if row is None else int.from_bytes(row[0], "big")

    def set_generation(self, generation: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO broker VALUES ('generation', ?)", (_pack(generation),))

    def position(self) -> int:
        """The journal position before which nothing is left to be decided for clients that have a checkpoint."""
        row = self._db.execute("SELECT value FROM broker WHERE key = 'position'").fetchone()
        return 0 if row is None else int.from_bytes(row[0], "big")

    def clients(self) -> list[Client]:
        """All clients by ascending id. They ask for the same tables, often, and each name is kept once."""
        filters: dict[int, list[Filter]] = {}
        for client, schema, table, kinds, discard, limit, since, until in self._db.execute(
            "SELECT client, schema_name, table_name, kinds, discard, queue_limit, since, until FROM filters ORDER BY id"
        ):
            positions = int.from_bytes(since, "big"), int.from_bytes(until, "big")
            filters.setdefault(client, []).append(
                Filter(intern(schema), intern(table), kinds, discard, limit, *positions)
            )
        rows = self._db.execute("SELECT id, name, checkpoint FROM clients ORDER BY id")
        return [Client(id, name, filters.get(id, []), checkpoint) for id, name, checkpoint in rows]

    def add_client(self, name: str) -> Client:
        cursor = self._db.execute("INSERT INTO clients (name, created) VALUES (?, ?)", (name, time.time()))
        assert cursor.lastrowid is not None
        self._unflushed = True
        return Client(cursor.lastrowid, name, [], None)

    def forget_client(self, client: Client) -> None:
        self._db.execute("DELETE FROM clients WHERE id = ?", (client.id,))
        self._unflushed = True

    def replace_filters(self, client: Client, filters: Sequence[Filter]) -> None:
        """Stores the client's whole list, closed filters that rows still wait under included."""
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute("DELETE FROM filters WHERE client = ?", (client.id,))
            self._db.executemany(
                "INSERT INTO filters (client, schema_name, table_name, kinds, discard, queue_limit, since, until)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (client.id, f.schema, f.table, f.kinds, f.discard, f.limit, _pack(f.since), _pack(f.until))
                    for f in filters
                ],
            )
        client.filters = list(filters)
        self._unflushed = True

    def checkpoint(self, position: int, checkpoints: Collection[tuple[int, bytes]]) -> None:
        """Stores `position` and (client id, packed checkpoint) pairs, all or none, and flushes them to disk.

        So is everything before. Clients that are not among them keep their checkpoints.
        """
        if not checkpoints and not self._unflushed and position == self._position:
            return
        self._db.execute("PRAGMA synchronous=FULL")
        try:
            with self._db:
                self._db.execute("BEGIN")
                rows = ((checkpoint, id) for id, checkpoint in checkpoints)
                self._db.executemany("UPDATE clients SET checkpoint = ? WHERE id = ?", rows)
                # In any case: something has to be written, or nothing would be flushed.
                self._db.execute("INSERT OR REPLACE INTO broker VALUES ('position', ?)", (_pack(position),))
        finally:
            self._db.execute("PRAGMA synchronous=NORMAL")
        self._unflushed, self._position = False, position


def with_filter(filters: Sequence[Filter], new: Filter) -> list[Filter]:
    """The list after `new` was asked for: the same filter in force ends at `new.since`; rows before keep their rule."""
    return [*without_filter(filters, new.key, new.since), new]


def without_filter(filters: Sequence[Filter], key: tuple[str, str, int], position: int) -> list[Filter]:
    """The list after the filter with that key was removed at `position`."""
    kept = []
    for f in filters:
        if f.key == key and f.until == OPEN_END:
            if f.since < position:
                kept.append(msgspec.structs.replace(f, until=position))
        else:
            kept.append(f)
    return kept


def pruned(filters: Sequence[Filter], decided: int) -> list[Filter]:
    """The list without filters that ended at or before `decided`, below which no row of the client is matched again."""
    return [f for f in filters if f.until > decided]
