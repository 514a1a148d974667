"""How many rows a table has, about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pymysql.connections import Connection

from relay.binlog.connect import query
from relay.lake.documents import Table
from relay.lake.snapshot.plan import Plan
from relay.lake.snapshot.select import quoted

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_LEAST_PART: Final = 0.01
"""Of the key's range that must have been read before it says more than the server's guess."""


class Size(NamedTuple):
    """What the server guesses: rows, and bytes of one."""

    rows: int
    row_bytes: int


def size(asking: Connection[Any], how: Plan) -> Size:
    """The statistics of the table's engine, which may be far off."""
    table = how.table
    rows = query(
        asking,
        "SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {asking.escape(table.schema)} AND TABLE_NAME = {asking.escape(table.table)}",
        f"ask for the size of {table}",
    )
    return Size(int(rows[0][0] or 0), int(rows[0][1] or 0)) if rows else Size(0, 0)


def guesses(asking: Connection[Any], tables: Sequence[Table]) -> dict[Table, int]:
    """Rows of each table, by the same statistics."""
    if not tables:
        return {}
    rows = query(
        asking,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ("
        + ", ".join(asking.escape(schema) for schema in {table.schema for table in tables})
        + ")",
        "ask for the sizes of tables",
    )
    found = {Table(str(schema), str(table)): int(count or 0) for schema, table, count in rows}
    return {table: found.get(table, 0) for table in tables}


class Estimate:
    """The server's guess, corrected by how much of the key's range the rows so far took, where the key is a number."""

    def __init__(self, guess: int, asking: Connection[Any], how: Plan) -> None:
        self._guess = guess
        self._low = self._high = 0
        if how.key and how.key[0].column.type.name in _INTEGERS and not how.key[0].descending:
            name = quoted(how.key[0].column.name)
            sql = f"SELECT MIN({name}) + 0, MAX({name}) + 0 FROM {how.source}"
            [(low, high)] = query(asking, sql, f"ask for the bounds of {how.table}")
            self._low, self._high = int(low or 0), int(high or 0)

    def total(self, rows: int, after: list[str] | None) -> int:
        """Of the table, when so many rows up to that key are read."""
        total = self._guess
        if after and self._high > self._low:
            part = (int(after[0]) - self._low) / (self._high - self._low)
            if part >= _LEAST_PART:
                total = round(rows / min(part, 1.0))
        return max(total, rows)
