"""The brake on guessing: failed logins slow further ones down, and refuse none that is right."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from relay.log import Log
from relay.serving.addresses import neighbourhood

PATIENCE: Final = 20.0
"""Seconds that a login waits for its turn before it is refused unseen."""

MAX_PLACES: Final = 4096
"""Names at an address, and addresses, whose failures are remembered, and as many names that have logged in."""

_PACE: Final = {2: 1, 1: 5, 0: 50}
"""Failures a second by parts of a place: of a name at an address, of an address, of all."""

Place = tuple[str, ...]


class _Failures:
    """The failures of a place: a bucket that leaks."""

    __slots__ = ("at", "failed", "level", "slowed", "waited")

    def __init__(self, now: float) -> None:
        self.level, self.at = 0.0, now
        self.failed = self.waited = 0  # in all, since the bucket was empty
        self.slowed = False  # it was full since then, which was logged


class Brake:
    """Lets logins be looked at, at once or when it is their turn. Times are monotonic seconds.

    A name at an address may fail `allowed` times, then once a second. An address may fail five times as often under all
    its names, and all addresses together fifty times. Who has logged in once is not held up by what other names do.
    Whose turn it is among those who wait is drawn by lot, so that nobody is shut out. `allowed` may be changed.
    """

    def __init__(self, allowed: int, log: Log) -> None:
        self.allowed = allowed
        self._log = log
        self._failures: OrderedDict[Place, _Failures] = OrderedDict()
        self._proven: OrderedDict[Place, None] = OrderedDict()
        self._waiting: list[tuple[float, list[Place], Callable[[], bool | None], Callable[[], None]]] = []
        self._awaited: set[Place] = set()  # whose next failure somebody waits for

    def attempt(
        self, address: str, name: str, now: float, check: Callable[[], bool | None], refuse: Callable[[], None]
    ) -> None:
        """Have the login looked at by `check`, which says whether it was right, None if nobody waits for that any more.

        `refuse` is called instead where its turn does not come in time.
        """
        pair: Place = (neighbourhood(address), name)
        places = [pair] if pair in self._proven else [pair, pair[:1], ()]
        blocking = next((place for place in places if place in self._awaited or not self._has_room(place, now)), None)
        if blocking is None:
            self._look(places, now, check)
            return
        self._awaited.add(blocking)
        self._of(blocking, now).waited += 1
        self._waiting.append((now, places, check, refuse))

    def tick(self, now: float) -> None:
        """Look at those whose turn it is. To be called about once a second."""
        waiting, self._waiting, self._awaited = self._waiting, [], set()
        random.shuffle(waiting)
        for since, places, check, refuse in waiting:
            blocking = next((place for place in places if not self._has_room(place, now)), None)
            if blocking is None:
                self._look(places, now, check)
            elif now - since >= PATIENCE:
                refuse()
            else:
                self._awaited.add(blocking)
                self._waiting.append((since, places, check, refuse))
        for place in list(self._failures):
            if not self._level(place, now):
                self._forget(place)

    def _look(self, places: list[Place], now: float, check: Callable[[], bool | None]) -> None:
        right = check()
        if right:
            self._proven[places[0]] = None
            self._proven.move_to_end(places[0])
            if len(self._proven) > MAX_PLACES:
                self._proven.popitem(last=False)
        elif right is not None:
            for place in places:
                self._fail(place, now)

    def _fail(self, place: Place, now: float) -> None:
        failures = self._of(place, now)
        failures.level, failures.at = self._level(place, now) + 1, now
        failures.failed += 1
        if not failures.slowed and not self._has_room(place, now):
            failures.slowed = True
            self._log("logins_slowed", **_named(place), failed=failures.failed)

    def _of(self, place: Place, now: float) -> _Failures:
        found = self._failures.setdefault(place, _Failures(now))
        self._failures.move_to_end(place)
        if len(self._failures) > MAX_PLACES:
            self._forget(next(iter(self._failures)))
        return found

    def _has_room(self, place: Place, now: float) -> bool:
        return self._level(place, now) + 1 <= self.allowed * _PACE[len(place)]

    def _level(self, place: Place, now: float) -> float:
        failures = self._failures.get(place)
        return max(0.0, failures.level - _PACE[len(place)] * (now - failures.at)) if failures else 0.0

    def _forget(self, place: Place) -> None:
        failures = self._failures.pop(place)
        if failures.slowed:
            self._log("logins_slowed_end", **_named(place), failed=failures.failed, waited=failures.waited)


def _named(place: Place) -> dict[str, str]:
    peer, client = (*place, "", "")[:2]
    return {"client": client, "peer": peer}
