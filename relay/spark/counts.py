"""Counts of rows by table, kind and hour, and the table of them for a terminal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from relay.errors import printable

KINDS: Final = ("insert", "update", "delete", "snapshot", "marker")
"""Kinds of rows. An update is one, though the files hold two rows of it; markers are TRUNCATE, DROP and their like."""


class UsageRow(NamedTuple):
    """`rows` of one kind in one table in the hour that begins at `hour` (UTC)."""

    schema: str
    table: str
    kind: str
    hour: datetime
    rows: int

    @property
    def name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.table}"


def across(rows: Sequence[UsageRow]) -> dict[str, Counter[str]]:
    """Rows by kind of each table, over all hours."""
    tables: dict[str, Counter[str]] = {}
    for row in sorted(rows, key=lambda row: row.name):
        tables.setdefault(row.name, Counter())[row.kind] += row.rows
    return tables


def lines(rows: Sequence[UsageRow]) -> list[tuple[datetime, str, Counter[str]]]:
    """Rows by kind of each hour and table, in their order."""
    found: dict[tuple[datetime, str], Counter[str]] = {}
    for row in rows:
        found.setdefault((row.hour, row.name), Counter())[row.kind] += row.rows
    return [(hour, table, counts) for (hour, table), counts in found.items()]


def text(rows: Sequence[UsageRow]) -> str:
    """A table for a terminal: a line for each hour and table, a column for each kind that occurs, and the sums."""
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.kind] += row.rows
    body = [[f"{hour:%Y-%m-%d %H:%M}", printable(name), *_counts(counts, kinds)] for hour, name, counts in lines(rows)]
    cells = [["hour (UTC)", "table", *kinds, "total"], *body, ["all", "", *_counts(sums, kinds)]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def _counts(counts: Counter[str], kinds: Sequence[str]) -> list[str]:
    return [f"{counts[kind]:,}" for kind in kinds] + [f"{counts.total():,}"]
