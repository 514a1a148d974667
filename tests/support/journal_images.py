"""A journal's contents of a table, image by image, for comparison with what CDC clients saw. Uses only frames."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from relay._native import JournalReader
from relay.journal import frames
from tests.support.cdc_client import Row
from tests.support.journal_rows import Journaled

_KINDS = {1: ("insert",), 2: ("update_before", "update_after"), 4: ("delete",)}


class Image(NamedTuple):
    """One image of a row: its transaction, its number in it, and its columns as text, None for NULL."""

    sequence: int
    server_id: int
    event_number: int
    timestamp: int
    event_type: str
    columns: dict[str, str | None]


def truth(folder: Path, schema: str, table: str) -> list[Image]:
    """Every image of a table, in order, up to the flushed position."""
    journal = JournalReader(folder)
    tables, packed, found = dict[int, frames.Definition](), dict[int, bytes](), list[Image]()
    open_: list[tuple[int, int, str, dict[str, str | None]]] = []
    number = 0
    for position, payload in journal.frames(journal.first(), journal.flushed()):
        frame = frames.decode(payload)
        if isinstance(frame, frames.Table):
            packed[position] = frame.definition
            tables[position] = msgspec.msgpack.decode(frame.definition, type=frames.Definition)
        elif isinstance(frame, frames.Rows):
            kinds, named = _KINDS[frame.kind], tables[frame.table]
            if (named.schema, named.table) == (schema, table):
                rows = Journaled(named, packed[frame.table], frame.kind, frame.body).texts()
                images = [side for sides in rows for side in sides if side]
                assert len(images) == frame.rows * len(kinds)
                for more, columns in enumerate(images):
                    kind = kinds[more % len(kinds)]
                    open_.append((number + more + 1, frame.timestamp, kind, _texts(columns)))
            number += frame.rows * len(kinds)
        elif isinstance(frame, frames.Commit):
            sequence = int(re.findall(r"[0-9]+", frame.gtid)[-1])
            found += [Image(sequence, frame.server_id, *image) for image in open_]
            open_, number = [], 0
    return found


def image_of(row: Row) -> Image:
    """The image of a row that a client saw, with columns of numbers and text."""
    head = ("domain", "server_id", "sequence", "event_number", "timestamp", "event_type")
    assert tuple(row)[: len(head)] == head
    columns = {name: None if value is None else str(value) for name, value in list(row.items())[len(head) :]}
    return Image(row["sequence"], row["server_id"], row["event_number"], row["timestamp"], row["event_type"], columns)


def _texts(columns: dict[str, bytes | None]) -> dict[str, str | None]:
    return {name: None if value is None else value.decode() for name, value in columns.items()}
