"""Counts of rows by table, kind and hour, and their table for a terminal. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from relay.base.errors import printable

KINDS: Final = ("insert", "update", "delete", "snapshot", "marker")
"""Kinds of rows. An update counts once, although the files have two rows of it.

A marker is a statement that deletes or rewrites all rows, such as TRUNCATE.
"""


class UsageRow(NamedTuple):
    """The number of `rows` of one kind in one table in the period that begins at `begin` (UTC)."""

    schema: str
    table: str
    kind: str
    begin: datetime
    rows: int

    @property
    def name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.table}"


def rows_by_table(rows: Sequence[UsageRow]) -> dict[str, Counter[str]]:
    """Return the rows of each table by kind, over all hours."""
    tables: dict[str, Counter[str]] = {}
    for row in sorted(rows, key=lambda row: row.name):
        tables.setdefault(row.name, Counter())[row.kind] += row.rows
    return tables


def rows_by_time(rows: Sequence[UsageRow]) -> list[tuple[datetime, str, Counter[str]]]:
    """Return the rows of each period and table by kind, in the order of `rows`."""
    found: dict[tuple[datetime, str], Counter[str]] = {}
    for row in rows:
        found.setdefault((row.begin, row.name), Counter())[row.kind] += row.rows
    return [(begin, table, counts) for (begin, table), counts in found.items()]


def text(rows: Sequence[UsageRow]) -> str:
    """Return a table for a terminal.

    It has a line for each hour and table, a column for each kind that occurs, and the sums.
    """
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.kind] += row.rows
    body = [
        [f"{hour:%Y-%m-%d %H:%M}", printable(name), *_counts(counts, kinds)]
        for hour, name, counts in rows_by_time(rows)
    ]
    cells = [["hour (UTC)", "table", *kinds, "total"], *body, ["all", "", *_counts(sums, kinds)]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def _counts(counts: Counter[str], kinds: Sequence[str]) -> list[str]:
    return [f"{counts[kind]:,}" for kind in kinds] + [f"{counts.total():,}"]
