"""A journal with two tables, an arena and a broker, without their processes."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from relay._native import Arena, Broker, ClientQueue, JournalReader, JournalWriter
from relay.errors import RelayError, StopCode

SHAPE = (4, 2, 1 << 20)  # clients, workers, bytes for rings
OPEN = 2**64 - 1
COLUMNS = [["id", 11, 3, 0, False, False, True, "", [], "int"]]
BLOCK = 16384  # bytes of the journal: the frames of a run begin in one block


class RowsFrame(NamedTuple):
    """A frame of rows."""

    position: int
    table: int  # position of its TABLE frame
    rows: int


def rows_frames(folder: Path, start: int, end: int) -> list[RowsFrame]:
    """The frames of rows in a part of the journal."""
    payloads = ((at, msgspec.msgpack.decode(payload)) for at, payload in JournalReader(folder).frames(start, end, (2,)))
    return [RowsFrame(at, values[2], values[5]) for at, values in payloads]


def rows_of(frames: list[RowsFrame], ranges: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """The rows of ranges, by frame and number in it. `frames` are in order; a range may be a run of some of them."""
    found: list[tuple[int, int]] = []
    for run, first, count in ranges:
        rows: list[tuple[int, int]] = []
        begin = bisect_left(frames, run, key=lambda frame: frame.position)
        for frame in frames[begin:]:
            if frame.position // BLOCK != run // BLOCK or len(rows) >= first + count:
                break
            if frame.table == frames[begin].table:
                rows += [(frame.position, row) for row in range(frame.rows)]
        assert first + count <= len(rows), f"{first} and {count} more of {len(rows)} rows from frame {run} on"
        found += rows[first : first + count]
    return found


class Line:
    """A journal with two tables, an arena and a broker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = JournalWriter(folder / "journal", 1 << 20)
        self.writer.source(4, "binlog.000001", "", "test")
        self.table, self.other_table = (
            self.writer.define(msgspec.msgpack.encode(["shop", name, 1, 1, number, True, COLUMNS]))
            for number, name in enumerate(("orders", "items"), 1)
        )
        self._turn = False
        self.arena = new_arena()
        self.arena.attach_writer(self.writer)
        self.allocated: list[tuple[int, int]] = []
        self.broker = Broker(self.arena, folder / "journal", lambda offset, size: self.allocated.append((offset, size)))
        self.broker.step(1)

    def write(self, transactions: int, rows: int = 1, *, together: bool = False) -> None:
        """Write transactions. Tables take turns, so each has a range of its own; `together`, they are runs."""
        for _ in range(transactions):
            self._turn = not self._turn
            table = self.table if together or self._turn else self.other_table
            self.writer.rows(table, 1, 100, 1, rows, b"\1\1" + (b"\0" + bytes(4)) * rows)
            self.writer.commit(100, 1)

    def update(self) -> None:
        self.writer.rows(self.table, 2, 100, 1, 1, b"\1\1\1" + (b"\0" + bytes(4)) * 2)
        self.writer.commit(100, 1)

    def client(self, id: int, *, discard: int = 0, limit: int = 0) -> tuple[int, ClientQueue]:
        slot = self.broker.add_client(id, f"client {id}")
        self.broker.set_filters(slot, [("shop", "*", 7, discard, limit, self.arena.committed, OPEN)])
        return slot, ClientQueue(self.arena, slot)

    def succeeded(self, *clients: tuple[int, int, int]) -> None:
        """Another broker takes over, as after a kill; slot, discard and limit of each client."""
        self.broker = Broker(self.arena, self.folder / "journal", lambda offset, size: None)
        for slot, discard, limit in clients:
            self.broker.set_filters(slot, [("shop", "*", 7, discard, limit, 1, OPEN)])

    def rows_frames(self) -> list[tuple[int, bytes]]:
        """Positions and payloads of the frames of rows."""
        frames = JournalReader(self.folder / "journal").frames(0, self.arena.committed)
        return [frame for frame in frames if frame[1][1] == 2]

    def rows_of(self, ranges: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """The rows of ranges, by frame and number in it."""
        return rows_of(rows_frames(self.folder / "journal", 0, self.arena.committed), ranges)

    @contextmanager
    def damaged(self, index: int) -> Iterator[None]:
        """Meanwhile a bit of that frame of rows is another one, which only its CRC tells."""
        position, payload = self.rows_frames()[index]
        with (self.folder / "journal" / f"{0:020d}.seg").open("r+b", buffering=0) as file:
            at = position + 8 + len(payload) - 1
            os.pwrite(file.fileno(), bytes([payload[-1] ^ 1]), at)
            yield
            os.pwrite(file.fileno(), payload[-1:], at)

    def stops(self) -> None:
        """The broker stops by name, however often it is asked."""
        for _ in range(2):
            with pytest.raises(RelayError, match="damaged") as stop:
                self.broker.step(1 << 30)
            assert stop.value.code == StopCode.JOURNAL_CORRUPT


def emptied(queue: ClientQueue) -> int:
    """Takes and confirms what a queue's ring holds from its first row on, as long as the broker adds nothing."""
    rows = 0
    while ranges := queue.take(1000)[1]:
        rows += sum(count for _, _, count in ranges)
        queue.confirm(rows)
    return rows


def drained(line: Line, queue: ClientQueue) -> int:
    """Take and confirm all there is; how many rows, none of them twice."""
    taken: list[tuple[int, int]] = []
    while ranges := queue.take(100)[1]:
        taken += line.rows_of(ranges)
        queue.confirm(len(taken))
        line.broker.step(1 << 30)
    assert taken == sorted(set(taken))
    return len(taken)


def new_arena() -> Arena:
    return Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)
