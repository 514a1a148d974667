"""Clients and gaps of the stat document: from shared memory, and from state.db."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from sys import intern
from typing import Any, Final, TypeAlias, TypeVar

from relay._native import CLIENT_MARK_BYTES, Arena
from relay.datadir.sqlite import for_reading
from relay.monitoring.stat import Client, Dropped, Filter, Gap
from relay.queues import state

T = TypeVar("T")
_Stored: TypeAlias = tuple[int, float, tuple[Filter, ...]]  # id, time of the first registration, filters in force

POLLING_SECONDS: Final = 2.0
"""How long a client without a connection counts as polling after its last poll."""

_NONE_DROPPED: Final = Dropped(0, 0, 0, 0, 0, 0)  # in memory once for all such clients


class StateView:
    """The clients and gaps of each stat document.

    Most clients are idle: one that has not changed keeps its object from document to document, and is not read again.
    The file is read only when one of its writers has counted a change.
    """

    def __init__(self, arena: Arena, data_dir: Path) -> None:
        self._arena = arena
        self._path = data_dir / "state.db"
        self._clients_at = self._gaps_at = -1  # the number of stored changes when clients and gaps were last read
        self._marks = bytearray()  # by slot, of the facts in `_last`
        self._last: list[Client] = []
        self._gaps: list[Gap] = []

    def clients(self) -> list[Client]:
        """Return all clients by ascending id."""
        stored_changes, marks = self._arena.stored_changes, self._arena.client_marks()
        self._marks.extend(bytes(len(marks) - len(self._marks)))
        slots = {id: slot for slot, id in enumerate(memoryview(marks).cast("Q")[:: CLIENT_MARK_BYTES // 8]) if id}
        ids = sorted(slots)
        is_known = stored_changes == self._clients_at
        in_file = _with_ids(ids, iter(()) if is_known else _with_filters(self._path), itemgetter(0))
        earlier = _with_ids(ids, iter(self._last), attrgetter("id"))
        now, found = time.time(), []
        for id, row, known in zip(ids, in_file, earlier, strict=True):
            mark = slice(slots[id] * CLIENT_MARK_BYTES, (slots[id] + 1) * CLIENT_MARK_BYTES)
            if known is not None:
                shown = id, known.first_seen, known.filters
                row = shown if is_known else row
                if row == shown and known.status != "polling" and marks[mark] == self._marks[mark]:
                    found.append(known)
                    continue
            facts = self._arena.client_stats(slots[id])
            if facts["client_id"] != id:
                continue  # an operator has just removed it
            self._marks[mark] = facts["mark"]
            if row is None:  # state.db does not have it yet, or cannot be read
                stored_changes = -1
            _, created, filters = row or (id, now, ())
            found.append(_client(facts, created, filters, now))
        self._clients_at, self._last = stored_changes, found
        return found

    def gaps(self) -> list[Gap]:
        """Return the accepted losses of events, oldest first; if the file is damaged, those before the damage."""
        stored_changes = self._arena.stored_changes
        if stored_changes != self._gaps_at:
            columns = "at, before_file || ':' || before_position, after_file || ':' || after_position, cause"
            self._gaps, self._gaps_at = [], -1
            with suppress(sqlite3.DatabaseError), closing(for_reading(self._path)) as database:
                self._gaps.extend(Gap(*row) for row in database.execute(f"SELECT {columns} FROM gaps ORDER BY at"))
                self._gaps_at = stored_changes
        return self._gaps


def _with_ids(ids: Iterable[int], items: Iterator[T], id_of: Callable[[T], int]) -> Iterator[T | None]:
    """For each of the ids the item that has it, else None. Ids and items ascend."""
    item = next(items, None)
    for id in ids:
        while item is not None and id_of(item) < id:
            item = next(items, None)
        yield item if item is not None and id_of(item) == id else None


def _with_filters(path: Path) -> Iterator[_Stored]:
    """Yield the clients in state.db by ascending id.

    None before the first start has created the tables; those before the damage, if the file is damaged.
    """
    # Many clients have the same filters: they are in memory once.
    known: dict[tuple[Filter, ...], tuple[Filter, ...]] = {}
    with suppress(sqlite3.DatabaseError), closing(for_reading(path)) as database:
        rows = database.execute(
            "SELECT clients.id, created, schema_name, table_name, kinds, discard, queue_limit FROM clients"
            " LEFT JOIN filters ON client = clients.id AND until = ? ORDER BY clients.id, filters.id",
            (state.OPEN_END.to_bytes(8, "big"),),
        )
        for (id, created), of_client in groupby(rows, itemgetter(0, 1)):
            filters = tuple(_filter(*row[2:]) for row in of_client if row[2] is not None)
            yield id, created, known.setdefault(filters, filters)


def _filter(schema: str, table: str, kinds: int, discard: int, limit: int) -> Filter:
    return Filter(intern(schema), intern(table), _kinds(kinds), discard, limit)


@cache
def _kinds(mask: int) -> str:
    return "".join(letter for bit, letter in ((1, "I"), (2, "U"), (4, "D")) if mask & bit)


def _client(facts: Mapping[str, Any], first_seen: float, filters: tuple[Filter, ...], now: float) -> Client:
    dropped = facts["dropped"]
    return Client(
        id=facts["client_id"],
        name=facts["name"],
        connected=facts["connected"],
        status=_status(facts["connected"], now - facts["last_seen"]),
        address=facts["address"],
        first_seen=first_seen,
        last_seen=facts["last_seen"],
        filters=filters,
        matched=facts["matched"],
        confirmed=facts["confirmed"],
        repeats=facts["repeats"],
        in_flight=facts["in_flight"],
        waiting=facts["waiting"],
        waiting_limited=facts["waiting_limited"],
        served=facts["served"],
        max_waiting=facts["max_waiting"],
        dropped=Dropped(**dropped) if any(dropped.values()) else _NONE_DROPPED,
        lagging=facts["lagging"],
    )


def _status(connected: bool, since_poll: float) -> str:
    """`since_poll`: seconds since the last poll."""
    if connected:
        return "connected"
    return "polling" if since_poll < POLLING_SECONDS else "away"
