"""What of a journal is damaged, and between which transactions: a walk that goes on behind the damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from relay._native import GtidSet
from relay.binlog.place import Place
from relay.journal import frames
from relay.repair.parts import Mark, Segment, frame_size


class State(NamedTuple):
    """Between two transactions: the journal position, what comes next in the binlog, and the next change's number.

    Not `certain`: behind damage, where only what was met since is known.
    """

    position: int
    place: Place
    gtid_set: str
    identity: str
    sequence: int
    certain: bool = True

    def after(self, frame: frames.Frame, position: int) -> State | None:
        """The state behind a frame that ends at `position`, if one can end there."""
        match frame:
            case frames.Commit():
                gtids = GtidSet(self.gtid_set)
                if frame.gtid:
                    gtids.add(frame.gtid)
                place = Place(self.place.file, frame.position)
                return self._replace(position=position, place=place, gtid_set=str(gtids), sequence=frame.sequence)
            case frames.File():
                return self._replace(position=position, place=Place(frame.file, frame.position))
            case frames.Gap():
                return self._replace(position=position)
            case frames.Source():
                place = Place(frame.file, frame.position)
                return State(position, place, frame.gtid_set, frame.identity, frame.sequence, self.certain)
            case _:
                return None


NOWHERE = State(0, Place("", 0), "", "", 1, False)


class Damage(NamedTuple):
    """A stretch that cannot be read: its first frame stands at `start`, in the segment with that index.

    `before` is the state after the last whole transaction, `begin` that after the first one in the same segment, `end`
    the journal position after the first one that is whole again, `last` its GTID or place in words. `tables` are the
    TABLE frames of the segment that stand in front, by position.
    """

    start: int
    segment: int
    begin: State
    before: State
    end: int
    last: str
    tables: dict[int, frames.Table]


class Survey:
    """Walks a journal's segments up to `limit`, the position that was on disk."""

    def __init__(self, segments: list[Segment], limit: int, show: Callable[[int], None]) -> None:
        self._segments = segments
        self._limit = limit
        self._show = show

    def damages(self) -> Iterator[Damage]:
        """Each in its order. Whoever repairs one before asking for the next has the walk go on within it."""
        index = 0
        state = NOWHERE
        known = False  # whether `state` is that of the place where the walk is
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
            found = self._behind(index, position)
            if position != given_up:
                given_up = position
                yield Damage(position, index, begin, state, found.position, found.text, boundary[2])
                index, position, tables = boundary[0], boundary[1], dict(boundary[2])
                continue
            index, position, tables = found.segment, found.position, {}
            state = state._replace(position=position, certain=False)
            known = False
            boundary, begin = (index, position, {}), state

    def _behind(self, index: int, position: int) -> _Behind:
        """The end of the first transaction that is whole behind a damaged frame."""
        while True:
            segment = self._segments[index]
            for at in segment.after(position):
                if found := self._ended(index, at):
                    return found
            if index + 1 == len(self._segments) or self._segments[index + 1].base >= self._limit:
                return _Behind(index, self._limit, "the journal's end")
            index, position = index + 1, self._segments[index + 1].base

    def _ended(self, index: int, position: int) -> _Behind | None:
        """The end of the transaction that goes on with a whole frame, if all frames up to it are whole."""
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
                    return _Behind(index, position, frame.gtid or f"the one that ends at {frame.position}")
                case frames.File() | frames.Gap():
                    return _Behind(index, position, f"the change to {frame.file}")
                case frames.Source() if not opens:
                    return _Behind(index, position, f"the beginning at {frame.file}:{frame.position}")
                case _:
                    pass
        return None


class _Behind(NamedTuple):
    segment: int
    position: int
    text: str


def last_boundary(segment: Segment) -> int:
    """Where the last transaction in a segment has ended, with definitions proven since; its beginning if none has."""
    found, ended = segment.base, False
    for position in segment.after(segment.base):
        read = segment.read(position)
        frame = frames.decode(read) if isinstance(read, bytes) else None
        ended = isinstance(frame, frames.Commit | frames.File | frames.Gap) or (
            ended and isinstance(frame, frames.Table)
        )
        if ended and isinstance(read, bytes):
            found = position + frame_size(len(read))
    return found
