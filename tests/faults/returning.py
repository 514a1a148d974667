"""A client under faults: it reconnects, and records received rows and repeats."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tests.support.waiting import patience
from tests.support.workload import Change


class Returning(ABC):
    """Reads in a thread of its own, connection after connection, until `stop`.

    The thread begins with `__init__`: what it needs has to be there before. `got` is what came, each once; `times` and
    `repeated` are when changes came, and when they came again, by the monotonic clock.
    """

    CUT: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """What a connection that was cut off ends with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.got: list[Any] = []
        self.times: list[float] = []
        self.repeated: list[float] = []
        self.error: BaseException | None = None
        self.stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @abstractmethod
    def wants(self, change: Change) -> bool:
        """Whether it should have that change."""

    @abstractmethod
    def expected(self, wanted: list[Change]) -> list[Any]:
        """What `got` is to be after these changes."""

    @abstractmethod
    def connection(self) -> None:
        """One connection, from login to where it ends, or `stopping` is set."""

    def came(self, again: bool) -> None:
        """Count a change that just came."""
        (self.repeated if again else self.times).append(time.monotonic())

    def check(self, wanted: list[Change]) -> None:
        """It has exactly these, in order."""
        expected = self.expected(wanted)
        assert self.got == expected, f"{self.name}: {len(self.got)} rows of {len(expected)}, or in another order"

    def stop(self) -> None:
        """Raises what the thread failed with."""
        self.stopping = True
        self._thread.join(patience(20))
        if self.error:
            raise self.error

    def _run(self) -> None:
        try:
            while not self.stopping:
                try:
                    self.connection()
                except self.CUT:
                    time.sleep(0.05)
        except BaseException as error:  # told to the thread that asks
            self.error = error
