"""Adapt the number of rows that a query reads."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 0.5
BYTES: Final = 16 << 20
_FIRST_ROWS: Final = 1000
MOST_ROWS: Final = 200_000
_FASTER: Final = 4.0
_SLOWER: Final = 0.1


class Pace:
    """`rows` is the size of the next query: as many rows as arrive in about half a second, within BYTES."""

    def __init__(self, most: int = MOST_ROWS, row_bytes: int = 0) -> None:
        """`most` is the upper limit; `row_bytes` is the approximate size of a row, 0 if unknown."""
        self._most = most
        self.rows = max(1, min(_FIRST_ROWS, most, BYTES // max(row_bytes, 1)))

    def adapt(self, rows: int, seconds: float, size: int) -> None:
        """Adapt to a query that returned `rows` rows of `size` bytes in `seconds`."""
        if rows:
            room = min(SECONDS / max(seconds, 1e-6), BYTES / max(size, 1)) * rows / self.rows
            self.rows = max(1, min(self._most, round(self.rows * min(_FASTER, max(_SLOWER, room)))))
