"""The clients of the stat document: their counters in shared memory, and their filters in state.db."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from sys import intern
from typing import Any, Final, TypeVar

from relay._native import Arena
from relay.datadir.sqlite import for_reading
from relay.monitoring.stat import Client, Dropped, Filter
from relay.queues import state

T = TypeVar("T")

POLLING_SECONDS: Final = 2.0
"""How long a client without a connection counts as polling after its last poll."""

_NONE_DROPPED: Final = Dropped(0, 0, 0, 0, 0, 0)  # in memory once for all such clients


def stored(data_dir: Path, query: str, *values: bytes) -> Iterator[tuple[Any, ...]]:
    """Rows of state.db; none before the first start has created the file and its tables.

    If the file is damaged, which is a fatal error of the reader, the rows before the damage.
    """
    with suppress(sqlite3.DatabaseError), closing(for_reading(data_dir / "state.db")) as database:
        yield from database.execute(query, values)


def clients(arena: Arena, data_dir: Path, before: Sequence[Client] = ()) -> list[Client]:
    """All clients by ascending id.

    `before` are those of the last document. A client that has not changed keeps its object, because most clients are
    idle: two documents would otherwise take twice the memory.
    """
    slots = {id: slot for slot in arena.client_slots() if (id := arena.client_id(slot))}
    ids = sorted(slots)
    in_file = _with_ids(ids, _with_filters(data_dir), itemgetter(0))
    earlier = _with_ids(ids, iter(before), attrgetter("id"))
    now, found = time.time(), []
    for id, row, known in zip(ids, in_file, earlier, strict=True):
        facts = arena.client_stats(slots[id])
        if facts["client_id"] != id:
            continue  # an operator has just removed it
        _, created, filters = row or (id, now, [])  # state.db may not have it yet
        client = _client(facts, created, filters, now)
        found.append(known if client == known else client)
    return found


def _with_ids(ids: Iterable[int], items: Iterator[T], id_of: Callable[[T], int]) -> Iterator[T | None]:
    """For each of the ids the item that has it, else None. Ids and items ascend."""
    item = next(items, None)
    for id in ids:
        while item is not None and id_of(item) < id:
            item = next(items, None)
        yield item if item is not None and id_of(item) == id else None


def _with_filters(data_dir: Path) -> Iterator[tuple[int, float, list[Filter]]]:
    """Id, time of the first registration and filters in force of the clients in state.db, by ascending id."""
    rows = stored(
        data_dir,
        "SELECT clients.id, created, schema_name, table_name, kinds, discard, queue_limit FROM clients"
        " LEFT JOIN filters ON client = clients.id AND until = ? ORDER BY clients.id, filters.id",
        state.OPEN_END.to_bytes(8, "big"),
    )
    last: tuple[int, float, list[Filter]] | None = None
    for id, created, schema, table, kinds, discard, limit in rows:
        if last is None or id != last[0]:
            if last is not None:
                yield last
            last = id, created, []
        if schema is not None:
            # Many clients ask for the same tables: each name is in memory once.
            last[2].append(Filter(intern(schema), intern(table), _kinds(kinds), discard, limit))
    if last is not None:
        yield last


@cache
def _kinds(mask: int) -> str:
    return "".join(letter for bit, letter in ((1, "I"), (2, "U"), (4, "D")) if mask & bit)


def _client(facts: Mapping[str, Any], first_seen: float, filters: list[Filter], now: float) -> Client:
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
