"""Which statement made a definition of a table, of those that the journal has shown."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

from relay.binlog.statements import classify
from relay.binlog.tokens import folded

MOST: Final = 10_000
"""Statements that are remembered; then the oldest is forgotten."""

_Table = tuple[str, str]  # schema and name, folded


class _Noted(NamedTuple):
    position: int
    gtid: str


class Statements:
    """The last statements that defined tables, by table."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._order: deque[frozenset[_Table]] = deque()
        self._noted: dict[_Table, list[_Noted]] = {}

    def add(self, position: int, text: str, schema: str, gtid: str) -> None:
        """A statement at a position of the journal, behind all before it; `schema` is its default one."""
        meaning = classify(text, schema)
        tables = frozenset((folded(owner), folded(table)) for owner, table in meaning.defines)
        if meaning.verb == "alter" and "rename" in text.lower():
            tables |= meaning.names  # the new name is among them
        for table in tables:
            self._noted.setdefault(table, []).append(_Noted(position, gtid))
        self._order.append(tables)
        if len(self._order) > self._most:
            self._forget(self._order.popleft())

    def made(self, schema: str, table: str, since: int, until: int) -> str:
        """The GTID of the last one between these positions that defined the table, "" without one."""
        noted = self._noted.get((folded(schema), folded(table)), [])
        before = bisect_left(noted, (until,))
        return noted[before - 1].gtid if before and noted[before - 1].position > since else ""

    def _forget(self, tables: frozenset[_Table]) -> None:
        for table in tables:
            del self._noted[table][0]
            if not self._noted[table]:
                del self._noted[table]
