"""Decides how long the reader sleeps so that more of the stream arrives at once, as interrupt moderation does.

A source that commits without pause sends a few transactions at a time. If each packet wakes reader, broker, servers and
clients, these take CPU time from one another, and from a source on the same cores. So at a high rate the reader sleeps
after each receive. What arrives in the meantime is processed together, by the reader and by all later stages.
"""

from __future__ import annotations

from typing import Final

BUSY: Final = 1000
"""Transactions a second from which on the reader sleeps; below, each is received at once."""

PAUSE: Final = 0.001
"""Seconds of sleep for each BUSY transactions a second: the sleep grows with the rate."""

LONGEST: Final = 0.008
"""The longest sleep in seconds. It is the most that delays a row, and only a row that closely follows many others."""

_WINDOW: Final = 0.01  # the shortest time over which the rate is measured, in seconds


class Pauses:
    """Computes the sleep after a receive of few bytes, from the rate of transactions. Times are monotonic seconds."""

    seconds = 0.0
    """The current sleep."""

    def __init__(self, now: float, transactions: int) -> None:
        self._at, self._count = now, transactions

    def update(self, now: float, transactions: int) -> None:
        """Update the rate: `transactions` is the total at the time `now`."""
        if (elapsed := now - self._at) >= _WINDOW:
            load = (transactions - self._count) / elapsed / BUSY
            self.seconds = min(load * PAUSE, LONGEST) if load >= 1 else 0.0
            self._at, self._count = now, transactions
