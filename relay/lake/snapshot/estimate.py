"""Estimate how many rows a table has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pymysql.connections import Connection

from relay.lake.documents import Table
from relay.lake.snapshot.plan import Plan
from relay.lake.snapshot.select import quoted
from relay.source.connect import query

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_LEAST_PART: Final = 0.01
"""The part of the key's range that must be read before it is a better estimate than the server's."""


class Size(NamedTuple):
    """The server's estimate: rows, and bytes of one row."""

    rows: int
    row_bytes: int


def size(metadata: Connection[Any], plan: Plan) -> Size:
    """Return the table's size by the statistics of its engine, which may be far off."""
    table = plan.table
    rows = query(
        metadata,
        "SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {metadata.escape(table.schema)} AND TABLE_NAME = {metadata.escape(table.table)}",
        f"read the size of {table}",
    )
    return Size(int(rows[0][0] or 0), int(rows[0][1] or 0)) if rows else Size(0, 0)


def row_estimates(metadata: Connection[Any], tables: Sequence[Table]) -> dict[Table, int]:
    """Return the number of rows in each table, by the same statistics."""
    if not tables:
        return {}
    rows = query(
        metadata,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ("
        + ", ".join(metadata.escape(schema) for schema in {table.schema for table in tables})
        + ")",
        "read the sizes of tables",
    )
    found = {Table(str(schema), str(table)): int(count or 0) for schema, table, count in rows}
    return {table: found.get(table, 0) for table in tables}


class Estimate:
    """The server's estimate, corrected by the part of the key's range that is read, if the key is a number."""

    def __init__(self, guess: int, metadata: Connection[Any], plan: Plan) -> None:
        self._guess = guess
        self._low = self._high = 0
        if plan.key and plan.key[0].column.type.name in _INTEGERS and not plan.key[0].descending:
            name = quoted(plan.key[0].column.name)
            sql = f"SELECT MIN({name}) + 0, MAX({name}) + 0 FROM {plan.source}"
            [(low, high)] = query(metadata, sql, f"read the bounds of {plan.table}")
            self._low, self._high = int(low or 0), int(high or 0)

    def total(self, rows: int, after: list[str] | None) -> int:
        """Return the estimated rows of the table, after `rows` rows up to the key `after`."""
        total = self._guess
        if after and self._high > self._low:
            part = (int(after[0]) - self._low) / (self._high - self._low)
            if part >= _LEAST_PART:
                total = round(rows / min(part, 1.0))
        return max(total, rows)
