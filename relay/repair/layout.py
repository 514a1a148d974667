"""Puts what the source tells again in the place of what is damaged: a decision about bytes, without I/O.

Frames keep their positions, since queues, cursors and the lake hold them. So what is written has to fill the gap
exactly, and what is still whole within it has to be the same that the source tells. Where it is not certain which
frames stood there, as with a table's definition that was told once more after a restart, each way is tried, and rows
are put where no other way fits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from relay.journal import frames
from relay.repair.parts import Mark, Segment, frame, frame_size
from relay.repair.survey import State

_MOST_TRIES: Final = 50_000
_UNRESOLVED: Final = 2**64 - 1
_TABLE_AT: Final = 8  # in the payload of rows,
_SEQUENCE_AT: Final = 36
_COMMIT_SEQUENCE_AT: Final = 17  # and of a commit
_TABLE: Final = 1  # a kind of frame


class Wanted(NamedTuple):
    """What the source tells again: a frame's payload, decoded.

    Of rows there is the packed definition; `fresh`: it was written just before them.
    """

    payload: bytes
    frame: frames.Frame
    definition: bytes = b""
    fresh: bool = False


class Write(NamedTuple):
    """Bytes for a journal position."""

    position: int
    data: bytes


class _Way(NamedTuple):
    """How far one way of filling the gap has come. `segment` is an index; `done` of what is wanted has its place."""

    position: int
    segment: int
    done: int
    tables: tuple[tuple[int, bytes], ...]  # of this segment: position, packed definition
    writes: tuple[object, ...] = ()  # the last one and those before it, nested
    rows: tuple[object, ...] = ()  # positions of rows, in the same way
    odd: bool = False  # not as one writer writes it, so that there may be another way


class _Here(NamedTuple):
    """Before something that is wanted: the state after the last whole transaction, and the next change's number."""

    state: State
    sequence: int


class Misfit(Exception):
    """Why what the source tells does not fill the gap."""


class Layout:
    """One gap: from `before` to `end`, in `segments`, with the TABLE frames that stand before it in its segment."""

    def __init__(
        self, segments: Sequence[Segment], segment: int, before: State, end: int, tables: Mapping[int, frames.Table]
    ) -> None:
        self._segments = segments
        self._first = segment
        self._before = before
        self._end = end
        self._tables = tables
        self._gap = 0, 0  # between two positions that were looked at there is no whole frame

    def fill(self, wanted: Sequence[Wanted]) -> list[Write]:
        """What has to be written where; `wanted` begins behind `before`. Raises `Misfit`."""
        places = list(_places(self._before, wanted))
        tables = tuple((position, self._definition(table)) for position, table in self._tables.items())
        ways = [_Way(self._before.position, self._first, 0, tables)]
        found: _Way | None = None
        furthest = self._before.position
        for _ in range(_MOST_TRIES):
            if not ways or (found and not found.odd):
                break
            way = ways.pop()
            furthest = max(furthest, way.position)
            if way.position == self._end and way.done and _ends(wanted[way.done - 1].frame):
                if found and found.rows != way.rows:
                    raise Misfit("there is more than one way in which it may have stood here")
                found = found or way
            elif way.position < self._end:
                following = wanted[way.done] if way.done < len(wanted) else None
                ways += reversed(list(self._next(way, following, places[way.done])))
        if found is None or (ways and found.odd):
            where = next(segment for segment in reversed(self._segments) if segment.base <= furthest).where(furthest)
            raise Misfit(f"what the source tells does not fit into it; it does up to {where}")
        return [write for write in _unrolled(found.writes) if isinstance(write, Write)]

    def _next(self, way: _Way, wanted: Wanted | None, here: _Here) -> Iterator[_Way]:
        """The ways to go on, the likeliest first."""
        segment = self._segments[way.segment]
        read = segment.read(way.position)
        if way.position == segment.first:
            data = b"" if isinstance(read, bytes) else frame(_source(here.state))
            yield self._put(way, frame_size(len(read)) if isinstance(read, bytes) else len(data), data, counts=False)
            return
        if isinstance(read, bytes):
            yield from self._whole(way, read, wanted, here)
            return
        if read is Mark.NEXT and way.segment + 1 < len(self._segments):
            following = self._segments[way.segment + 1]
            yield way._replace(position=following.first, segment=way.segment + 1, tables=())
        if wanted is None:
            return
        # What is whole is never overwritten. At a segment's end only its mark tells how far the frames went.
        until = min(self._whole_after(segment, way.position), self._end)
        for number, pieces in enumerate(self._pieces(way, wanted, here)):
            going = way._replace(odd=way.odd or number > 0)
            for piece in pieces:
                data = frame(piece)
                table = piece[1] == _TABLE
                going = self._put(going, len(data), data, counts=not table, table=piece if table else b"")
            if going.position <= until:
                yield going

    def _whole(self, way: _Way, read: bytes, wanted: Wanted | None, here: _Here) -> Iterator[_Way]:
        """Past a frame that is whole, if it is what is wanted here."""
        found, size = frames.decode(read), frame_size(len(read))
        if isinstance(found, frames.Table):
            yield self._put(way, size, b"", counts=False, table=read)
        elif wanted is not None and _same(found, read, wanted, here.sequence):
            known = dict(way.tables)
            if not isinstance(found, frames.Rows) or known.get(found.table) == wanted.definition:
                yield self._put(way, size, b"")

    def _pieces(self, way: _Way, wanted: Wanted, here: _Here) -> Iterator[list[bytes]]:
        """The payloads that may stand where this is wanted; first, as one writer writes them."""
        payload = wanted.payload
        if isinstance(wanted.frame, frames.Rows):
            payload = _with(payload, _SEQUENCE_AT, here.sequence)
            known = [position for position, packed in way.tables if packed == wanted.definition][-1:]
            plain = [[_with(payload, _TABLE_AT, position)] for position in known]
            size = struct.pack(">I", len(wanted.definition))
            table = bytes((0x93, _TABLE, 0xCF)) + bytes(8) + b"\xc6" + size + wanted.definition
            told = [[table, _with(payload, _TABLE_AT, way.position)]]
            yield from told + plain if wanted.fresh else plain + told
        elif isinstance(wanted.frame, frames.Commit):
            payload = _with(payload, _COMMIT_SEQUENCE_AT, here.sequence)
            yield [payload]
            if payload[0] == 0x96:  # as journals had it before there was a server in it
                yield [b"\x95" + payload[1:-5]]
        else:
            yield [payload]

    def _put(self, way: _Way, size: int, data: bytes, *, counts: bool = True, table: bytes = b"") -> _Way:
        tables = way.tables
        if table:
            decoded = frames.decode(table)
            assert isinstance(decoded, frames.Table)
            tables = (*tables, (way.position, self._definition(decoded)))
        return way._replace(
            position=way.position + size,
            done=way.done + counts,
            tables=tables,
            writes=(way.writes, Write(way.position, data)) if data else way.writes,
            rows=(way.rows, way.position) if counts else way.rows,
        )

    def _whole_after(self, segment: Segment, position: int) -> int:
        """Where the next whole frame stands, the segment's end if there is none."""
        if not self._gap[0] <= position < self._gap[1]:
            self._gap = position, next(segment.after(position), segment.end)
        return self._gap[1]

    def _definition(self, table: frames.Table) -> bytes:
        """The one that replaced it, if that can be read."""
        while table.link not in (0, _UNRESOLVED):
            segment = next((one for one in reversed(self._segments) if one.base <= table.link), None)
            read = segment.read(table.link) if segment else Mark.END
            linked = frames.decode(read) if isinstance(read, bytes) else None
            if not isinstance(linked, frames.Table):
                break
            table = linked
        return table.definition


def _places(before: State, wanted: Sequence[Wanted]) -> Iterator[_Here]:
    """Before each of them, and after the last."""
    here = _Here(before, before.sequence)
    yield here
    for each in wanted:
        match each.frame:
            case frames.Rows():
                here = here._replace(sequence=here.sequence + each.frame.rows)
            case frames.Ddl():
                here = here._replace(sequence=here.sequence + 1)
            case _ if after := here.state.after(each.frame, 0):
                here = _Here(after._replace(sequence=here.sequence), here.sequence)
        yield here


def _same(found: frames.Frame, read: bytes, wanted: Wanted, sequence: int) -> bool:
    match found, wanted.frame:
        case frames.Rows(), frames.Rows():
            # All but the position of its definition, and its number, which is not the one of the second journal.
            ours, theirs = _with(read, _TABLE_AT, 0), _with(wanted.payload, _TABLE_AT, 0)
            return ours == _with(theirs, _SEQUENCE_AT, sequence)
        case frames.Commit(), frames.Commit():
            there = wanted.frame
            return (found.position, found.gtid, found.sequence) == (there.position, there.gtid, sequence)
        case _:
            return read == wanted.payload


def _with(payload: bytes, at: int, number: int) -> bytes:
    return payload[:at] + struct.pack(">Q", number) + payload[at + 8 :]


def _source(state: State) -> bytes:
    """The payload of the SOURCE frame that opens a segment in this state."""
    texts = (state.place.file, state.gtid_set, state.identity)
    return (
        b"\x96\x05\xcf" + struct.pack(">Q", state.place.position) + b"\xcf" + struct.pack(">Q", state.sequence)
        + b"".join(b"\xdb" + struct.pack(">I", len(text.encode())) + text.encode() for text in texts)
    )  # fmt: skip


def _ends(last: frames.Frame) -> bool:
    """Whether a gap may end behind this one."""
    return isinstance(last, frames.Commit | frames.File | frames.Gap)


def _unrolled(nested: tuple[object, ...]) -> list[object]:
    found = list[object]()
    while nested:
        rest, last = nested
        assert isinstance(rest, tuple)
        found.append(last)
        nested = rest
    return found[::-1]
