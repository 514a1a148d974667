"""Clients that take the same row again and again: a line in the log, and another whenever it was twice as often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relay.log import Log
from relay.stat import Client

MANY: Final = 10
"""Repeats of a row after which the client is named."""


class Repeats:
    """Looks at the clients of each stat document."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: dict[int, int] = {}  # by client, how many were told of

    def look(self, clients: Iterable[Client]) -> None:
        """Name those that have taken a row so often without confirming it."""
        told, self._told = self._told, {}
        for client in clients:
            if client.repeats < MANY:
                continue
            before = told.get(client.id, 0)
            if not before <= client.repeats < 2 * before:
                self._log("row_repeated", client=client.name, repeats=client.repeats)
                before = client.repeats
            self._told[client.id] = before
