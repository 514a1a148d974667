"""A constructed journal: transactions of a table `t` with an id and a name, and of other tables that a test defines."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec

from relay._native import ChangeReader, JournalWriter
from relay.journal.frames import Column, Definition

SEGMENT = 1 << 16
NOON = 1_700_000_000  # 2023-11-14 22:13:20 UTC
INSERT, UPDATE, DELETE = 1, 2, 4


def column(
    name: str, kind: int, meta: int = 0, charset: str = "", labels: tuple[str, ...] = (), *, unsigned: bool = False
) -> Column:
    return Column(name, 1, kind, meta, unsigned, True, name == "id", charset, list(labels), "")


ID = column("id", 3)
NAME = column("name", 15, 80, "utf8mb4")


def definition(*columns: Column, table: str = "t", version: int = 1, proven: bool = True) -> bytes:
    return msgspec.msgpack.encode(Definition("shop", table, version, 1, 1, proven, list(columns)))


def body(kind: int, columns: int, *images: bytes) -> bytes:
    """A rows event with all columns in each image; an image begins with its NULL bitmap."""
    present = ((1 << columns) - 1).to_bytes((columns + 7) // 8, "little")
    return bytes([columns]) + present * (2 if kind == UPDATE else 1) + b"".join(images)


def row(number: int, name: bytes | None = b"x") -> bytes:
    text = b"" if name is None else bytes([len(name)]) + name
    return bytes([2 if name is None else 0]) + struct.pack("<i", number) + text


class Made:
    """A constructed journal, with a table `t` of an id and a name."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT, generation: int = 0) -> None:
        self.folder = folder
        self.writer = JournalWriter(folder, segment_bytes, generation)
        self.writer.source(4, "binlog.000001", "", "server one")
        self.table = self.define(ID, NAME)
        self.place = 4

    def define(self, *columns: Column, table: str = "t", version: int = 1, proven: bool = True) -> int:
        return self.writer.define(definition(*columns, table=table, version=version, proven=proven))

    def rows(self, kind: int, *images: bytes, table: int | None = None, columns: int = 2) -> None:
        self.place += 100
        count = len(images) // (2 if kind == UPDATE else 1)
        table = self.table if table is None else table
        self.writer.rows(table, kind, self.place, NOON, count, body(kind, columns, *images))

    def commit(self, when: int = NOON, gtid: str = "") -> None:
        self.place += 50
        self.writer.commit(self.place, when, gtid)

    def inserted(self, *numbers: int, when: int = NOON, gtid: str = "") -> None:
        self.rows(INSERT, *map(row, numbers))
        self.commit(when, gtid)

    def statement(self, text: str) -> None:
        self.place += 100
        self.writer.ddl(self.place, NOON + 1, "shop", text)
        self.commit()

    def flush(self) -> int:
        return self.writer.flush()

    def reader(self, position: int = 0, **more: Any) -> ChangeReader:
        self.flush()
        return ChangeReader(self.folder, position, **more)
