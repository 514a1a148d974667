"""Log clients that fetch the same row again and again: one line, and another each time the number has doubled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relay.base.log import Log
from relay.monitoring.stat import Client

MANY: Final = 10
"""Repeats of a row after which the client is logged."""


class Repeats:
    """Check the clients in each stat document."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._logged: dict[int, int] = {}  # by client, the number that was last logged

    def check(self, clients: Iterable[Client]) -> None:
        """Log clients that have fetched a row `MANY` times or more without confirming it."""
        logged, self._logged = self._logged, {}
        for client in clients:
            if client.repeats < MANY:
                continue
            before = logged.get(client.id, 0)
            if not before <= client.repeats < 2 * before:
                self._log("row_repeated", client=client.name, repeats=client.repeats)
                before = client.repeats
            self._logged[client.id] = before
