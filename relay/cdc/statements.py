"""Find the statement that made a definition of a table, among those read from the journal."""

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
"""The number of statements that are remembered; the oldest is forgotten first."""

_Table = tuple[str, str]  # schema and name, folded


class _Entry(NamedTuple):
    position: int
    gtid: str


class Statements:
    """The last statements that defined tables, by table."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._order: deque[frozenset[_Table]] = deque()
        self._entries: dict[_Table, list[_Entry]] = {}

    def add(self, position: int, tables: Iterable[tuple[str, str]], gtid: str) -> None:
        """Add a statement that defined these tables. Its journal position is higher than all earlier ones."""
        folded = frozenset((fold(schema), fold(table)) for schema, table in tables)
        for table in folded:
            self._entries.setdefault(table, []).append(_Entry(position, gtid))
        self._order.append(folded)
        if len(self._order) > self._most:
            self._forget(self._order.popleft())

    def gtid_of(self, schema: str, table: str, since: int, until: int) -> str:
        """Return the GTID of the last statement between these positions that defined the table, "" without one."""
        noted = self._entries.get((fold(schema), fold(table)), [])
        before = bisect_left(noted, (until,))
        return noted[before - 1].gtid if before and noted[before - 1].position > since else ""

    def _forget(self, tables: frozenset[_Table]) -> None:
        for table in tables:
            del self._entries[table][0]
            if not self._entries[table]:
                del self._entries[table]


def defines(text: str, schema: str, outcomes: bytes) -> list[tuple[str, str]]:
    """Return the tables whose definition a statement of the journal changed, or may have changed.

    They come from `outcomes` (relay.schema.history). A journal from before the schema history has only the statement.
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
