"""Rows that an ingest put into a journal, as clients get them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow

from relay._native import Columns, JournalReader, RowImages
from relay.journal import frames
from tests.binlogs import Fed


class Journaled(NamedTuple):
    """A ROWS frame and the definition that it refers to, packed and not."""

    table: frames.Definition
    packed: bytes
    kind: int
    body: bytes

    def texts(self) -> list[tuple[dict[str, bytes | None], dict[str, bytes | None]]]:
        """Per row, the columns before and after as text by name; a side that the kind has not is empty."""
        images = RowImages(self.packed, self.kind, self.body)
        return [_sides(payload, self.kind) for payload in images.render("poll2", null_text=_NULL)]

    def typed(self) -> list[tuple[dict[str, object] | None, dict[str, object] | None]]:
        """Per row, the columns before and after as PollMany's format 1 has them."""
        images = RowImages(self.packed, self.kind, self.body)
        return [tuple(msgspec.msgpack.decode(row)[6:]) for row in images.render("msgpack")]

    def columns(self) -> pyarrow.RecordBatch:
        """Flat rows as Arrow columns."""
        columns = Columns(self.packed)
        columns.add(self.kind, self.body)
        batch = pyarrow.record_batch(columns)
        batch.validate(full=True)
        return batch


_NULL = b"\0nothing"


def journaled(fed: Fed) -> list[Journaled]:
    """Every committed ROWS frame of an ingest's journal, in order."""
    tables, found = dict[int, bytes](), []
    for position, payload in JournalReader(fed.directory).frames(fed.writer.first(), fed.writer.committed()):
        frame = frames.decode(payload)
        if isinstance(frame, frames.Table):
            tables[position] = frame.definition
        elif isinstance(frame, frames.Rows):
            packed = tables[frame.table]
            table = msgspec.msgpack.decode(packed, type=frames.Definition)
            found.append(Journaled(table, packed, frame.kind, frame.body))
    return found


def _sides(payload: bytes, kind: int) -> tuple[dict[str, bytes | None], dict[str, bytes | None]]:
    at = 21
    _, at = _string(payload, at)
    _, at = _string(payload, at + 4)
    count, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
    before, after = dict[str, bytes | None](), dict[str, bytes | None]()
    for _ in range(count):
        name, at = _string(payload, at + 4)
        first, at = _string(payload, at)
        second, at = _string(payload, at)
        if kind != 1:
            before[name.decode()] = None if first == _NULL else first
        if kind != 4:
            after[name.decode()] = None if second == _NULL else second
    return before, after


def _string(payload: bytes, at: int) -> tuple[bytes, int]:
    length = int.from_bytes(payload[at : at + 4], "little")
    return payload[at + 4 : at + 3 + length], at + 4 + length
