"""The journal's side: its transactions as places in the source's binlog, and their rows.

Reads only, beside a relay that writes or without one. Retention may delete what has not been read yet: that is a step
with a reason, and the reading goes on behind it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from relay._native import JournalError, JournalReader
from relay.binlog.place import Place
from relay.errors import RelayError, StopCode
from relay.journal import frames
from relay.verify.sides import OurRows, Step, Table, as_table

_UNRESOLVED: Final = 2**64 - 1  # link of a TABLE frame whose proof is still awaited
_FRAME_HEADER: Final = 8
_END: Final = 2**63
_MOST_TABLES: Final = 4096
_TAKING_BACK_SECONDS: Final = 0.1
RETIRED: Final = "retention deleted it from the journal meanwhile"
TORN: Final = "its transaction begins in a part of the journal that is gone"


class Journal:
    """Reads the journal in a folder. Raises `RelayError` (journal_lost, journal_corrupt)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = JournalReader(folder)
        self._tables: dict[int, Table] = {}

    def segments(self) -> list[tuple[int, frames.Source]]:
        """Journal position of each segment, oldest first, and the state of the source at its beginning."""
        found = []
        reader = JournalReader(self._folder)
        for base in sorted(int(path.stem) for path in self._folder.glob("*.seg")):
            try:
                source = frames.decode(reader.frame(base)[1])
            except JournalError as error:
                if self._retired(error, base):
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
        """The steps from a segment's beginning, or after another step, to `until` or the journal's end.

        The end is behind the last transaction that is whole; what waits for the proof of a definition is not yet there.
        """
        walk = _Walk(start if isinstance(start, Step) else None)
        boundary = at = start.end if isinstance(start, Step) else start
        doubted = -1
        while at < until:
            try:
                for position, payload in self._reader.frames(at, until):
                    at = position + _FRAME_HEADER + ((len(payload) + 7) & ~7)
                    frame = frames.decode(payload)
                    if isinstance(frame, frames.Rows) and not self._is_resolved(frame.table):
                        return
                    if step := walk.next(frame, position, at):
                        self._release_before(step.start)
                        yield step
                        boundary = at
                return
            except JournalError as error:
                if self._retired(error, at):
                    boundary = at = self._reader.first()
                    walk.jump()
                elif error.code is StopCode.JOURNAL_LOST:
                    return  # nothing was written yet
                elif doubted == boundary:
                    raise
                else:  # a transaction that is taken back looks damaged for a moment
                    time.sleep(_TAKING_BACK_SECONDS)
                    doubted = at = boundary
                    walk.back()

    def between(self, first: Step, last: Step) -> Iterator[Step]:
        """The steps after `first`, up to and with `last` or what is left of them."""
        reached = first
        for reached in self.steps(first, last.end):
            yield reached
        if reached.end < last.end:
            yield last._replace(start=last.end, rows=0, lost=RETIRED)

    def rows(self, step: Step) -> Iterator[OurRows]:
        """The rows events of the step that `steps` gave last."""
        for position, payload in self._reader.frames(step.start, step.end):
            frame = frames.decode(payload)
            if isinstance(frame, frames.Rows):
                place = Place(step.place.file, frame.end_position)
                yield OurRows(position, place, frame.kind, frame.rows, self._table(frame.table), frame.body)

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
        """Keep nothing mapped that is not needed any more: what retention deletes would stay on the disk."""
        self._reader.release_before(position)
        if len(self._tables) > _MOST_TABLES:
            self._tables.clear()

    def _retired(self, error: JournalError, position: int) -> bool:
        return error.code is StopCode.JOURNAL_LOST and position < self._reader.first()


class _Walk:
    """Makes steps of frames."""

    def __init__(self, after: Step | None) -> None:
        self._place = after.place if after else None
        self._identity = after.identity if after else ""
        self._sequence: int | None = None  # of the next change of a segment whose first transaction has not ended
        self._start: int | None = None  # of what has not ended
        self._rows = 0
        self._lost = ""

    def jump(self) -> None:
        """What comes next is the beginning of a segment further on."""
        self._place = self._start = None
        self._rows = 0
        self._lost = RETIRED

    def back(self) -> None:
        """What comes next is what follows the last step, once more."""
        self._start = None
        self._rows = 0

    def next(self, frame: frames.Frame, position: int, end: int) -> Step | None:
        """The step that the frame ends, if it does."""
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
                assert self._place is not None
                self._expect(frame.sequence, 0)
                self._sequence = None
                return self._step(Place(self._place.file, frame.position), end, frame.gtid)
            case frames.File():
                return self._step(Place(frame.file, frame.position), end)
            case frames.Gap():
                self._lost = f"a gap that was accepted: {frame.reason}"
            case _:
                pass
        return None

    def _expect(self, sequence: int, rows: int) -> None:
        """A segment may begin within a transaction whose first rows stood in one that is gone."""
        if self._sequence is not None:
            if sequence > self._sequence:
                self._lost = TORN
            self._sequence = sequence + rows

    def _source(self, frame: frames.Source, end: int) -> Step | None:
        place = Place(frame.file, frame.position)
        if self._place is None:
            self._sequence = frame.sequence
        elif (place, frame.identity) == (self._place, self._identity):
            return None  # it only opens a segment
        self._identity = frame.identity
        return self._step(place, end)

    def _step(self, place: Place, end: int, gtid: str = "") -> Step:
        assert self._start is not None
        step = Step(place, self._start, end, self._identity, self._rows, gtid, self._lost)
        self._place, self._start, self._rows, self._lost = place, None, 0, ""
        return step
