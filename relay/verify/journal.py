"""The journal's side: its transactions as positions in the source's binlog, and their rows.

It only reads, with or without a running relay. Retention may delete segments before they are read: then a step with
the reason takes their place, and reading continues after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from relay._native import JournalError, JournalReader
from relay.base.errors import RelayError, StopCode
from relay.binlog.events.position import BinlogPosition
from relay.journal import frames
from relay.verify.sides import JournalRows, Step, Table, as_table

_UNRESOLVED: Final = 2**64 - 1  # link of a TABLE frame whose definition is not proven yet
_FRAME_HEADER: Final = 8
_END: Final = 2**63
_MOST_TABLES: Final = 4096
_ROLLBACK_SECONDS: Final = 0.1
RETIRED: Final = "retention deleted it from the journal meanwhile"
TORN: Final = "its transaction begins in a deleted part of the journal"


class Journal:
    """Read the journal in a folder. Raises `RelayError` (journal_lost, journal_corrupt)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = JournalReader(folder)
        self._tables: dict[int, Table] = {}

    def segments(self) -> list[tuple[int, frames.Source]]:
        """Return the journal position of each segment, oldest first, and the state of the source at its beginning."""
        found = []
        reader = JournalReader(self._folder)
        for base in sorted(int(path.stem) for path in self._folder.glob("*.seg")):
            try:
                source = frames.decode(reader.frame(base)[1])
            except JournalError as error:
                if self._is_deleted(error, base):
                    continue
                raise
            assert isinstance(source, frames.Source)
            found.append((base, source))
        if not found:
            raise RelayError(
                StopCode.JOURNAL_LOST, "read the journal", "there is none", position=str(self._folder),
                hint="name the relay's configuration with -c",
            )  # fmt: skip
        return found

    def steps(self, start: int | Step, until: int = _END) -> Iterator[Step]:
        """Yield the steps from a segment's beginning, or after another step, to `until` or the journal's end.

        The journal's end is the end of the last whole transaction before rows whose definition is not proven yet.
        """
        builder = _StepBuilder(start if isinstance(start, Step) else None)
        boundary = at = start.end if isinstance(start, Step) else start
        retried = -1
        while at < until:
            try:
                for position, payload in self._reader.frames(at, until):
                    at = position + _FRAME_HEADER + ((len(payload) + 7) & ~7)
                    frame = frames.decode(payload)
                    if isinstance(frame, frames.Rows) and not self._is_resolved(frame.table):
                        return
                    if step := builder.next(frame, position, at):
                        self._release_before(step.start)
                        yield step
                        boundary = at
                return
            except JournalError as error:
                if self._is_deleted(error, at):
                    boundary = at = self._reader.first()
                    builder.skip_deleted()
                elif error.code is StopCode.JOURNAL_LOST:
                    return  # nothing is written yet
                elif retried == boundary:
                    raise
                else:  # a transaction that is being rolled back looks damaged for a moment
                    time.sleep(_ROLLBACK_SECONDS)
                    retried = at = boundary
                    builder.rewind()

    def between(self, first: Step, last: Step) -> Iterator[Step]:
        """Yield the steps after `first`, up to and including `last`, or its rest if retention deletes it."""
        reached = first
        for reached in self.steps(first, last.end):
            yield reached
        if reached.end < last.end:
            yield last._replace(start=last.end, rows=0, lost=RETIRED)

    def rows(self, step: Step) -> Iterator[JournalRows]:
        """Yield the rows events of the step that `steps` yielded last."""
        for at, payload in self._reader.frames(step.start, step.end):
            frame = frames.decode(payload)
            if isinstance(frame, frames.Rows):
                position = BinlogPosition(step.position.file, frame.end_position)
                yield JournalRows(at, position, frame.kind, frame.rows, self._table(frame.table), frame.body)

    def _table(self, position: int) -> Table:
        if position not in self._tables:
            frame = self._table_frame(position)
            while frame.link:
                frame = self._table_frame(frame.link)
            self._tables[position] = as_table(frame.definition)
        return self._tables[position]

    def _is_resolved(self, position: int) -> bool:
        return self._table_frame(position).link != _UNRESOLVED

    def _table_frame(self, position: int) -> frames.Table:
        frame = frames.decode(self._reader.frame(position)[1])
        assert isinstance(frame, frames.Table)
        return frame

    def _release_before(self, position: int) -> None:
        """Unmap what is not needed any more: a mapped segment stays on disk after retention deletes it."""
        self._reader.release_before(position)
        if len(self._tables) > _MOST_TABLES:
            self._tables.clear()

    def _is_deleted(self, error: JournalError, position: int) -> bool:
        return error.code is StopCode.JOURNAL_LOST and position < self._reader.first()


class _StepBuilder:
    """Combine frames into steps."""

    def __init__(self, after: Step | None) -> None:
        self._position = after.position if after else None
        self._identity = after.identity if after else ""
        self._sequence: int | None = None  # of the next change in a segment whose first transaction has not ended
        self._start: int | None = None  # of the unfinished step
        self._rows = 0
        self._lost = ""

    def skip_deleted(self) -> None:
        """Continue at the beginning of a later segment, since retention deleted the rest of this one."""
        self._position = self._start = None
        self._rows = 0
        self._lost = RETIRED

    def rewind(self) -> None:
        """Continue after the last step again."""
        self._start = None
        self._rows = 0

    def next(self, frame: frames.Frame, position: int, end: int) -> Step | None:
        """Return the step that the frame ends, None if it ends none."""
        if self._start is None:
            self._start = position
        match frame:
            case frames.Source():
                return self._source(frame, end)
            case frames.Rows():
                self._expect(frame.sequence, frame.rows)
                self._rows += frame.rows
            case frames.Ddl() if self._sequence is not None:
                self._sequence += 1
            case frames.Commit():
                assert self._position is not None
                self._expect(frame.sequence, 0)
                self._sequence = None
                return self._step(BinlogPosition(self._position.file, frame.position), end, frame.gtid)
            case frames.File():
                return self._step(BinlogPosition(frame.file, frame.position), end)
            case frames.Gap():
                self._lost = f"an accepted gap: {frame.reason}"
        return None

    def _expect(self, sequence: int, rows: int) -> None:
        """Check the number of a change.

        A segment may begin within a transaction whose first rows are in a deleted one.
        """
        if self._sequence is not None:
            if sequence > self._sequence:
                self._lost = TORN
            self._sequence = sequence + rows

    def _source(self, frame: frames.Source, end: int) -> Step | None:
        position = BinlogPosition(frame.file, frame.position)
        if self._position is None:
            self._sequence = frame.sequence
        elif (position, frame.identity) == (self._position, self._identity):
            return None  # only opens a segment
        self._identity = frame.identity
        return self._step(position, end)

    def _step(self, position: BinlogPosition, end: int, gtid: str = "") -> Step:
        assert self._start is not None
        step = Step(position, self._start, end, self._identity, self._rows, gtid, self._lost)
        self._position, self._start, self._rows, self._lost = position, None, 0, ""
        return step
