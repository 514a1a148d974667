"""Decide what follows the end of a process: a successor, at once or after a wait, or none until a person acts."""

from __future__ import annotations

import signal
from typing import Final, NamedTuple

from relay.base.errors import ExitCode

QUICK: Final = 2.0  # a process that ran for fewer seconds died quickly
BACKOFF: Final = (0.0, 0.05, 0.2, 1.0, 5.0)  # seconds before a restart, by number of quick deaths in a row


class End(NamedTuple):
    """The end of a process that nobody asked for."""

    name: str
    code: int  # its exit code; negative: the signal that killed it
    seconds: float  # for which it ran
    quick_deaths: int  # in a row, before this one
    unsynced: bool  # a sync failed: of the journal, or of a file that it has open
    draining: bool


class Decision(NamedTuple):
    """What follows. `held`: no successor, else one after `wait` seconds.

    `forgives`: a successor is tried although a sync failed, because the supervisor repairs the file before it starts.
    """

    held: bool
    forgives: bool = False
    quick_deaths: int = 0
    wait: float = 0.0


def decide(end: End) -> Decision:
    """Decide what follows the end of a process. Pure function."""
    # Once, after the repair of the file. The monitor always: while it is held, nobody can see why.
    forgives = end.unsynced and (end.seconds > QUICK or end.name == "monitor")
    fatal = end.code in (ExitCode.STOPPED, ExitCode.SOURCE) and not forgives
    if fatal or (end.code == ExitCode.OK and end.draining):
        return Decision(True, forgives)
    # SIGKILL comes from outside. A defect that ends a process quickly is likely to end its successor, too.
    defect = end.code != -signal.SIGKILL and end.seconds < QUICK
    quick_deaths = end.quick_deaths + 1 if defect else 0
    return Decision(False, forgives, quick_deaths, BACKOFF[min(quick_deaths, len(BACKOFF) - 1)])
