"""Find processes whose work loop hangs, by the heartbeats that it sends."""

from __future__ import annotations

import signal
from typing import Final, NamedTuple

FREEZE: Final = 60.0
"""Seconds without a heartbeat after which a process counts as hung; a query to the source may take half as long."""

LAKE_FREEZE: Final = 600.0
"""The same for processes that may wait for an object store, whose client retries, or for a slow file system."""

_WAIT_FOR_STORES: Final = frozenset({"exporter", "snapshotter", "merger", "logger"})
_STANDSTILL: Final = 5.0  # if a check is this many seconds late, the host was suspended, and the processes with it
_ABORT_SECONDS: Final = 5.0  # from SIGABRT to SIGKILL


def freeze_limit(process: str) -> float:
    """Seconds without a heartbeat after which the process counts as hung."""
    return LAKE_FREEZE if process in _WAIT_FOR_STORES else FREEZE


class Hang(NamedTuple):
    """A process that hangs, with the seconds since its last heartbeat, and the signal to send."""

    silent: float
    signal: signal.Signals


class Watchdog:
    """Compare heartbeats with the clock. Silence counts only while the host runs. Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self._checked_at = self._awake_since = now

    def tick(self, now: float) -> None:
        """Begin a check of all processes, at `now`."""
        if now - self._checked_at > _STANDSTILL:
            self._awake_since = now
        self._checked_at = now

    def check(self, process: str, started: float, heartbeat: float) -> Hang | None:
        """Whether the process, which began at `started`, hangs at the time of the last `tick`."""
        now, limit = self._checked_at, freeze_limit(process)
        silent = now - max(heartbeat, self._awake_since)
        if now - started < limit or silent <= limit:
            return None
        return Hang(silent, signal.SIGKILL if silent > limit + _ABORT_SECONDS else signal.SIGABRT)
