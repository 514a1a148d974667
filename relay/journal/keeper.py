"""The reader's helper thread: once a second it flushes the journal, and deletes what nobody needs any more."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from relay.journal.retention import Cut, Limits, decide
from relay.log import Log

if TYPE_CHECKING:
    from relay._native import Arena, JournalWriter

SECONDS: Final = 1.0
PREPARED_BYTES: Final = 64 << 20  # of journal kept in memory ahead of the stream, for bursts


class Keeper:
    """Runs while in its `with` block. A failure ends it; `check` raises it in the thread that appends.

    `limits` may be replaced at any time.
    """

    def __init__(self, writer: JournalWriter, arena: Arena, limits: Limits, log: Log) -> None:
        self._writer = writer
        self._arena = arena
        self.limits = limits
        self._log = log
        self._ending = threading.Event()
        self._failure: Exception | None = None
        self._announced = False
        self._flushing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Raise what ended the thread, if something did."""
        if self._failure is not None:
            raise self._failure

    def flush(self) -> None:
        """What is committed is on disk now. Raises `JournalError`."""
        with self._flushing:
            self._arena.flushed = self._writer.flush()

    def _run(self) -> None:
        try:
            while not self._ending.wait(SECONDS):
                self._turn()
            self.flush()
        except Exception as failure:
            self._failure = failure

    def _turn(self) -> None:
        self.flush()
        self._writer.prepare(PREPARED_BYTES)
        # Nothing that is not on disk may be deleted: a recovery would find nothing to stand on.
        needed = min(self._arena.needed, self._arena.flushed)
        exported = min(self._arena.exported, self._arena.logged)
        cut = decide(self._writer.segments(), needed, exported, time.time(), self.limits)
        self._announce(cut)
        if cut.drop > self._arena.first:
            if cut.drop > exported:
                self._log("journal_cap_reached", cut=cut.drop, exported=exported)
            self._arena.first = cut.drop
            self._writer.drop_before(cut.drop)
            self._log("journal_retired", before=cut.drop)
        if cut.ask > self._arena.cut_request:
            self._log("journal_cap_reached", cut=cut.ask, needed=needed)
            self._arena.cut_request = cut.ask

    def _announce(self, cut: Cut) -> None:
        if cut.near and not self._announced:
            self._log("journal_cap_near", cap=self.limits.max_bytes, hint="clients, lake or log are about to lose rows")
        self._announced = cut.near
