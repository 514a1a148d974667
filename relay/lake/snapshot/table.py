"""Fetches one table, piece by piece: some pages to a file, a commit in the log behind each file."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from relay._native import ChangeReader, JournalReader
from relay.binlog.failures import SourceLost
from relay.binlog.place import Place as BinlogPlace
from relay.errors import ErrorCode, RelayError, StopCode
from relay.lake import paths
from relay.lake.documents import DataFile, LakeState, Place, Snapshot, TableState
from relay.lake.log import Conflict, LakeLog
from relay.lake.snapshot import ends, keys, pace
from relay.lake.snapshot.estimate import Estimate, size
from relay.lake.snapshot.plan import Plan
from relay.lake.snapshot.session import Row, Session, columns
from relay.lake.snapshot.source import Source
from relay.lake.snapshot.visible import Visibility
from relay.lake.snapshot.whole import frozen
from relay.lake.types import META_FIELDS, arrow_type
from relay.lake.writer import seal

FILE_SECONDS: Final = 10.0
FILE_BYTES: Final = 64 << 20
"""Of columns in memory, at which a file is sealed."""
_PATIENCE: Final = 60.0
_LOOK_SECONDS: Final = 0.2
_LOCKED: Final = frozenset({1205, 1213})
"""Of a SELECT that waits for rows: it waited for too long, or was chosen to end a deadlock."""
_ALTERED: Final = frozenset({1054, 1146, 1412})
"""No such column, no such table, and a table that is not what it was when the transaction began."""


class Outdated(Exception):
    """What is being read may be no more what the table has: it is to be begun again."""


class Work(NamedTuple):
    """What fetching a table takes. `plan` tells how it stands now; `alive` and `show` are called now and then, `show`
    with rows read and the estimate of all."""

    log: LakeLog
    source: Source
    journal: Path
    plan: Callable[[], Plan]
    alive: Callable[[], None]
    show: Callable[[int, int], None]
    most_rows: int


class TableSnapshot:
    """One attempt at a table. Raises Outdated, `SourceLost`, `RelayError`; what was committed by then counts."""

    def __init__(self, work: Work, how: Plan, begun: Snapshot | None) -> None:
        """`begun`: what the log says of an earlier attempt that this goes on with."""
        self._work = work
        self._how = how
        self._committed = begun is not None
        self._snapshot = begun or Snapshot(
            how.table, uuid.uuid4().hex[:12], how.version.version, 0, None, 0, 0,
            identity=work.source.server.identity, key=how.key_names,
        )  # fmt: skip

    def run(self) -> None:
        """Up to the table's last row."""
        try:
            if self._how.key:
                self._by_pages()
            else:
                self._at_once()
        except SourceLost as error:
            if error.error is None or error.error.code not in _ALTERED:
                raise
            raise Outdated(error) from error

    def _by_pages(self) -> None:
        work, how = self._work, self._how
        account, asking, server, binlog = work.source
        guess = size(asking, how)
        estimate = Estimate(guess.rows, asking, how)
        visibility = Visibility(binlog, server, work.alive)
        speed = pace.Pace(work.most_rows, guess.row_bytes)
        with Session(account, server) as session:
            while not self._snapshot.done:
                self._file(session, visibility, speed, estimate)

    def _file(self, session: Session, visibility: Visibility, speed: pace.Pace, estimate: Estimate) -> None:
        """Pages until there is enough for a file, or no further row; and its commit."""
        until, batches, held, last = time.monotonic() + FILE_SECONDS, list[pa.RecordBatch](), 0, False
        snapshot = self._snapshot
        while not last and held < FILE_BYTES and time.monotonic() < until:
            self._work.alive()
            place = self._place(snapshot)
            if not self._committed and not snapshot.rows:
                snapshot = msgspec.structs.replace(snapshot, lowest=place.seq)
            asked, began = speed.rows, time.monotonic()
            try:
                page, after = self._page(session, visibility, place, snapshot.after, asked)
            except SourceLost as error:
                if error.error is None or error.error.code not in _LOCKED:
                    raise
                speed.took(asked, time.monotonic() - began, 1)
                continue
            rows, page_bytes = sum(batch.num_rows for batch in page), sum(batch.nbytes for batch in page)
            speed.took(rows, time.monotonic() - began, page_bytes)
            batches += page
            held += page_bytes
            last = rows < asked
            read = snapshot.rows + rows
            after = after or snapshot.after
            snapshot = msgspec.structs.replace(snapshot, after=after, rows=read, total=estimate.total(read, after))
            self._work.show(snapshot.rows, snapshot.total)
        if not (batches or last):  # the rows, or the table, are locked all the time
            return
        self._require_same()
        if last:
            snapshot = self._ended(snapshot)
        self._commit(snapshot, self._sealed(batches))

    def _page(
        self, session: Session, visibility: Visibility, place: Place, after: Sequence[str] | None, rows: int
    ) -> tuple[list[pa.RecordBatch], list[str] | None]:
        """The rows after a key, and the key of the last."""
        how = self._how
        expressions = [*(select.expression for select in how.selects), *map(keys.expression, how.key)]
        sql = keys.page(how.source, expressions, how.key, after, rows)
        batches, last = [], None
        with visibility.of(place, session) as reading:
            for some in session.stream(sql + reading.lock):
                batches.append(self._batch(some, place.seq, place))
                last = some[-1][len(how.selects) :]
        if last is None:
            return batches, None
        return batches, [keys.text(part, value or b"") for part, value in zip(how.key, last, strict=True)]

    def _at_once(self) -> None:
        """A table whose rows have no key: its files count together, with the exact `_seq` that they are of."""
        work, how = self._work, self._how
        guess = size(work.source.asking, how).rows
        files: list[DataFile] = []
        batches: list[pa.RecordBatch] = []
        rows = held = 0
        with frozen(work.source, how.table, how.source, work.alive) as (session, at):
            seq = self._seq_at(at)
            place = self._place(self._snapshot)
            sql = f"SELECT {', '.join(select.expression for select in how.selects)} FROM {how.source}"
            for some in session.stream(sql):
                work.alive()
                batches.append(self._batch(some, seq, place))
                rows += len(some)
                held += batches[-1].nbytes
                work.show(rows, max(rows, guess))
                if held >= FILE_BYTES:
                    files += self._sealed(batches, len(files))
                    batches, held = [], 0
        self._require_same()
        files += self._sealed(batches, len(files))
        snapshot = msgspec.structs.replace(self._snapshot, lowest=seq, rows=rows, total=rows)
        self._await(lambda: self._place(snapshot).seq >= seq, f"the export to come to {at}")
        self._commit(self._ended(snapshot), files)

    def _seq_at(self, at: BinlogPlace) -> int:
        """The lake's number of the last change at or before a place."""
        binlog, found = self._work.source.binlog, [0]

        def passed() -> bool:
            journal = JournalReader(self._work.journal)
            place = self._place(self._snapshot)
            if journal.generation() != place.generation:
                raise RelayError(
                    StopCode.JOURNAL_LOST, "snapshot", "the journal is not the one that the lake is exported from",
                    position=str(self._work.journal),
                )  # fmt: skip
            located = journal.locate(at.file, at.position, journal.flushed())
            reader = ChangeReader(self._work.journal, located, base=place.base)
            found[0] = reader.seq
            begin = BinlogPlace(reader.file, reader.offset)
            return at <= begin or ends.last_change(binlog, begin, at) == begin

        self._await(passed, f"the relay to read up to {at}")
        return found[0]

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not condition():
            self._work.alive()
            if time.monotonic() > until:
                raise SourceLost(f"waited for {what} for {_PATIENCE:.0f} s: is `relay start` running, with this lake?")
            time.sleep(_LOOK_SECONDS)

    def _batch(self, rows: Sequence[Row], seq: int, place: Place) -> pa.RecordBatch:
        count, how = len(self._how.selects), self._how
        meta = {
            "_change_type": "snapshot",
            "_commit_version": seq,
            "_commit_timestamp": datetime.now(UTC),
            "_seq": seq,
            "_file": place.file,
            "_pos": place.offset,
            "_gtid": place.gtid or None,
            "_schema_version": how.version.version,
        }
        try:
            values = how.arrays(columns([row[:count] for row in rows], count))
        except pa.ArrowInvalid as error:
            self._require_same()
            raise RelayError(ErrorCode.UNEXPECTED, "snapshot", error, position=str(how.table)) from error
        for field in META_FIELDS:
            values.append(pa.repeat(pa.scalar(meta[field.name], arrow_type(field.type)), len(rows)))
        return pa.record_batch(values, names=[field.name for field in (*how.version.fields, *META_FIELDS)])

    def _sealed(self, batches: list[pa.RecordBatch], number: int = 0) -> list[DataFile]:
        if not batches:
            return []
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        chunk = f"{self._snapshot.id}-{self._snapshot.rows}-{number}"
        return [seal(self._work.log.storage, self._how.version, date, "snapshot", batches, chunk)]

    def _ended(self, snapshot: Snapshot) -> Snapshot:
        """Done: everything that was seen stands in the binlog before its end as it is now."""
        binlog, server = self._work.source.binlog, self._work.source.server
        place = self._place(snapshot)
        end = ends.last_change(binlog, BinlogPlace(place.file, place.offset), ends.binlog_end(binlog, server))
        return msgspec.structs.replace(
            snapshot, total=snapshot.rows, done=True, end_file=end.file, end_offset=end.position
        )

    def _place(self, snapshot: Snapshot) -> Place:
        """Where the export stands now. Raises Outdated or `SourceLost` if that makes an end of what is being read."""
        state = self._work.log.state()
        self._require_wanted(state, snapshot)
        if state.place is None:
            raise RelayError(ErrorCode.UNEXPECTED, "snapshot", "the lake's log has no place of an export")
        if state.place.identity != snapshot.identity:
            raise SourceLost("the export goes on from another source")
        return state.place

    def _require_wanted(self, state: LakeState, snapshot: Snapshot) -> None:
        known = state.tables.get(paths.table_key(snapshot.table))
        if known is None:
            return
        if known.complete_from is not None:
            raise Outdated(f"the table is complete since {known.complete_from}")
        if (self._committed or snapshot.rows) and known.reset > snapshot.lowest:
            raise Outdated(f"a {known.last_marker or 'gap'} came at {known.reset}")
        if self._committed and (known.snapshot is None or known.snapshot.id != snapshot.id):
            raise Outdated("the export left it behind") if known.snapshot is None else _second(known)

    def _require_same(self) -> None:
        """Raises Outdated if the table's columns or key are not what they were."""
        self._require_wanted(self._work.log.state(), self._snapshot)  # a table that is gone has no columns
        now = self._work.plan()
        if (now.version, now.key, now.source) != (self._how.version, self._how.key, self._how.source):
            raise Outdated("its columns have changed")

    def _commit(self, snapshot: Snapshot, files: Sequence[DataFile]) -> None:
        work, version = self._work, self._how.version
        while True:
            state = work.log.state()
            self._require_wanted(state, snapshot)
            known = state.tables.get(paths.table_key(snapshot.table))
            versions = known.versions if known else []
            if version.version <= len(versions) and versions[version.version - 1] != version:
                raise Outdated("the export knows other columns of it")
            new = [version] if version.version > len(versions) else []
            try:
                work.log.commit("snapshot", add=files, versions=new, snapshots=[snapshot])
                break
            except Conflict:
                continue
        self._snapshot = snapshot
        self._committed = True


def _second(known: TableState) -> RelayError:
    return RelayError(
        StopCode.LAKE_CONFLICT, "snapshot", "another snapshot of it is being written to this lake",
        position=str(known.table),
    )  # fmt: skip
