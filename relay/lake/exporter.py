"""The export: from the flushed part of the journal to sealed Parquet files and commits in the lake's log.

The last position in the log is the only one. After a kill, what was read and not committed is read again, and produces
the same files under the same names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from relay._native import ChangeReader, JournalError, JournalReader, Reached
from relay.base.errors import RelayError, StopCode
from relay.ddl import Dialect
from relay.ddl import dialect as dialects
from relay.ddl.cursor import NotUnderstood
from relay.ingest.definitions import without_excluded
from relay.ingest.rules import Rules
from relay.journal.decoding import decoding
from relay.journal.frames import Definition
from relay.lake import statements
from relay.lake.buffer import PendingCommit
from relay.lake.documents import ExportPosition, Gap, Marker, Table
from relay.lake.log import Conflict, LakeLog
from relay.lake.markers import Where
from relay.lake.storage import Storage
from relay.schema.history import Outcome, unpacked
from relay.schema.matching import definition
from relay.schema.table import Table as Defined

READ_BYTES: Final = 16 << 20  # of columns buffered before the clock is checked
_ACCEPT_GAP: Final = (
    "`relay export --accept-gap`, or `relay start --accept-gap`, continues after the loss;"
    " a snapshot makes the lake's tables complete again"
)


class Settings(NamedTuple):
    """What is exported (patterns `schema.table`), and when files are sealed.

    With `positional`, rows whose definition is not proven are exported too, with columns @1, @2, ... `rules` say which
    of the source's tables and columns are in the journal.
    """

    tables: Sequence[str] = ("*.*",)
    roll_seconds: float = 10
    roll_bytes: int = 128 << 20
    accept_gap: bool = False
    positional: bool = False
    rules: Rules = Rules()


class Progress(NamedTuple):
    """The progress of the export. Positions are the journal's; rows are flat (an update is two).

    `place` is committed, `read` is the position of the reader, `flushed` the limit up to which it may read. With
    `caught_up`, nothing is left to read: what follows `read`, if anything, is not a whole transaction. `behind_since`
    is as in relay.runtime.process_status.ExportStatus. `rows` counts the rows read since this export began; `written`
    of them are in the `files`.
    """

    place: ExportPosition
    read: int
    flushed: int
    caught_up: bool
    behind_since: float
    rows: int
    written: int
    files: int
    bytes: int

    @property
    def covered(self) -> int:
        """The position up to which the lake has everything that is available."""
        return self.flushed if self.caught_up and self.read == self.place.position else self.place.position

    @property
    def lag_bytes(self) -> int:
        """Bytes of the journal that are flushed and not in the lake."""
        return max(0, self.flushed - self.covered)

    @property
    def lag_seconds(self) -> float:
        """How long the oldest pending change has waited, in seconds."""
        return max(0.0, time.time() - self.behind_since) if self.behind_since else 0.0


class Exporter:
    """Export one journal to one lake. If two exporters commit, the second stops with fatal error `lake_conflict`."""

    def __init__(
        self, storage: Storage, journal: Path, settings: Settings, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Open the lake and find the position to resume at; `alive` is called during long work.

        Raises `RelayError` (journal_lost) if the journal no longer has what comes next.
        """
        self._storage = storage
        self._log = LakeLog(storage)
        self._directory = journal
        self._journal = JournalReader(journal)
        self._settings = settings
        self._wanted = Rules(settings.tables).wants
        self._alive = alive
        self.left_out: list[Table] = []  # tables of the lake that are no longer exported, and so no longer complete
        self._rows = self._written = self._files = self._bytes = 0
        self._waiting_since = 0.0
        self._pending_since: float | None = None  # monotonic: since when something waits to be committed
        self._pending = PendingCommit({}, settings.positional)
        self._committed: ExportPosition | None = None  # the log's position
        self._reader: ChangeReader
        self._read_to = 0  # everything readable up to here was read
        self._log.rewrite_newest()
        self._begin()

    def step(self, *, roll: bool = False) -> Progress:
        """Read some of what is flushed, and commit what is due. With `roll`, commit as soon as everything is read."""
        flushed = self._journal.flushed()
        if flushed > self._read_to:
            try:
                reached = self._reader.read(flushed, READ_BYTES)
                if reached.why == "end":
                    self._read_to = flushed
                self._process(reached)
            except JournalError as error:
                if error.code is not StopCode.JOURNAL_LOST or self._reader.position >= self._journal.first():
                    raise
                self._begin()
        if self._pending_since is None and self._has_progress():
            self._pending_since = time.monotonic()
        if self._reader.in_transaction:
            if self._pending.bytes >= self._settings.roll_bytes:
                self._seal()  # counts once the end of the transaction is committed
        elif self._due(roll and self._read_to >= flushed):
            self._commit()
        return self._progress(flushed)

    def finish(self) -> Progress:
        """Commit what was read, except an unfinished transaction. Nothing new is read."""
        goal = self._reader.position
        while not self._reader.in_transaction and self._has_progress() and not self._commit():
            while self._reader.position < goal:
                self._process(self._reader.read(goal, READ_BYTES))
        return self._progress(self._journal.flushed())

    def _begin(self) -> None:
        """Resume at the log's position; the buffer is discarded."""
        state = self._log.state()
        generation = self._journal.generation()
        self._committed = place = state.place
        self._pending_since = None
        self._pending = PendingCommit(state.tables, self._settings.positional)
        if place is None:
            self._open(generation, 0, 0)
            self._commit()
            return
        if place.generation != generation:
            lost = f"its id is {generation}, but the lake was exported from {place.generation}"
            self._resume_after_loss(place, lost)
        elif place.position < self._journal.first():
            self._resume_after_loss(place, f"retention deleted the rows after position {place.position}")
        else:
            self._open(generation, place.position, place.base)
            if self._reader.seq != place.seq:
                lost = f"the rows before position {place.position} are not those that were exported"
                self._resume_after_loss(place, lost)
        self._reset_left_out()

    def _open(self, generation: int, position: int, base: int) -> None:
        self._generation = generation
        self._base = base
        self._read_to = 0
        self._reader = ChangeReader(self._directory, position, base=base, wanted=self._wanted)

    def _resume_after_loss(self, place: ExportPosition, cause: str) -> None:
        """Resume at the journal's beginning, with a gap in the log.

        Raises `RelayError` (journal_lost) if gaps are not accepted.
        """
        if not self._settings.accept_gap:
            raise RelayError(
                StopCode.JOURNAL_LOST, "export to the lake", cause, position=self._storage.url(), hint=_ACCEPT_GAP
            )
        generation = self._journal.generation()
        # The gap takes one number, and the journal is numbered above it: a new journal counts from 1 again.
        same = place.generation == generation
        self._open(generation, 0, place.base if same else place.seq + 1)
        if self._reader.seq <= place.seq:
            self._open(generation, 0, self._base + 1 + place.seq - self._reader.seq)
        self._commit(Gap(self._reader.seq, f"the journal: {cause}"))

    def _reset_left_out(self) -> None:
        """Reset the tables of the lake that are no longer exported: they are no longer complete."""
        left = [
            known.table
            for known in self._log.state().tables.values()
            if (known.complete_from is not None or known.snapshot is not None)
            and not self._wanted(known.table.schema, known.table.table)
        ]
        if left:
            self._take_number()
            why = "left out of the export"
            here = self._where(int(time.time()))
            self._pending.markers += [Marker(table, "reset", here.seq, here.timestamp, why) for table in left]
            self._commit()
            self.left_out += left

    def _take_number(self) -> None:
        """Take the next `_seq` for something that has no number in the journal."""
        self._open(self._generation, self._reader.position, self._base + 1)

    def _has_progress(self) -> bool:
        """Whether there is anything to commit, even if only a new position."""
        return bool(self._pending) or self._committed is None or self._reader.position > self._committed.position

    def _process(self, reached: Reached) -> None:
        columns = self._reader.take()
        self._rows += sum(each.rows for each in columns)
        self._pending.add(columns, reached.timestamp)
        if reached.why == "ddl":
            self._process_statement(reached)
        elif reached.why == "gap":
            if self._pending and not self._commit():
                return  # the gap is read again
            self._take_number()
            self._commit(Gap(self._reader.seq, reached.text))

    def _process_statement(self, reached: Reached) -> None:
        with decoding(self._journal, reached.position):
            dialect, outcomes = dialects.unpacked(reached.dialect), unpacked(reached.tables)
        found = statements.effects(reached.text, reached.schema, self._pending.tables(), dialect)
        where = self._where(reached.timestamp)._replace(seq=reached.seq)
        markers = [
            Marker(table, kind, reached.seq, reached.timestamp, reached.text)
            for table, kind in found
            if self._wanted(table.schema, table.table)
        ]
        self._pending.add_markers(markers, where)
        if dialect is not None:
            begun = {table for table, _ in found}
            for left in self._definitions_after(outcomes, dialect):
                table = Table(left.schema, left.table)
                if table in begun or self._pending.knows(table):
                    self._pending.define(left, reached.seq, reached.timestamp)

    def _definitions_after(self, outcomes: Iterable[Outcome], dialect: Dialect) -> Iterator[Definition]:
        """Yield the definitions of rows that follow a statement with these outcomes."""
        rules = self._settings.rules
        for schema, name, state in outcomes:
            if isinstance(state, Defined) and self._wanted(schema, name) and rules.wants(schema, name):
                with suppress(NotUnderstood):
                    keep = [rules.keeps(schema, name, column.name) for column in state.columns]
                    yield without_excluded(definition(state, dialect), keep)

    def _where(self, timestamp: int) -> Where:
        return Where(self._reader.seq, timestamp, self._reader.file, self._reader.offset, self._reader.gtid)

    def _due(self, roll: bool) -> bool:
        if self._pending_since is None:
            return False
        if roll or self._pending.bytes >= self._settings.roll_bytes:
            return True
        if self._committed is None or self._reader.identity != self._committed.identity:
            return True  # snapshots wait until the log has the new source
        return time.monotonic() - self._pending_since >= self._settings.roll_seconds

    def _seal(self) -> None:
        self._pending.seal(self._storage, f"{self._generation:x}", self._alive)

    def _commit(self, gap: Gap | None = None) -> bool:
        """Seal and commit everything up to the reader's position, which is between transactions.

        Returns False if the export began again at the last commit, because a snapshot gave a table columns that the
        files lack.
        """
        self._seal()
        place = self._current_position()
        pending = self._pending
        while True:
            try:
                state = self._log.commit(
                    "export",
                    place=place,
                    add=pending.files,
                    versions=pending.versions,
                    markers=pending.markers,
                    gap=gap,
                )
                break
            except Conflict:
                if self._log.state().place != self._committed:
                    raise RelayError(
                        StopCode.LAKE_CONFLICT, "export to the lake", "another exporter writes to it",
                        position=self._storage.url(),
                    ) from None  # fmt: skip
                if not pending.rebase(self._log.state().tables):
                    self._begin()
                    return False
        self._committed = place
        self._pending_since = None
        self._waiting_since = 0.0
        self._files += len(pending.files)
        self._written += sum(file.rows for file in pending.files)
        self._bytes += sum(file.bytes for file in pending.files)
        self._pending = PendingCommit(state.tables, self._settings.positional)
        return True

    def _current_position(self) -> ExportPosition:
        reader, before = self._reader, self._committed  # `before` is for a reader that has seen no transaction yet
        return ExportPosition(
            generation=self._generation,
            base=self._base,
            position=reader.position,
            seq=reader.seq,
            file=reader.file,
            offset=reader.offset,
            gtid=reader.gtid or (before.gtid if before else ""),
            identity=reader.identity,
            timestamp=reader.timestamp or (before.timestamp if before else 0),
        )

    def _progress(self, flushed: int) -> Progress:
        assert self._committed is not None
        caught_up = self._read_to >= flushed
        behind = 0.0
        if not caught_up or self._committed.position < self._reader.position:
            self._waiting_since = self._waiting_since or time.time()
            catching_up = not caught_up and self._reader.timestamp
            behind = min(self._waiting_since, self._reader.timestamp) if catching_up else self._waiting_since
        return Progress(
            place=self._committed,
            read=self._reader.position,
            flushed=flushed,
            caught_up=caught_up,
            behind_since=behind,
            rows=self._rows,
            written=self._written,
            files=self._files,
            bytes=self._bytes,
        )
