"""A journal that a test writes itself, and what is in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from relay._native import JournalReader, JournalWriter
from relay.journal import frames

SEGMENT = 64 * 1024
FRAME_HEADER = 8
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
COLUMN = frames.Column("id", 1, 3, 0, False, False, True, "", [], "int(11)")


def packed(table: str = "t", proven: bool = True, extra: int = 0) -> bytes:
    """A definition; `extra` makes it that much longer."""
    return msgspec.msgpack.encode(frames.Definition("test", table + "x" * extra, 1, 1, 1, proven, [COLUMN]))


def content(directory: Path, writer: JournalWriter) -> list[tuple[int, frames.Frame]]:
    """All committed frames, decoded."""
    reader = JournalReader(directory)
    found = reader.frames(writer.first(), writer.committed())
    return [(position, frames.decode(payload)) for position, payload in found]


def rows_of(directory: Path, writer: JournalWriter) -> list[frames.Rows]:
    return [frame for _, frame in content(directory, writer) if isinstance(frame, frames.Rows)]


def transaction(writer: JournalWriter, table: int, number: int, size: int = 20) -> None:
    writer.rows(table, 1, number * 100 + 50, 1700000000, 2, number.to_bytes(4, "little") * (size // 4))
    writer.commit(number * 100 + 99, 1700000000, f"0-1-{number}")
