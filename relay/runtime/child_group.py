"""The supervisor's side of the fork: starts the processes, kills them, and collects their exit codes."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relay.base.errors import ExitCode
from relay.runtime.child import fork_child
from relay.runtime.context import Context
from relay.runtime.distributed import Settings

if TYPE_CHECKING:
    from relay._native import Arena


@dataclass
class Child:
    """A process to keep alive. `run` is called in the forked child and returns its exit code."""

    context: Context
    run: Callable[[], int]
    pid: int = 0
    started: float = 0.0  # monotonic, like all times here
    quick_deaths: int = 0
    due: float = 0.0  # when to start it, if it does not run
    ended_well: bool = False
    held: bool = False  # not to be restarted: it had a fatal error, or ended its work in a drain
    restart_requested: bool = False  # it is to end, so that a successor takes a new configuration

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.context.name

    def make_due(self) -> None:
        """Make the process due now, however its predecessor ended."""
        self.held, self.due, self.quick_deaths, self.restart_requested = False, 0.0, 0, False

    def terminate(self) -> None:
        """Send SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)

    def request_restart(self) -> None:
        """End the process so that a successor takes the new configuration."""
        self.restart_requested = True
        self.terminate()

    def kill(self) -> None:
        """Kill the process if it runs."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


class ChildGroup:
    """All processes of a relay, in the order of their slots."""

    def __init__(self, children: list[Child], arena: Arena, settings: Settings) -> None:
        self._children = children
        self._arena = arena
        self._settings = settings

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    def due(self, now: float) -> list[Child]:
        """Return the processes to start at that time."""
        return [child for child in self._children if not child.pid and not child.held and child.due <= now]

    def due_in(self, now: float) -> float:
        """Return the seconds until the next process is to be started."""
        return max(
            0.0,
            min((child.due - now for child in self._children if not child.pid and not child.held), default=math.inf),
        )

    def all_up(self) -> bool:
        """Whether all processes are up, or held."""
        # The broker and the CDC port wait for the beginning of the journal while the reader finds no source.
        # The broker also waits for the state writer, which a fatal error may have stopped.
        excused = () if self._arena.committed else ("broker", "cdc-")
        if any(child.held and child.name == "state-writer" for child in self._children):
            excused = ("broker", *excused)
        return all(
            child.held or self._arena.running(child.context.slot) or child.name.startswith(excused)
            for child in self._children
        )

    def fork(self, child: Child, now: float) -> None:
        """Start the process."""
        self._arena.beat(child.context.slot, 0)
        self._settings.acknowledge(child.context.slot, 0)
        sys.stdout.flush()
        child.pid, child.started = fork_child(child.context, child.run), now

    def kill_and_restart(self, children: Iterable[Child]) -> None:
        """Kill these processes; those that are not held are due."""
        for child in children:
            child.kill()
            if not child.held:
                child.make_due()

    def ended(self) -> Iterator[tuple[Child, int]]:
        """Return the processes that have ended since the last call, with their exit codes; negative: a signal."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid:
                    code = os.waitstatus_to_exitcode(status)
                    child.pid = 0
                    child.ended_well = code == ExitCode.OK
                    yield child, code

    def lagging(self, number: int) -> list[str]:
        """Names of processes that do not work with configuration `number` yet.

        Stopped processes are not among them: they work with it once they start again.
        """
        return [
            child.name
            for child in self._children
            if not child.held and (child.restart_requested or self._settings.acknowledged(child.context.slot) != number)
        ]
