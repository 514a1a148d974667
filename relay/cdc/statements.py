"""Which statement made a definition of a table, of those that the journal has shown."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from relay.ddl.readings import readings
from relay.ddl.statements import Statement, fold
from relay.ddl.syntax import AlterTable, CreateLike, CreateTable, RenameTable, RenameTo
from relay.schema.history import unpacked
from relay.schema.table import Absent

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

    def add(self, position: int, tables: Iterable[tuple[str, str]], gtid: str) -> None:
        """A statement at a position of the journal, behind all before it, defined these tables."""
        folded = frozenset((fold(schema), fold(table)) for schema, table in tables)
        for table in folded:
            self._noted.setdefault(table, []).append(_Noted(position, gtid))
        self._order.append(folded)
        if len(self._order) > self._most:
            self._forget(self._order.popleft())

    def made(self, schema: str, table: str, since: int, until: int) -> str:
        """The GTID of the last one between these positions that defined the table, "" without one."""
        noted = self._noted.get((fold(schema), fold(table)), [])
        before = bisect_left(noted, (until,))
        return noted[before - 1].gtid if before and noted[before - 1].position > since else ""

    def _forget(self, tables: frozenset[_Table]) -> None:
        for table in tables:
            del self._noted[table][0]
            if not self._noted[table]:
                del self._noted[table]


def defines(text: str, schema: str, outcomes: bytes) -> list[tuple[str, str]]:
    """The tables that a statement of the journal left with another definition, or may have.

    `outcomes` say it (relay.schema.history); a journal from before there was a schema history has the statement only.
    """
    if outcomes:
        return [(owner, table) for owner, table, state in unpacked(outcomes) if table and not isinstance(state, Absent)]
    return [table for statement in readings(text, schema, None) for table in _defined(statement)]


def _defined(statement: Statement) -> Iterator[tuple[str, str]]:
    yield from statement.mentioned.tables
    for change in statement.changes:
        match change:
            case CreateTable(table) | CreateLike(table) | RenameTable(new=table):
                yield table
            case AlterTable(table, clauses):
                yield table
                yield from (clause.table for clause in clauses if isinstance(clause, RenameTo))
