"""The rejection log: a bounded number of lines about rejected connections and logins, and exact counts of the rest."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from relay.base.log import Log

LINES: Final = 100
"""Lines per event and minute."""

_MINUTE: Final = 60.0


class RejectionLog:
    """A log with at most `LINES` lines a minute for each event, and one line with the number of those left out."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._counts: Counter[str] = Counter()  # lines in this minute, by event
        self._until = time.monotonic() + _MINUTE

    def __call__(self, event: str, **fields: object) -> None:
        """Log the event, or count it."""
        self._counts[event] += 1
        if self._counts[event] <= LINES:
            self._log(event, **fields)

    def tick(self) -> None:
        """End the minute when it is over. Call it about once a second."""
        if time.monotonic() >= self._until:
            self.close()
            self._until = time.monotonic() + _MINUTE

    def close(self) -> None:
        """Log how many lines of each event were left out."""
        for event, count in self._counts.items():
            if count > LINES:
                self._log("refusals_left_out", of=event, count=count - LINES)
        self._counts.clear()
