"""The reader's maintenance thread: once a second it flushes the journal, and deletes what is no longer needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from relay.base.log import Log
from relay.journal.retention import Limits, decide

if TYPE_CHECKING:
    from relay._native import Arena, JournalWriter

SECONDS: Final = 1.0
ALL_COUNTED: Final = 2**64 - 1
"""As `uncounted`: no row has to be counted."""
PREPARED_BYTES: Final = 64 << 20  # of journal kept in memory ahead of the stream, for bursts


class Maintenance:
    """The maintenance thread; it runs inside its `with` block.

    A failure ends it; `check` raises the failure in the thread that appends. `limits` and `uncounted` may be replaced
    at any time. Nothing from the position `uncounted()` on is deleted.
    """

    def __init__(self, writer: JournalWriter, arena: Arena, limits: Limits, log: Log) -> None:
        self._writer = writer
        self._arena = arena
        self.limits = limits
        self.uncounted: Callable[[], int] = lambda: ALL_COUNTED
        self._log = log
        self._ending = threading.Event()
        self._failure: Exception | None = None
        self._announced = False
        self._flushing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the failure that ended the thread, if there is one."""
        if self._failure is not None:
            raise self._failure

    def flush(self) -> None:
        """Flush everything committed to disk. Raises `JournalError`."""
        with self._flushing:
            self._arena.flushed = self._writer.flush()

    def _run(self) -> None:
        try:
            while not self._ending.wait(SECONDS):
                self._run_once()
            self.flush()
        except Exception as failure:
            self._failure = failure

    def _run_once(self) -> None:
        self.flush()
        self._writer.prepare(PREPARED_BYTES)
        # Nothing beyond the flushed position may be deleted: a recovery would have nothing to start from.
        needed = min(self._arena.needed, self._arena.flushed)
        exported = min(self._arena.exported, self._arena.logged)
        segments = self._writer.segments()
        cut = decide(segments, needed, exported, time.time(), self.limits)
        if cut.near and not self._announced:
            self._log("journal_cap_near", cap=self.limits.max_bytes, hint="clients, lake or log will soon lose rows")
        self._announced = cut.near
        if cut.delete_before > (uncounted := self.uncounted()):
            counted = max((segment.end for segment in segments if segment.end <= uncounted), default=0)
            cut = cut._replace(delete_before=counted)
        if cut.delete_before > self._arena.first:
            if cut.delete_before > exported:
                self._log("journal_cap_reached", cut=cut.delete_before, exported=exported)
            self._arena.first = cut.delete_before
            self._writer.drop_before(cut.delete_before)
            self._log("journal_retired", before=cut.delete_before)
        if cut.request > self._arena.cut_request:
            self._log("journal_cap_reached", cut=cut.request, needed=needed)
            self._arena.cut_request = cut.request
