"""The durable state of clients: names, ids, filters with the positions between which they held, and checkpoints.

It is in one SQLite file, DataDir/state.db, shared with the reader state. The tables here have one writer, the state
writer. A commit survives the death of any process. If the host loses power, everything after the last checkpoint, which
waits for the disk, is lost.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from sys import intern

import msgspec

from relay.datadir import seals, state_db
from relay.datadir.state_mark import Mark

OPEN_END = 2**64 - 1  # `until` of a filter in force


class Filter(msgspec.Struct, frozen=True, gc=False):
    """A filter of one client, and the journal positions [since, until) of the rows that it decides on.

    `kinds` is a bit mask (1 insert, 2 update, 4 delete); `discard` and `limit` are as in the protocol (limit 0: none).
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
        """The identity of the filter: in the protocol, filters with equal keys are the same filter."""
        return self.schema, self.table, self.kinds


class Client(msgspec.Struct, gc=False):
    """A client as the broker knows it."""

    id: int
    name: str
    filters: list[Filter]
    checkpoint: bytes | None
    slot: int = -1  # of the arena; none yet

    def in_force(self) -> list[Filter]:
        """Return the filters that hold for future rows, oldest first."""
        return [f for f in self.filters if f.until == OPEN_END]


def _pack(position: int) -> bytes:
    # SQLite integers end at 2^63; big-endian blobs keep the whole range and its order.
    return position.to_bytes(8, "big")


class ClientState:
    """The tables of clients.

    Every method that changes something commits before it returns. A call that is repeated in the same order changes
    nothing.
    """

    def __init__(self, path: Path) -> None:
        self._db = state_db.opened(path)
        self._mark = Mark(path)
        self._unflushed = False  # names or filters were written since the last checkpoint
        self._flushed_other_commits = 0  # the commits of the other process that are flushed, by SQLite's data version
        self._position = self.position()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def generation(self) -> int | None:
        """Return the generation of the journal that the stored positions belong to; None before the first start."""
        row = self._db.execute("SELECT value FROM broker WHERE key = 'generation'").fetchone()
        return None if row is None else int.from_bytes(row[0], "big")

    def set_generation(self, generation: int) -> None:
        """Store the generation of the journal that the stored positions belong to."""
        self._db.execute("INSERT OR REPLACE INTO broker VALUES ('generation', ?)", (_pack(generation),))

    def position(self) -> int:
        """Return the journal position before which nothing is left to decide for clients with a checkpoint."""
        row = self._db.execute("SELECT value FROM broker WHERE key = 'position'").fetchone()
        return 0 if row is None else int.from_bytes(row[0], "big")

    def clients(self) -> list[Client]:
        """Return all clients by ascending id. Equal names share one string: clients often ask for the same tables."""
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

    def last_id(self) -> int:
        """Return the highest id of all clients that ever were."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'clients'").fetchone()
        return int(row[0]) if row else 0

    def add_client(self, id: int, name: str) -> None:
        """Store a client, whose id is higher than `last_id`; else it was stored before, and perhaps forgotten."""
        if id > self.last_id():
            self._db.execute("INSERT INTO clients (id, name, created) VALUES (?, ?, ?)", (id, name, time.time()))
            self._unflushed = True

    def forget_client(self, id: int) -> None:
        """Delete a client, and with it its filters and its checkpoint."""
        self._db.execute("DELETE FROM clients WHERE id = ?", (id,))
        self._unflushed = True

    def replace_filters(self, client: int, filters: Sequence[Filter]) -> None:
        """Store the whole list of a client, including closed filters that waiting rows still need.

        Nothing is stored for a client that does not exist.
        """
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute("DELETE FROM filters WHERE client = ?", (client,))
            self._db.executemany(
                "INSERT INTO filters (client, schema_name, table_name, kinds, discard, queue_limit, since, until)"
                " SELECT id, ?, ?, ?, ?, ?, ?, ? FROM clients WHERE id = ?",
                [
                    (f.schema, f.table, f.kinds, f.discard, f.limit, _pack(f.since), _pack(f.until), client)
                    for f in filters
                ],
            )
        self._unflushed = True

    def checkpoint(self, position: int, checkpoints: Collection[tuple[int, bytes]]) -> None:
        """Store `position` and (client id, packed checkpoint) pairs, all or none, and flush them to disk.

        This also flushes everything before, including what the reader wrote. Other clients keep their checkpoints.
        """
        moved = bool(checkpoints) or self._unflushed or position != self._position
        if not moved and self._other_commits() == self._flushed_other_commits:
            return
        self._db.execute("PRAGMA synchronous=FULL")
        try:
            with self._db:
                self._db.execute("BEGIN")
                rows = ((checkpoint, id) for id, checkpoint in checkpoints)
                self._db.executemany("UPDATE clients SET checkpoint = ? WHERE id = ?", rows)
                # Always written: without a write nothing would be flushed.
                self._db.execute("INSERT OR REPLACE INTO broker VALUES ('position', ?)", (_pack(position),))
                other_commits, changes = self._other_commits(), seals.changes(self._db)
        finally:
            self._db.execute("PRAGMA synchronous=NORMAL")
        self._mark.record(changes)
        self._unflushed, self._position, self._flushed_other_commits = False, position, other_commits

    def _other_commits(self) -> int:
        [(number,)] = self._db.execute("PRAGMA data_version")
        return int(number)


def with_filter(filters: Sequence[Filter], new: Filter) -> list[Filter]:
    """Return the list with `new`. A filter in force with the same key ends at `new.since`."""
    return [*without_filter(filters, new.key, new.since), new]


def without_filter(filters: Sequence[Filter], key: tuple[str, str, int], position: int) -> list[Filter]:
    """Return the list without the filter in force with this key, or with its end at `position` if it began earlier."""
    kept = []
    for f in filters:
        if f.key == key and f.until == OPEN_END:
            if f.since < position:
                kept.append(msgspec.structs.replace(f, until=position))
        else:
            kept.append(f)
    return kept


def pruned(filters: Sequence[Filter], decided: int) -> list[Filter]:
    """Return the list without filters that ended at or before `decided`: no row before it is matched again."""
    return [f for f in filters if f.until > decided]
