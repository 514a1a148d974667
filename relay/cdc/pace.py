"""Divide the time of a CDC process among streams, and limit the time for their status."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

NEAR_BYTES: Final = 4 << 20
"""The most bytes of the journal that a stream may lag to count as keeping up."""

Clock = Callable[[], float]


class Share:
    """Limit work to 1/`parts` of the process's time. The work is done in its context.

    It counts processor time: the time for which the work waits does not count.
    """

    def __init__(self, parts: int, clock: Clock = time.monotonic, used: Clock = time.thread_time) -> None:
        self._parts, self._clock, self._used = parts, clock, used
        self._due = self._began = 0.0

    def due(self) -> bool:
        """Whether the work may be done again."""
        return self._clock() >= self._due

    def __enter__(self) -> None:
        self._due, self._began = self._clock(), self._used()

    def __exit__(self, *_: object) -> None:
        self._due += self._parts * (self._used() - self._began)


class Taker(Protocol):
    """An object that takes turns."""

    def lag(self) -> int:
        """Bytes of the journal that it has yet to read."""

    def turn(self) -> None:
        """Do a limited amount of work. May `add` itself again."""


class Turns:
    """The queues for turns. Streams that keep up and streams that lag get half of the time each.

    So a new row waits for one turn of a stream that reads history, not for one turn of each, even if there are
    thousands.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._near = deque[Taker]()
        self._far = deque[Taker]()
        self._near_ahead = 0.0  # seconds by which near streams are ahead of far ones

    def __bool__(self) -> bool:
        return bool(self._near or self._far)

    def add(self, taker: Taker) -> None:
        """Queue for a turn. Must not be called again before that turn."""
        (self._near if taker.lag() <= NEAR_BYTES else self._far).append(taker)

    def take(self, seconds: float) -> None:
        """Give turns for about `seconds`, or until none is queued."""
        now = self._clock()
        until = now + seconds
        while self and now < until:
            near = bool(self._near) and (not self._far or self._near_ahead <= 0)
            both = self._near and self._far
            (self._near if near else self._far).popleft().turn()
            spent, now = self._clock() - now, self._clock()
            self._near_ahead = self._near_ahead + (spent if near else -spent) if both else 0.0
