"""Journals whose events have times chosen by the test."""

from __future__ import annotations

from tests.support.journal_builder import INSERT, UPDATE, Made, body, row

MIDNIGHT = 1_700_006_400  # 2023-11-15 00:00:00 UTC
MINUTE = MIDNIGHT // 60


class Clocked(Made):
    """A journal whose events have times chosen by the test."""

    def changed(self, kind: int, count: int, when: float, table: int | None = None) -> None:
        """Writes `count` rows in one event, without a commit."""
        self.place += 100
        images = [row(number) for number in range(count * (2 if kind == UPDATE else 1))]
        handle = self.table if table is None else table
        self.writer.rows(handle, kind, self.place, int(when), count, body(kind, 2, *images))

    def happened(self, count: int, when: float, kind: int = INSERT, table: int | None = None) -> None:
        """Writes a transaction of `count` rows."""
        self.changed(kind, count, when, table)
        self.commit(int(when))

    def fill(self, segments: int, table: int | None = None) -> int:
        """Writes transactions of 50 rows until there are that many segments; returns the number of rows."""
        rows = 0
        while len(self.writer.segments()) < segments:
            self.happened(50, MIDNIGHT, table=table)
            rows += 50
        return rows
