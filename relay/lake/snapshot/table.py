"""Read one table: several pages make a file, and each file is a commit in the log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from relay._native import ChangeReader, JournalReader
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.binlog.events.position import BinlogPosition
from relay.lake import paths
from relay.lake.documents import DataFile, ExportPosition, LakeState, Snapshot, TableState
from relay.lake.log import Conflict, LakeLog, versions_of
from relay.lake.snapshot import ends, keys, pace
from relay.lake.snapshot.estimate import Estimate, size
from relay.lake.snapshot.plan import Plan
from relay.lake.snapshot.session import Row, Session, columns
from relay.lake.snapshot.source import Source
from relay.lake.snapshot.visible import Visibility
from relay.lake.snapshot.whole import consistent_session
from relay.lake.types import META_FIELDS, arrow_type
from relay.lake.writer import seal
from relay.source.failures import SourceLost

FILE_SECONDS: Final = 10.0
FILE_BYTES: Final = 64 << 20
"""Size of the columns in memory at which a file is sealed."""
_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_LOCKED: Final = frozenset({1205, 1213})
"""Errors of a SELECT that waits for rows: lock wait timeout, and deadlock."""
_ALTERED: Final = frozenset({1054, 1146, 1412})
"""Errors: no such column, no such table, and a table definition that changed since the transaction began."""


class Outdated(Exception):
    """The rows read so far may no longer match the table: it must be read from the beginning."""


class Work(NamedTuple):
    """What reading a table needs.

    `plan` returns the current plan; `alive` and `show` are called regularly, `show` with the rows read and the
    estimated total.
    """

    log: LakeLog
    source: Source
    journal: Path
    plan: Callable[[], Plan]
    alive: Callable[[], None]
    show: Callable[[int, int], None]
    most_rows: int


class TableSnapshot:
    """One attempt to read a table. Raises Outdated, `SourceLost`, `RelayError`; what was committed before counts."""

    def __init__(self, work: Work, plan: Plan, begun: Snapshot | None) -> None:
        """`begun` is the log's entry of an earlier attempt, which this one continues."""
        self._work = work
        self._plan = plan
        self._committed = begun is not None
        self._snapshot = begun or Snapshot(
            plan.table, uuid.uuid4().hex[:12], plan.version.version, 0, None, 0, 0,
            identity=work.source.server.identity, key=plan.key_names,
        )  # fmt: skip

    def run(self) -> None:
        """Read to the table's last row."""
        try:
            if self._plan.key:
                self._read_pages()
            else:
                self._read_whole()
        except SourceLost as error:
            if error.error is None or error.error.code not in _ALTERED:
                raise
            raise Outdated(error) from error

    def _read_pages(self) -> None:
        work, plan = self._work, self._plan
        account, metadata, server, binlog = work.source
        guess = size(metadata, plan)
        estimate = Estimate(guess.rows, metadata, plan)
        visibility = Visibility(binlog, server, work.alive)
        speed = pace.Pace(work.most_rows, guess.row_bytes)
        with Session(account, server) as session:
            while not self._snapshot.done:
                self._read_file(session, visibility, speed, estimate)

    def _read_file(self, session: Session, visibility: Visibility, speed: pace.Pace, estimate: Estimate) -> None:
        """Read pages until a file is full or no row is left, and commit the file."""
        until, batches, buffered, last = time.monotonic() + FILE_SECONDS, list[pa.RecordBatch](), 0, False
        snapshot = self._snapshot
        while not last and buffered < FILE_BYTES and time.monotonic() < until:
            self._work.alive()
            exported = self._export_position(snapshot)
            if not self._committed and not snapshot.rows:
                snapshot = msgspec.structs.replace(snapshot, lowest=exported.seq)
            limit, began = speed.rows, time.monotonic()
            try:
                page, after = self._read_page(session, visibility, exported, snapshot.after, limit)
            except SourceLost as error:
                if error.error is None or error.error.code not in _LOCKED:
                    raise
                speed.adapt(limit, time.monotonic() - began, 1)
                continue
            rows, page_bytes = sum(batch.num_rows for batch in page), sum(batch.nbytes for batch in page)
            speed.adapt(rows, time.monotonic() - began, page_bytes)
            batches += page
            buffered += page_bytes
            last = rows < limit
            read = snapshot.rows + rows
            after = after or snapshot.after
            snapshot = msgspec.structs.replace(snapshot, after=after, rows=read, total=estimate.total(read, after))
            self._work.show(snapshot.rows, snapshot.total)
        if not (batches or last):  # the rows, or the table, were locked all the time
            return
        self._require_same()
        if last:
            snapshot = self._marked_done(snapshot)
        self._commit(snapshot, self._seal(batches))

    def _read_page(
        self, session: Session, visibility: Visibility, exported: ExportPosition, after: Sequence[str] | None, rows: int
    ) -> tuple[list[pa.RecordBatch], list[str] | None]:
        """Read the rows after a key; return them and the key of the last one."""
        plan = self._plan
        expressions = [*(select.expression for select in plan.selects), *map(keys.expression, plan.key)]
        sql = keys.page(plan.source, expressions, plan.key, after, rows)
        batches, last = [], None
        with visibility.ensure(exported, session) as lock:
            for chunk in session.stream(sql + lock):
                batches.append(self._batch(chunk, exported.seq, exported))
                last = chunk[-1][len(plan.selects) :]
        if last is None:
            return batches, None
        return batches, [keys.text(part, value or b"") for part, value in zip(plan.key, last, strict=True)]

    def _read_whole(self) -> None:
        """Read a table without a key: all its files are in one commit, with an exact `_seq`."""
        work, plan = self._work, self._plan
        guess = size(work.source.metadata, plan).rows
        files: list[DataFile] = []
        batches: list[pa.RecordBatch] = []
        rows = buffered = 0
        with consistent_session(work.source, plan.table, plan.source, work.alive) as (session, at):
            seq = self._seq_at(at)
            exported = self._export_position(self._snapshot)
            sql = f"SELECT {', '.join(select.expression for select in plan.selects)} FROM {plan.source}"
            for chunk in session.stream(sql):
                work.alive()
                batches.append(self._batch(chunk, seq, exported))
                rows += len(chunk)
                buffered += batches[-1].nbytes
                work.show(rows, max(rows, guess))
                if buffered >= FILE_BYTES:
                    files += self._seal(batches, len(files))
                    batches, buffered = [], 0
        self._require_same()
        files += self._seal(batches, len(files))
        snapshot = msgspec.structs.replace(self._snapshot, lowest=seq, rows=rows, total=rows)
        self._wait_for(lambda: self._export_position(snapshot).seq >= seq, f"the export to reach {at}")
        self._commit(self._marked_done(snapshot), files)

    def _seq_at(self, at: BinlogPosition) -> int:
        """Return the lake's number of the last change at or before a binlog position."""
        binlog, found = self._work.source.binlog, [0]

        def reached() -> bool:
            journal = JournalReader(self._work.journal)
            exported = self._export_position(self._snapshot)
            if journal.generation() != exported.generation:
                raise RelayError(
                    StopCode.JOURNAL_LOST, "snapshot", "the lake is exported from another journal",
                    position=str(self._work.journal),
                )  # fmt: skip
            located = journal.locate(at.file, at.position, journal.flushed())
            reader = ChangeReader(self._work.journal, located, base=exported.base)
            found[0] = reader.seq
            begin = BinlogPosition(reader.file, reader.offset)
            return at <= begin or ends.last_change(binlog, begin, at) == begin

        self._wait_for(reached, f"the relay to reach {at}")
        return found[0]

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _TIMEOUT_SECONDS
        while not condition():
            self._work.alive()
            if time.monotonic() > until:
                waited = f"waited {_TIMEOUT_SECONDS:.0f} s for {what}"
                raise SourceLost(f"{waited}: check that `relay start` runs with this lake")
            time.sleep(_POLL_SECONDS)

    def _batch(self, rows: Sequence[Row], seq: int, exported: ExportPosition) -> pa.RecordBatch:
        count, plan = len(self._plan.selects), self._plan
        meta = {
            "_change_type": "snapshot",
            "_commit_version": seq,
            "_commit_timestamp": datetime.now(UTC),
            "_seq": seq,
            "_file": exported.file,
            "_pos": exported.offset,
            "_gtid": exported.gtid or None,
            "_schema_version": plan.version.version,
        }
        try:
            values = plan.arrays(columns([row[:count] for row in rows], count))
        except pa.ArrowInvalid as error:
            self._require_same()
            raise RelayError(ErrorCode.UNEXPECTED, "snapshot", error, position=str(plan.table)) from error
        for field in META_FIELDS:
            values.append(pa.repeat(pa.scalar(meta[field.name], arrow_type(field.type)), len(rows)))
        return pa.record_batch(values, names=[field.name for field in (*plan.version.fields, *META_FIELDS)])

    def _seal(self, batches: list[pa.RecordBatch], number: int = 0) -> list[DataFile]:
        if not batches:
            return []
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        chunk = f"{self._snapshot.id}-{self._snapshot.rows}-{number}"
        return [seal(self._work.log.storage, self._plan.version, date, "snapshot", batches, chunk)]

    def _marked_done(self, snapshot: Snapshot) -> Snapshot:
        """Mark the snapshot done: everything that it has seen is in the binlog before the current end."""
        binlog, server = self._work.source.binlog, self._work.source.server
        exported = self._export_position(snapshot)
        end = ends.last_change(binlog, BinlogPosition(exported.file, exported.offset), ends.binlog_end(binlog, server))
        return msgspec.structs.replace(
            snapshot, total=snapshot.rows, done=True, end_file=end.file, end_offset=end.position
        )

    def _export_position(self, snapshot: Snapshot) -> ExportPosition:
        """Return the current position of the export.

        Raises Outdated or `SourceLost` if the reading can no longer be used.
        """
        state = self._work.log.state()
        self._require_usable(state, snapshot)
        if state.place is None:
            raise RelayError(ErrorCode.UNEXPECTED, "snapshot", "the lake's log has no position of an export")
        if state.place.identity != snapshot.identity:
            raise SourceLost("the export continues from another source")
        return state.place

    def _require_usable(self, state: LakeState, snapshot: Snapshot) -> None:
        known = state.tables.get(paths.table_key(snapshot.table))
        if known is None:
            return
        if known.complete_from is not None:
            raise Outdated(f"the table is complete since {known.complete_from}")
        if (self._committed or snapshot.rows) and known.reset > snapshot.lowest:
            raise Outdated(f"a {known.last_marker or 'gap'} came at {known.reset}")
        if self._committed and (known.snapshot is None or known.snapshot.id != snapshot.id):
            raise Outdated("the export has passed it") if known.snapshot is None else _conflict(known)

    def _require_same(self) -> None:
        """Raise Outdated if the table's columns or key have changed."""
        self._require_usable(self._work.log.state(), self._snapshot)  # checked first: a dropped table has no columns
        if not self._work.plan().reads_like(self._plan):
            raise Outdated("its columns have changed")

    def _commit(self, snapshot: Snapshot, files: Sequence[DataFile]) -> None:
        work, version = self._work, self._plan.version
        while True:
            state = work.log.state()
            self._require_usable(state, snapshot)
            versions = versions_of(state.tables, snapshot.table)
            if version.version <= len(versions) and versions[version.version - 1] != version:
                raise Outdated("the export has other columns of it")
            new = [version] if version.version > len(versions) else []
            with suppress(Conflict):
                work.log.commit("snapshot", add=files, versions=new, snapshots=[snapshot])
                break
        self._snapshot = snapshot
        self._committed = True


def _conflict(known: TableState) -> RelayError:
    return RelayError(
        StopCode.LAKE_CONFLICT, "snapshot", "another snapshot of it is being written to this lake",
        position=str(known.table),
    )  # fmt: skip
