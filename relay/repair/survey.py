"""Find the damaged parts of a journal and the transactions around them. The walk continues after damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from relay._native import GtidSet
from relay.binlog.events.position import BinlogPosition
from relay.journal import frames
from relay.repair.parts import Mark, Segment, frame_size


class State(NamedTuple):
    """A state between transactions: journal position, binlog position and GTIDs, and the number of the next change.

    `certain` is False after damage: then only the changes since the damage are known.
    """

    position: int
    binlog: BinlogPosition
    gtid_set: str
    identity: str
    sequence: int
    certain: bool = True

    def after(self, frame: frames.Frame, position: int) -> State | None:
        """Return the state after a frame that ends at `position`; None if no transaction can end there."""
        match frame:
            case frames.Commit():
                gtids = GtidSet(self.gtid_set)
                if frame.gtid:
                    gtids.add(frame.gtid)
                binlog = BinlogPosition(self.binlog.file, frame.position)
                return self._replace(position=position, binlog=binlog, gtid_set=str(gtids), sequence=frame.sequence)
            case frames.File():
                return self._replace(position=position, binlog=BinlogPosition(frame.file, frame.position))
            case frames.Gap():
                return self._replace(position=position)
            case frames.Source():
                binlog = BinlogPosition(frame.file, frame.position)
                return State(position, binlog, frame.gtid_set, frame.identity, frame.sequence, self.certain)
            case _:
                return None


_UNKNOWN = State(0, BinlogPosition("", 0), "", "", 1, False)


class Damage(NamedTuple):
    """A part that cannot be read: its first frame is at `start`, in the segment with index `segment`.

    `before` is the state after the last whole transaction, `begin` that after the first one in the same segment. `end`
    is the journal position after the next whole transaction, and `last` its GTID or position as text. `tables` are the
    TABLE frames before it in its segment, by position.
    """

    start: int
    segment: int
    begin: State
    before: State
    end: int
    last: str
    tables: dict[int, frames.Table]


class Survey:
    """Walk a journal's segments up to `limit`, the position that is on disk."""

    def __init__(self, segments: list[Segment], limit: int, show: Callable[[int], None]) -> None:
        self._segments = segments
        self._limit = limit
        self._show = show

    def damages(self) -> Iterator[Damage]:
        """Yield each damage in order. The caller may repair it before it takes the next: the walk reads it again."""
        index = 0
        state = _UNKNOWN
        known = False  # whether `state` is that of the current position
        position = self._segments[0].first
        tables = dict[int, frames.Table]()
        begin = state
        boundary = index, position, dict(tables)
        given_up = -1
        while position < self._limit:
            segment = self._segments[index]
            read = segment.read(position)
            if read is Mark.NEXT and index + 1 < len(self._segments):
                index, position = index + 1, self._segments[index + 1].first
                tables = {}
                self._show(position)
                continue
            if isinstance(read, bytes):
                end = position + frame_size(len(read))
                frame = frames.decode(read)
                if isinstance(frame, frames.Table):
                    tables[position] = frame
                opens = position == segment.first and isinstance(frame, frames.Source)
                if not (opens and known) and (after := state.after(frame, end)):
                    state = after._replace(certain=known or isinstance(frame, frames.Source))
                    known = state.certain
                    if boundary[0] != index or isinstance(frame, frames.Source) or not begin.certain:
                        begin = state
                    boundary = index, end, dict(tables)
                position = end
                continue
            found = self._next_transaction_end(index, position)
            if position != given_up:
                given_up = position
                yield Damage(position, index, begin, state, found.position, found.text, boundary[2])
                index, position, tables = boundary[0], boundary[1], dict(boundary[2])
                continue
            index, position, tables = found.segment, found.position, {}
            state = state._replace(position=position, certain=False)
            known = False
            boundary, begin = (index, position, {}), state

    def _next_transaction_end(self, index: int, position: int) -> _TransactionEnd:
        """Return the end of the first whole transaction after a damaged frame."""
        while True:
            segment = self._segments[index]
            for at in segment.whole_frames_after(position):
                if found := self._transaction_end(index, at):
                    return found
            if index + 1 == len(self._segments) or self._segments[index + 1].base >= self._limit:
                return _TransactionEnd(index, self._limit, "the journal's end")
            index, position = index + 1, self._segments[index + 1].base

    def _transaction_end(self, index: int, position: int) -> _TransactionEnd | None:
        """Return the end of the transaction that continues with a whole frame, if all its further frames are whole."""
        while position < self._limit:
            segment = self._segments[index]
            read = segment.read(position)
            if read is Mark.NEXT and index + 1 < len(self._segments):
                index, position = index + 1, self._segments[index + 1].first
                continue
            if not isinstance(read, bytes):
                return None
            frame = frames.decode(read)
            opens = position == segment.first
            position += frame_size(len(read))
            match frame:
                case frames.Commit():
                    return _TransactionEnd(index, position, frame.gtid or f"the one that ends at {frame.position}")
                case frames.File() | frames.Gap():
                    return _TransactionEnd(index, position, f"the change to {frame.file}")
                case frames.Source() if not opens:
                    return _TransactionEnd(index, position, f"the beginning at {frame.file}:{frame.position}")
                case _:
                    pass
        return None


class _TransactionEnd(NamedTuple):
    segment: int
    position: int
    text: str


def last_boundary(segment: Segment) -> int:
    """Return the end of the last transaction in a segment and of the definitions proven since.

    Without one, that is the segment's beginning.
    """
    found, ended = segment.base, False
    for position in segment.whole_frames_after(segment.base):
        read = segment.read(position)
        frame = frames.decode(read) if isinstance(read, bytes) else None
        ended = isinstance(frame, frames.Commit | frames.File | frames.Gap) or (
            ended and isinstance(frame, frames.Table)
        )
        if ended and isinstance(read, bytes):
            found = position + frame_size(len(read))
    return found
