"""The merger process: keeps the open tables of the lake at the state of the export.

This module has the loop and the report; relay/lake/delta has the tables. pyarrow is an optional dependency and starts
threads, so it is imported here after the fork. A table that somebody else has written to stops alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.runtime.context import SideContext
from relay.runtime.process_status import MergeStatus, OpenTableStatus, Stop

if TYPE_CHECKING:
    from relay.lake.delta.table import Merged, OpenTable
    from relay.lake.documents import LakeState, Table, TableState
    from relay.lake.storage import Storage

_CHECK_SECONDS: Final = 0.5  # between checks of the lake's log
_FOLDERS_SECONDS: Final = 30.0  # between checks whether folders were deleted
_OF_ONE_TABLE: Final = (StopCode.LAKE_CONFLICT, StopCode.LAKE_DAMAGED)


class _Stopped(Exception):
    """The process must stop."""


def run(context: SideContext) -> int:
    """Merge until it must stop. Raises errors that concern all tables as `RelayError`."""
    from relay.lake.log import LakeLog
    from relay.lake.storage import open_storage

    context.arena.mark_running(context.slot)
    context.report("starting")
    log = LakeLog(open_storage(context.config.lake.path))
    merger = _Merger(context, log.storage)
    try:
        while True:
            merger.run_once(log.state())
            merger.beat()
            time.sleep(_CHECK_SECONDS)
    except _Stopped:
        return 0


class _Merger:
    def __init__(self, context: SideContext, storage: Storage) -> None:
        self._context = context
        self._storage = storage
        self._tables: dict[Table, OpenTable] = {}
        self._rows: dict[Table, OpenTableStatus] = {}
        self._number = -1  # of the lake's commit that was merged last
        assert isinstance(context.status, MergeStatus)
        self._status = context.status
        self._check_at = 0.0

    def run_once(self, state: LakeState) -> None:
        """Bring all tables to this state of the lake."""
        check = time.monotonic() >= self._check_at
        if state.number == self._number and not check:
            return
        if check:
            self._check_at = time.monotonic() + _FOLDERS_SECONDS
            self._forget_deleted()
        for known in state.tables.values():
            self._update(state, known)
        self._number = state.number
        if state.place is not None:
            self._status.seq = state.place.seq
        self._report("following")

    def beat(self) -> None:
        """Show that the process lives; raise if it must stop."""
        self._context.beat()
        if self._context.stopping:
            raise _Stopped

    def _forget_deleted(self) -> None:
        """Open tables anew whose folders somebody has deleted: they are made again."""
        from relay.lake.delta.table import folder_of

        for table in list(self._rows):
            known = self._tables.get(table)
            there = known.log.exists() if known else self._storage.list(f"{folder_of(table)}/_delta_log")
            if not there:
                self._tables.pop(table, None)
                self._rows.pop(table)

    def _update(self, state: LakeState, known: TableState) -> None:
        from relay.lake.delta.table import OpenTable

        table = known.table
        row = self._rows.get(table)
        if row is not None and row.stop is not None:
            return
        try:
            if table not in self._tables:
                self._tables[table] = OpenTable(self._storage, table, self.beat)
            opened = self._tables[table]
            if not opened.lacks(state, known):
                if opened.log.version >= 0 and row is None:
                    self._show(opened, None)
                return
            if row is not None:
                self._rows[table] = msgspec.structs.replace(row, behind_since=row.behind_since or time.time())
            self._report("merging")
            merged = opened.update(state, known)
            self._show(opened, merged)
        except RelayError as error:
            if error.code not in _OF_ONE_TABLE:
                raise
            self._stop(table, error)

    def _show(self, opened: OpenTable, merged: Merged | None) -> None:
        table, before = opened.table, self._rows.get(opened.table)
        self._rows[table] = OpenTableStatus(
            table.schema, table.table, rows=opened.rows, files=len(opened.log.files), bytes=opened.bytes,
            seq=opened.applied, merged=time.time() if merged else before.merged if before else 0.0,
            seconds=merged.seconds if merged else before.seconds if before else 0.0,
        )  # fmt: skip

    def _stop(self, table: Table, error: RelayError) -> None:
        row = self._rows.get(table) or OpenTableStatus(table.schema, table.table)
        stop = Stop(str(error.code), str(error)[:1000], error.hint[:500])
        self._rows[table] = msgspec.structs.replace(row, stop=stop, behind_since=time.time())
        self._tables.pop(table, None)
        self._context.log("open_table_stopped", table=table, code=error.code, error=error, hint=error.hint)

    def _report(self, state: str) -> None:
        self.beat()
        status = self._status
        rows = sorted(self._rows.values(), key=lambda row: (row.stop is None, -row.behind_since, row.schema, row.table))
        status.show(rows, self._context.status_page.capacity)
        self._context.report(state)
