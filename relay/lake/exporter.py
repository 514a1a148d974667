"""The export: from the journal's flushed part to sealed Parquet files and commits in the lake's log.

Where it stands is the last Place in the log and nothing else: what was read and not committed is read again after a
kill, and makes the same files under the same names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from relay._native import ChangeReader, JournalError, JournalReader, Reached
from relay.binlog.definitions import kept
from relay.binlog.rules import Rules
from relay.ddl import Dialect
from relay.ddl import dialect as dialects
from relay.ddl.cursor import NotUnderstood
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.lake import statements
from relay.lake.documents import Gap, LakeState, Marker, Place, Table
from relay.lake.gathering import Gathering
from relay.lake.log import Conflict, LakeLog
from relay.lake.markers import Where
from relay.lake.storage import Storage
from relay.schema.history import Outcome, unpacked
from relay.schema.matching import definition
from relay.schema.table import Table as Defined

READ_BYTES: Final = 16 << 20  # of columns gathered before somebody looks at the clock
_ACCEPT_GAP: Final = (
    "`relay export --accept-gap`, or `relay start --accept-gap`, goes on after the loss;"
    " the lake's tables are whole again after a snapshot"
)


class Settings(NamedTuple):
    """What is exported (patterns `schema.table`), and when files are sealed.

    `positional`: also rows whose definition is not proven, with columns @1, @2, ... `rules` say what of the source is
    in the journal.
    """

    tables: Sequence[str] = ("*.*",)
    roll_seconds: float = 10
    roll_bytes: int = 128 << 20
    accept_gap: bool = False
    positional: bool = False
    rules: Rules = Rules()


class Progress(NamedTuple):
    """How far the export has come. Positions are the journal's, rows are flat (an update is two).

    `place` is what is committed, `read` how far it has read, `flushed` how far it may read; `level`: there is nothing
    more to read, since what follows `read`, if anything does, is no whole transaction. `behind_since`: as in
    relay.board.ExportStatus. `rows` were read since this export began, `written` of them are in the `files`.
    """

    place: Place
    read: int
    flushed: int
    level: bool
    behind_since: float
    rows: int
    written: int
    files: int
    bytes: int

    @property
    def covered(self) -> int:
        """Up to where the lake has all that can be had."""
        return self.flushed if self.level and self.read == self.place.position else self.place.position

    @property
    def lag_bytes(self) -> int:
        """Of the journal, that are flushed and not in the lake."""
        return max(0, self.flushed - self.covered)

    @property
    def lag_seconds(self) -> float:
        """For how long something has waited."""
        return max(0.0, time.time() - self.behind_since) if self.behind_since else 0.0


class Exporter:
    """Exports one journal to one lake. The first exporter that commits counts; a second one stops by name."""

    def __init__(
        self, storage: Storage, journal: Path, settings: Settings, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Open the lake and find the place to go on at; `alive` is called during long work.

        Raises `RelayError` (journal_lost) if the journal no longer has what comes next.
        """
        self._storage = storage
        self._log = LakeLog(storage)
        self._directory = journal
        self._journal = JournalReader(journal)
        self._settings = settings
        self._alive = alive
        self.left_out: list[Table] = []  # tables of the lake that are not exported any more, and so not whole any more
        self._rows = self._written = self._files = self._bytes = 0
        self._waits_since = 0.0
        self._gathered_at: float | None = None  # monotonic: since when something waits to be committed
        self._gathering = Gathering({}, settings.positional)
        self._place: Place | None = None  # that the log has
        self._reader: ChangeReader
        self._read_to = 0  # all that can be read up to there was read
        self._begin()

    def step(self, *, roll: bool = False) -> Progress:
        """Read some of what is flushed, and commit what is due; with `roll`, whatever there is once all is read."""
        flushed = self._journal.flushed()
        if flushed > self._read_to:
            try:
                reached = self._reader.read(flushed, READ_BYTES)
                if reached.why == "end":
                    self._read_to = flushed
                self._take(reached)
            except JournalError as error:
                if error.code is not StopCode.JOURNAL_LOST or not self._is_cut():
                    raise
                self._begin()
        if self._gathered_at is None and self._moved():
            self._gathered_at = time.monotonic()
        if self._reader.in_transaction:
            if self._gathering.bytes >= self._settings.roll_bytes:
                self._seal()  # counts when the transaction's end is committed
        elif self._due(roll and self._read_to >= flushed):
            self._commit()
        return self._progress(flushed)

    def finish(self) -> Progress:
        """Commit what was read, but for a transaction that is not read to its end; nothing is read any more."""
        goal = self._reader.position
        while not self._reader.in_transaction and self._moved() and not self._commit():
            while self._reader.position < goal:
                self._take(self._reader.read(goal, READ_BYTES))
        return self._progress(self._journal.flushed())

    def _begin(self) -> None:
        """Go on where the log says; what was gathered is forgotten."""
        state = self._log.state()
        generation = self._journal.generation()
        self._place = place = state.place
        self._gathered_at = None
        self._gathering = Gathering(state.tables, self._settings.positional)
        if place is None:
            self._open(generation, 0, 0)
            self._commit()
            return
        if place.generation != generation:
            self._lose(state, place, f"its id is {generation}, the lake was exported from {place.generation}")
        elif place.position < self._journal.first():
            self._lose(state, place, f"retention deleted what comes after position {place.position}")
        else:
            self._open(generation, place.position, place.base)
            if self._reader.seq != place.seq:
                self._lose(state, place, f"what stands before position {place.position} is not what was exported")
        self._leave_out(self._log.state())

    def _open(self, generation: int, position: int, base: int) -> None:
        self._generation = generation
        self._base = base
        self._read_to = 0
        self._reader = ChangeReader(self._directory, position, base=base, wanted=self._wanted)

    def _wanted(self, schema: str, table: str) -> bool:
        patterns = (pattern.split(".", 1) for pattern in self._settings.tables)
        return any(fnmatchcase(schema, first) and fnmatchcase(table, second) for first, second in patterns)

    def _lose(self, state: LakeState, place: Place, cause: str) -> None:
        """Go on at the journal's beginning with a gap in the log, if that is accepted."""
        if not self._settings.accept_gap:
            raise RelayError(
                StopCode.JOURNAL_LOST, "export to the lake", cause, position=self._storage.url(), hint=_ACCEPT_GAP
            )
        generation = self._journal.generation()
        # A number for the gap, and the journal's numbers above it: those of a new journal begin at 1 again.
        same = place.generation == generation
        self._open(generation, 0, place.base if same else place.seq + 1)
        if self._reader.seq <= place.seq:
            self._open(generation, 0, self._base + 1 + place.seq - self._reader.seq)
        self._commit(Gap(self._reader.seq, f"the journal: {cause}"))

    def _leave_out(self, state: LakeState) -> None:
        """Tables of the lake that are not exported any more are not known whole any more, and the log has to say so."""
        left = [
            known.table
            for known in state.tables.values()
            if (known.complete_from is not None or known.snapshot is not None)
            and not self._wanted(known.table.schema, known.table.table)
        ]
        if left:
            self._number()
            why = "left out of the export"
            here = self._where(int(time.time()))
            self._gathering.markers += [Marker(table, "reset", here.seq, here.timestamp, why) for table in left]
            self._commit()
            self.left_out += left

    def _number(self) -> None:
        """Take the next `_seq` for something that has no number in the journal."""
        self._open(self._generation, self._reader.position, self._base + 1)

    def _moved(self) -> bool:
        """Whether there is anything to commit, if only that it was looked at."""
        return bool(self._gathering) or self._place is None or self._reader.position > self._place.position

    def _is_cut(self) -> bool:
        return self._reader.position < self._journal.first()

    def _take(self, reached: Reached) -> None:
        columns = self._reader.take()
        self._rows += sum(each.rows for each in columns)
        self._gathering.add(columns, reached.timestamp)
        if reached.why == "ddl":
            self._statement(reached)
        elif reached.why == "gap":
            if self._gathering and not self._commit():
                return  # the gap is met again
            self._number()
            self._commit(Gap(self._reader.seq, reached.text))

    def _statement(self, reached: Reached) -> None:
        dialect = dialects.unpacked(reached.dialect)
        found = statements.effects(reached.text, reached.schema, self._gathering.tables(), dialect)
        where = self._where(reached.timestamp)._replace(seq=reached.seq)
        markers = [
            Marker(table, kind, reached.seq, reached.timestamp, reached.text)
            for table, kind in found
            if self._wanted(table.schema, table.table)
        ]
        self._gathering.mark(markers, where)
        if dialect is not None:
            begun = {table for table, _ in found}
            for left in self._left(unpacked(reached.tables), dialect):
                table = Table(left.schema, left.table)
                if table in begun or self._gathering.knows(table):
                    self._gathering.define(left, reached.seq, reached.timestamp)

    def _left(self, outcomes: Iterable[Outcome], dialect: Dialect) -> Iterator[Definition]:
        """What rows will have that come after a statement which left this."""
        rules = self._settings.rules
        for schema, name, state in outcomes:
            if isinstance(state, Defined) and self._wanted(schema, name) and rules.wants(schema, name):
                with suppress(NotUnderstood):
                    keep = [rules.keeps(schema, name, column.name) for column in state.columns]
                    yield kept(definition(state, dialect), keep)

    def _where(self, timestamp: int) -> Where:
        return Where(self._reader.seq, timestamp, self._reader.file, self._reader.offset, self._reader.gtid)

    def _due(self, roll: bool) -> bool:
        if self._gathered_at is None:
            return False
        if roll or self._gathering.bytes >= self._settings.roll_bytes:
            return True
        if self._place is None or self._reader.identity != self._place.identity:
            return True  # snapshots wait to be told of another source
        return time.monotonic() - self._gathered_at >= self._settings.roll_seconds

    def _seal(self) -> None:
        self._gathering.seal(self._storage, f"{self._generation:x}", self._alive)

    def _commit(self, gap: Gap | None = None) -> bool:
        """Seal and commit everything up to the reader's position, which is between transactions.

        False: all was begun anew from the last commit, since the snapshot gave a table columns that the files lack.
        """
        self._seal()
        place = self._here()
        gathering = self._gathering
        while True:
            try:
                state = self._log.commit(
                    "export",
                    place=place,
                    add=gathering.files,
                    versions=gathering.versions,
                    markers=gathering.markers,
                    gap=gap,
                )
                break
            except Conflict as conflict:
                if any(commit.writer == "export" for commit in conflict.commits):
                    raise RelayError(
                        StopCode.LAKE_CONFLICT, "export to the lake", "another exporter writes to it",
                        position=self._storage.url(),
                    ) from None  # fmt: skip
                if not gathering.stands(self._log.state().tables):
                    self._begin()
                    return False
        self._place = place
        self._gathered_at = None
        self._waits_since = 0.0
        self._files += len(gathering.files)
        self._written += sum(file.rows for file in gathering.files)
        self._bytes += sum(file.bytes for file in gathering.files)
        self._gathering = Gathering(state.tables, self._settings.positional)
        return True

    def _here(self) -> Place:
        reader, before = self._reader, self._place  # a reader that was just opened knows of no transaction
        return Place(
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
        assert self._place is not None
        level = self._read_to >= flushed
        behind = 0.0
        if not level or self._place.position < self._reader.position:
            self._waits_since = self._waits_since or time.time()
            catching_up = not level and self._reader.timestamp
            behind = min(self._waits_since, self._reader.timestamp) if catching_up else self._waits_since
        return Progress(
            place=self._place,
            read=self._reader.position,
            flushed=flushed,
            level=level,
            behind_since=behind,
            rows=self._rows,
            written=self._written,
            files=self._files,
            bytes=self._bytes,
        )
