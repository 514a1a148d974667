"""The snapshotter process: fetches rows from before the export, for all tables that the lake does not have completely.

This module has the loop; the snapshot itself is in relay/lake/snapshot. pyarrow is an optional dependency and starts
threads, so it is imported here after the fork. A failure here does not stop the relay: it is logged, shown, and
retried.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from relay.base.errors import RelayError
from relay.runtime.context import SideContext
from relay.runtime.process_status import SnapshotStatus
from relay.source.failures import SourceLost

if TYPE_CHECKING:
    from relay.lake.documents import Table
    from relay.lake.log import LakeLog
    from relay.lake.snapshot.run import Progress, Snapshots

_CHECK_SECONDS: Final = 2.0  # between checks of the lake's log
_LIST_SECONDS: Final = 60.0  # between lists of the source's tables while the lake has all tables that it knows of
_FIRST_WAIT: Final = 2.0  # before a failed attempt is repeated; then doubled
_LONGEST_WAIT: Final = 300.0
_TICK: Final = 0.2


class _Stopped(Exception):
    """The process must stop."""


def run(context: SideContext) -> int:
    """Take snapshots until it must stop."""
    context.arena.mark_running(context.slot)
    if context.config.lake.snapshot == "manual":
        context.report("manual")
        while not context.stopping:
            context.beat()
            time.sleep(_TICK)
        return 0
    snapshotter = _Snapshotter(context)
    context.report("starting")
    try:
        while True:
            snapshotter.run_once()
            snapshotter.wait(_CHECK_SECONDS)
    except _Stopped:
        return 0


class _Snapshotter:
    def __init__(self, context: SideContext) -> None:
        self._context = context
        self._lake: LakeLog | None = None  # kept, so that later checks read only newer commits
        self._list_at = 0.0
        self._waits: dict[
            Table | None, tuple[float, float]
        ] = {}  # after failures: when the wait ends, and its length; None: all

    def run_once(self) -> None:
        """Check the lake once, and fetch what is missing."""
        if not self._may_try(None):
            return
        try:
            self._fetch_all()
            self._waits.pop(None, None)
        except (RelayError, SourceLost) as error:
            self._failed(None, error)

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._beat()
            time.sleep(_TICK)

    def _fetch_all(self) -> None:
        from relay.lake.log import LakeLog
        from relay.lake.snapshot.run import Snapshots, awaits_export, needs_reading, only_one
        from relay.lake.storage import open_storage

        context, lake = self._context, self._context.config.lake
        if self._lake is None:
            self._lake = LakeLog(open_storage(lake.path))
        state = self._lake.state()
        known = state.tables.values()
        if state.place is None or not state.place.identity:
            return
        if any(map(needs_reading, known)) or time.monotonic() >= self._list_at:
            storage = self._lake.storage
            with (
                only_one(context.config),
                Snapshots(context.config, storage, lake.tables, context.log, alive=self._beat, show=self._show) as it,
            ):
                self._list_at = time.monotonic() + _LIST_SECONDS
                self._fetch_tables(it)
        if not self._waits:
            self._status.table, self._status.rows, self._status.total, self._status.left = "", 0, 0, 0
            context.report("waiting" if any(map(awaits_export, self._lake.state().tables.values())) else "idle")

    def _fetch_tables(self, snapshots: Snapshots) -> None:
        todo = [table for table in snapshots.todo() if self._may_try(table)]
        for number, table in enumerate(todo, 1):
            self._status.left = len(todo) - number
            try:
                snapshots.fetch(table)
                self._waits.pop(table, None)
            except RelayError as error:  # of this table; the others may succeed
                self._failed(table, error)
            except SourceLost as error:
                if not error.sent_by_server:
                    raise
                self._failed(table, error)
        for table in snapshots.unseen():
            if self._may_try(table):
                self._failed(table, snapshots.unseen_error(table))

    @property
    def _status(self) -> SnapshotStatus:
        assert isinstance(self._context.status, SnapshotStatus)
        return self._context.status

    def _show(self, progress: Progress) -> None:
        status = self._status
        status.table, status.rows, status.total = str(progress.table), progress.rows, progress.total
        self._context.report("reading")

    def _beat(self) -> None:
        self._context.beat()
        if self._context.stopping:
            raise _Stopped

    def _may_try(self, what: Table | None) -> bool:
        return time.monotonic() >= self._waits.get(what, (0.0, 0.0))[0]

    def _failed(self, what: Table | None, error: RelayError | SourceLost) -> None:
        wait = min(_LONGEST_WAIT, 2 * self._waits.get(what, (0.0, _FIRST_WAIT / 2))[1])
        self._waits[what] = (time.monotonic() + wait, wait)
        facts: dict[str, object] = {"table": what} if what else {}
        if isinstance(error, RelayError):
            self._context.log("snapshot_failed", **facts, code=error.code, error=error, hint=error.hint, again_in=wait)
            self._context.failed(error)
        else:
            self._context.log("snapshot_interrupted", **facts, error=error, again_in=wait)
