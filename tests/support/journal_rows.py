"""Rows that an ingest put into a journal, as clients get them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow

from relay._native import Columns, JournalReader, RowImages
from relay.journal import frames
from tests.support.binlogs import Fed
from tests.types.payloads import cells


class Journaled(NamedTuple):
    """A ROWS frame, and its definition, packed and unpacked."""

    table: frames.Definition
    packed: bytes
    kind: int
    body: bytes

    def texts(self) -> list[tuple[dict[str, bytes | None], dict[str, bytes | None]]]:
        """Per row, the columns before and after as text by name; a side that the kind lacks is empty."""
        images = RowImages(self.packed, self.kind, self.body)
        rows = [cells(payload, 2)[0] for payload in images.render("poll2", null_text=_NULL)]
        return [
            (
                {cell.name: None if cell.before == _NULL else cell.before for cell in row if self.kind != 1},
                {cell.name: None if cell.after == _NULL else cell.after for cell in row if self.kind != 4},
            )
            for row in rows
        ]

    def typed(self) -> list[tuple[dict[str, object] | None, dict[str, object] | None]]:
        """Per row, the columns before and after as in PollMany's format 1."""
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
