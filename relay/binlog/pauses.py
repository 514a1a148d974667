"""When the reader lets the stream collect for a moment, as a network card does with its interrupts.

A source that commits without pause sends every few transactions by themselves. Woken for each, reader, broker, servers
and clients take the processor from one another, and from the source if they share its cores. So at such a rate the
reader sleeps after each receive: what comes meanwhile is worked through at once, here and by all who come after.
"""

from __future__ import annotations

from typing import Final

BUSY: Final = 1000
"""Transactions a second from which on it is worth it; below, each is fetched at once."""

PAUSE: Final = 0.001
"""Seconds for each BUSY transactions a second: the faster they come, the more a moment collects."""

LONGEST: Final = 0.008
"""Seconds: what a row may come later at most, and only one that follows so closely on many others."""

_WINDOW: Final = 0.01  # seconds at least over which the rate is taken


class Pauses:
    """Told now and then how many transactions there were, says how long to sleep after a receive of little.

    Times are in monotonic seconds.
    """

    seconds = 0.0
    """To sleep."""

    def __init__(self, now: float, transactions: int) -> None:
        self._at, self._count = now, transactions

    def look(self, now: float, transactions: int) -> None:
        """There were so many transactions in all so far."""
        if (elapsed := now - self._at) >= _WINDOW:
            load = (transactions - self._count) / elapsed / BUSY
            self.seconds = min(load * PAUSE, LONGEST) if load >= 1 else 0.0
            self._at, self._count = now, transactions
