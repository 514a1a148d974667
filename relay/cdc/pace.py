"""Who gets the time of a process of the CDC port: streams in turn, and what is told of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

NEAR_BYTES: Final = 4 << 20
"""Of the journal that a stream may have before it to count as one that keeps up."""

Clock = Callable[[], float]


class Share:
    """Keeps work within one part in `parts` of the process's time; its context is the work.

    Its own use of the processor counts: how long it was kept waiting says nothing of what it costs.
    """

    def __init__(self, parts: int, clock: Clock = time.monotonic, used: Clock = time.thread_time) -> None:
        self._parts, self._clock, self._used = parts, clock, used
        self._due = self._began = 0.0

    def due(self) -> bool:
        """Whether it is time again."""
        return self._clock() >= self._due

    def __enter__(self) -> None:
        self._due, self._began = self._clock(), self._used()

    def __exit__(self, *_: object) -> None:
        self._due += self._parts * (self._used() - self._began)


class Taker(Protocol):
    """Who takes turns."""

    def lag(self) -> int:
        """Bytes of the journal that are before it."""

    def turn(self) -> None:
        """Do a little. May `add` itself again."""


class Turns:
    """Those who wait for a turn. Who keeps up and who has a long way to go get half of the time each.

    So a row that has just come waits for one turn of the thousands that begin with all of history, not for one of each.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._near = deque[Taker]()
        self._far = deque[Taker]()
        self._owed = 0.0  # seconds that those who are near have had more than the others

    def __bool__(self) -> bool:
        return bool(self._near or self._far)

    def add(self, taker: Taker) -> None:
        """It waits; not to be added again before it has had its turn."""
        (self._near if taker.lag() <= NEAR_BYTES else self._far).append(taker)

    def take(self, seconds: float) -> None:
        """Give turns for about so long, or until nobody waits."""
        now = self._clock()
        until = now + seconds
        while self and now < until:
            near = bool(self._near) and (not self._far or self._owed <= 0)
            both = self._near and self._far
            (self._near if near else self._far).popleft().turn()
            spent, now = self._clock() - now, self._clock()
            self._owed = self._owed + (spent if near else -spent) if both else 0.0
