"""Lines about those who are refused: a bounded number, and exact sums of the rest."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from relay.log import Log

LINES: Final = 100
"""Lines of an event in a minute."""

_MINUTE: Final = 60.0


class Refusals:
    """A log of whose events each has `LINES` lines a minute; how many more there were is one line."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: Counter[str] = Counter()  # in this minute, of each event
        self._until = time.monotonic() + _MINUTE

    def __call__(self, event: str, **fields: object) -> None:
        """Log the event, or count it."""
        self._told[event] += 1
        if self._told[event] <= LINES:
            self._log(event, **fields)

    def tick(self) -> None:
        """To be called about once a second."""
        if time.monotonic() >= self._until:
            self.close()
            self._until = time.monotonic() + _MINUTE

    def close(self) -> None:
        """Say what was left out."""
        for event, count in self._told.items():
            if count > LINES:
                self._log("refusals_left_out", of=event, count=count - LINES)
        self._told.clear()
