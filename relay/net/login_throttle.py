"""The login throttle: failed logins delay further ones, but no correct login is refused."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from relay.base.log import Log
from relay.net.addresses import throttle_unit

PATIENCE: Final = 20.0
"""Seconds that a login waits for its turn before it is rejected unchecked."""

MAX_KEYS: Final = 4096
"""Limit of remembered failures, by name and address or by address, and of remembered names that have logged in."""

_PACE: Final = {2: 1, 1: 5, 0: 50}
"""Allowed failures per second by number of key parts: of a name at an address, of an address, of all."""

FailureKey = tuple[str, ...]


class _Failures:
    """The failures of a name or address, as a leaky bucket."""

    __slots__ = ("at", "failed", "level", "slowed", "waited")

    def __init__(self, now: float) -> None:
        self.level, self.at = 0.0, now
        self.failed = self.waited = 0  # totals since the bucket was last empty
        self.slowed = False  # whether it was full since then, which was logged


class LoginThrottle:
    """Check logins at once, or later when it is their turn. Times are monotonic seconds.

    A name at an address may fail `allowed` times, then once a second. An address may fail five times as often under all
    its names, and all addresses together fifty times as often. Failures of other names do not delay a name that has
    logged in once. Waiting logins are checked in random order, so that nobody is shut out. `allowed` may be changed.
    """

    def __init__(self, allowed: int, log: Log) -> None:
        self.allowed = allowed
        self._log = log
        self._failures: OrderedDict[FailureKey, _Failures] = OrderedDict()
        # Hashes, oldest first: they take less memory. Two names with one hash spare each other a delay, no more.
        self._logged_in: dict[int, None] = {}
        self._waiting: list[tuple[float, list[FailureKey], Callable[[], bool | None], Callable[[], None]]] = []
        self._awaited: set[FailureKey] = set()  # keys for which a login waits

    def attempt(
        self, address: str, name: str, now: float, check: Callable[[], bool | None], refuse: Callable[[], None]
    ) -> None:
        """Check the login with `check`, at once or later.

        `check` returns whether the login was correct, or None if the client no longer waits. Calls `refuse` instead if
        the login cannot be checked within `PATIENCE` seconds.
        """
        pair: FailureKey = (throttle_unit(address), name)
        keys = [pair] if hash(pair) in self._logged_in else [pair, pair[:1], ()]
        blocking = next((key for key in keys if key in self._awaited or not self._may_fail(key, now)), None)
        if blocking is None:
            self._check(keys, now, check)
            return
        self._awaited.add(blocking)
        self._failures_of(blocking, now).waited += 1
        self._waiting.append((now, keys, check, refuse))

    def tick(self, now: float) -> None:
        """Check the waiting logins that may be checked now. Call it about once a second."""
        waiting, self._waiting, self._awaited = self._waiting, [], set()
        random.shuffle(waiting)
        for since, keys, check, refuse in waiting:
            blocking = next((key for key in keys if not self._may_fail(key, now)), None)
            if blocking is None:
                self._check(keys, now, check)
            elif now - since >= PATIENCE:
                refuse()
            else:
                self._awaited.add(blocking)
                self._waiting.append((since, keys, check, refuse))
        for key in list(self._failures):
            if not self._level(key, now):
                self._forget(key)

    def _check(self, keys: list[FailureKey], now: float, check: Callable[[], bool | None]) -> None:
        right = check()
        if right:
            known = hash(keys[0])
            self._logged_in.pop(known, None)
            self._logged_in[known] = None
            if len(self._logged_in) > MAX_KEYS:
                del self._logged_in[next(iter(self._logged_in))]
        elif right is not None:
            for key in keys:
                self._fail(key, now)

    def _fail(self, key: FailureKey, now: float) -> None:
        failures = self._failures_of(key, now)
        failures.level, failures.at = self._level(key, now) + 1, now
        failures.failed += 1
        if not failures.slowed and not self._may_fail(key, now):
            failures.slowed = True
            self._log("logins_slowed", **_named(key), failed=failures.failed)

    def _failures_of(self, key: FailureKey, now: float) -> _Failures:
        found = self._failures.setdefault(key, _Failures(now))
        self._failures.move_to_end(key)
        if len(self._failures) > MAX_KEYS:
            self._forget(next(iter(self._failures)))
        return found

    def _may_fail(self, key: FailureKey, now: float) -> bool:
        return self._level(key, now) + 1 <= self.allowed * _PACE[len(key)]

    def _level(self, key: FailureKey, now: float) -> float:
        failures = self._failures.get(key)
        return max(0.0, failures.level - _PACE[len(key)] * (now - failures.at)) if failures else 0.0

    def _forget(self, key: FailureKey) -> None:
        failures = self._failures.pop(key)
        if failures.slowed:
            self._log("logins_slowed_end", **_named(key), failed=failures.failed, waited=failures.waited)


def _named(key: FailureKey) -> dict[str, str]:
    peer, client = (*key, "", "")[:2]
    return {"client": client, "peer": peer}
