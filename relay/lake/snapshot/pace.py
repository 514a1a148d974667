"""How many rows to ask for at a time."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 0.5
BYTES: Final = 16 << 20
_FIRST_ROWS: Final = 1000
MOST_ROWS: Final = 200_000
_FASTER: Final = 4.0
_SLOWER: Final = 0.1


class Pace:
    """`rows` for the next question: as many as come in about half a second, and in so many bytes."""

    def __init__(self, most: int = MOST_ROWS, row_bytes: int = 0) -> None:
        """At most so many rows; `row_bytes`: of one, about, if that is known."""
        self._most = most
        self.rows = max(1, min(_FIRST_ROWS, most, BYTES // max(row_bytes, 1)))

    def took(self, rows: int, seconds: float, size: int) -> None:
        """So many rows came, in so many seconds and bytes."""
        if rows:
            room = min(SECONDS / max(seconds, 1e-6), BYTES / max(size, 1)) * rows / self.rows
            self.rows = max(1, min(self._most, round(self.rows * min(_FASTER, max(_SLOWER, room)))))
