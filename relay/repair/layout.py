"""Fit what the source returns into the damaged parts of the journal. It computes bytes, without I/O.

Frames keep their positions, since queues, cursors and the lake refer to them. So the new frames must fill the gap
exactly, and whole frames within the gap must match the source. It may be uncertain which frames were there: a restart
repeats a table's definition, for example. Then each way is tried, and rows are written only if no other way fits.
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
_TABLE_AT: Final = 8  # in the payload of rows
_SEQUENCE_AT: Final = 36
_COMMIT_SEQUENCE_AT: Final = 17  # in the payload of a commit
_TABLE: Final = 1  # kind of a frame


class Wanted(NamedTuple):
    """A frame that the source's binlog yields again: its payload, and the payload decoded.

    Rows have a packed `definition`; `fresh` says that it was written just before them.
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
    """The progress of one way to fill the gap: `segment` is an index; `done` counts the placed frames."""

    position: int
    segment: int
    done: int
    tables: tuple[tuple[int, bytes], ...]  # of this segment: position, packed definition
    writes: tuple[object, ...] = ()  # the last one and those before it, nested
    rows: tuple[object, ...] = ()  # positions of rows, nested likewise
    odd: bool = False  # not as a single writer writes it, so there may be another way


class Context(NamedTuple):
    """The context of a wanted frame: the state after the last whole transaction, and the number of the next change."""

    state: State
    sequence: int


class Mismatch(Exception):
    """What the source returns does not fill the gap; the text says why."""


class Layout:
    """One gap from `before` to `end`, in `segments`; `tables` are the TABLE frames before it in its segment."""

    def __init__(
        self, segments: Sequence[Segment], segment: int, before: State, end: int, tables: Mapping[int, frames.Table]
    ) -> None:
        self._segments = segments
        self._first = segment
        self._before = before
        self._end = end
        self._tables = tables
        self._gap = 0, 0  # two positions between which there is no whole frame

    def fill(self, wanted: Sequence[Wanted]) -> list[Write]:
        """Return the writes that fill the gap; `wanted` begins after `before`. Raises `Mismatch`."""
        known = list(contexts(self._before, wanted))
        tables = tuple((position, self._definition(table)) for position, table in self._tables.items())
        ways = [_Way(self._before.position, self._first, 0, tables)]
        found: _Way | None = None
        furthest = self._before.position
        for _ in range(_MOST_TRIES):
            if not ways or (found and not found.odd):
                break
            way = ways.pop()
            furthest = max(furthest, way.position)
            if way.position == self._end and way.done and _may_end_after(wanted[way.done - 1].frame):
                if found and found.rows != way.rows:
                    raise Mismatch("its original layout is ambiguous")
                found = found or way
            elif way.position < self._end:
                following = wanted[way.done] if way.done < len(wanted) else None
                ways += reversed(list(self._next(way, following, known[way.done])))
        if found is None or (ways and found.odd):
            where = next(segment for segment in reversed(self._segments) if segment.base <= furthest).where(furthest)
            raise Mismatch(f"the events of the source do not fit into it; they fit up to {where}")
        return [write for write in _unrolled(found.writes) if isinstance(write, Write)]

    def _next(self, way: _Way, wanted: Wanted | None, context: Context) -> Iterator[_Way]:
        """Yield the possible continuations of a way, the most likely first."""
        segment = self._segments[way.segment]
        read = segment.read(way.position)
        if way.position == segment.first:
            data = b"" if isinstance(read, bytes) else frame(_source(context.state))
            yield self._put(way, frame_size(len(read)) if isinstance(read, bytes) else len(data), data, counts=False)
            return
        if isinstance(read, bytes):
            yield from self._pass_whole(way, read, wanted, context)
            return
        if read is Mark.NEXT and way.segment + 1 < len(self._segments):
            following = self._segments[way.segment + 1]
            yield way._replace(position=following.first, segment=way.segment + 1, tables=())
        if wanted is None:
            return
        # A whole frame is never overwritten. At a segment's end, only its mark shows where the frames ended.
        until = min(self._whole_after(segment, way.position), self._end)
        for number, pieces in enumerate(self._pieces(way, wanted, context)):
            candidate = way._replace(odd=way.odd or number > 0)
            for piece in pieces:
                data = frame(piece)
                table = piece[1] == _TABLE
                candidate = self._put(candidate, len(data), data, counts=not table, table=piece if table else b"")
            if candidate.position <= until:
                yield candidate

    def _pass_whole(self, way: _Way, read: bytes, wanted: Wanted | None, context: Context) -> Iterator[_Way]:
        """Pass a whole frame, if it matches the wanted one."""
        found, size = frames.decode(read), frame_size(len(read))
        if isinstance(found, frames.Table):
            yield self._put(way, size, b"", counts=False, table=read)
        elif wanted is not None and _matches(found, read, wanted, context.sequence):
            known = dict(way.tables)
            if not isinstance(found, frames.Rows) or known.get(found.table) == wanted.definition:
                yield self._put(way, size, b"")

    def _pieces(self, way: _Way, wanted: Wanted, context: Context) -> Iterator[list[bytes]]:
        """Yield the payloads that may have been here. The first ones are as a single writer writes them."""
        payload = wanted.payload
        if isinstance(wanted.frame, frames.Rows):
            payload = _with(payload, _SEQUENCE_AT, context.sequence)
            known = [position for position, packed in way.tables if packed == wanted.definition][-1:]
            known_table = [[_with(payload, _TABLE_AT, position)] for position in known]
            size = struct.pack(">I", len(wanted.definition))
            table = bytes((0x93, _TABLE, 0xCF)) + bytes(8) + b"\xc6" + size + wanted.definition
            new_table = [[table, _with(payload, _TABLE_AT, way.position)]]
            yield from new_table + known_table if wanted.fresh else known_table + new_table
        elif isinstance(wanted.frame, frames.Commit):
            payload = _with(payload, _COMMIT_SEQUENCE_AT, context.sequence)
            yield [payload]
            if payload[0] == 0x96:  # the form in older journals, without a server
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
        """Return the position of the next whole frame, or the segment's end."""
        if not self._gap[0] <= position < self._gap[1]:
            self._gap = position, next(segment.whole_frames_after(position), segment.end)
        return self._gap[1]

    def _definition(self, table: frames.Table) -> bytes:
        """Return the definition that replaced this one, if it can be read."""
        while table.link not in (0, _UNRESOLVED):
            segment = next((one for one in reversed(self._segments) if one.base <= table.link), None)
            read = segment.read(table.link) if segment else Mark.END
            linked = frames.decode(read) if isinstance(read, bytes) else None
            if not isinstance(linked, frames.Table):
                break
            table = linked
        return table.definition


def contexts(before: State, wanted: Sequence[Wanted]) -> Iterator[Context]:
    """Yield the context of each wanted frame, and that after the last; `before` is the state before the first."""
    context = Context(before, before.sequence)
    yield context
    for each in wanted:
        match each.frame:
            case frames.Rows():
                context = context._replace(sequence=context.sequence + each.frame.rows)
            case frames.Ddl():
                context = context._replace(sequence=context.sequence + 1)
            case _ if after := context.state.after(each.frame, 0):
                context = Context(after._replace(sequence=context.sequence), context.sequence)
        yield context


def _matches(found: frames.Frame, read: bytes, wanted: Wanted, sequence: int) -> bool:
    match found, wanted.frame:
        case frames.Rows(), frames.Rows():
            # Ignore the position of the definition, and the number, which differs in the second journal.
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
    """Return the payload of the SOURCE frame that opens a segment in this state."""
    texts = (state.binlog.file, state.gtid_set, state.identity)
    return (
        b"\x96\x05\xcf" + struct.pack(">Q", state.binlog.position) + b"\xcf" + struct.pack(">Q", state.sequence)
        + b"".join(b"\xdb" + struct.pack(">I", len(text.encode())) + text.encode() for text in texts)
    )  # fmt: skip


def _may_end_after(last: frames.Frame) -> bool:
    """Whether a gap may end after this frame."""
    return isinstance(last, frames.Commit | frames.File | frames.Gap)


def _unrolled(nested: tuple[object, ...]) -> list[object]:
    found = list[object]()
    while nested:
        rest, last = nested
        assert isinstance(rest, tuple)
        found.append(last)
        nested = rest
    return found[::-1]
