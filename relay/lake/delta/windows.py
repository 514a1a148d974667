"""Divides the rows of a table's files into windows of `_seq` that fit into memory and are applied in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from relay.lake.documents import DataFile

WINDOW_BYTES: Final = 8 << 20
"""The bytes of files whose rows one window has, about; in memory they are several times larger."""


class Window(NamedTuple):
    """The rows of `files` with start < `_seq` <= end. Rows of the next window win over them."""

    files: Sequence[DataFile]
    start: int
    end: int


def windows(files: Sequence[DataFile], start: int, end: int, most: int = WINDOW_BYTES) -> Iterator[Window]:
    """Yield windows of all rows with start < `_seq` <= end, in the order in which they are to be applied."""
    bounds = sorted({min(file.last, end) for file in files if file.last > start and file.first <= end})
    low = start
    for at, high in enumerate(bounds):
        size = _size(files, low, high)
        following = _size(files, low, bounds[at + 1]) if at + 1 < len(bounds) else None
        if following is not None and following <= most:
            continue  # this window can have more
        yield from _divided(files, low, high, size, most)
        low = high


def _divided(files: Sequence[DataFile], low: int, high: int, size: float, most: int) -> Iterator[Window]:
    parts = min(high - low, max(1, round(size / most)))
    for part in range(parts):
        begin, end = low + (high - low) * part // parts, low + (high - low) * (part + 1) // parts
        inside = [file for file in files if file.last > begin and file.first <= end]
        if end - begin == 1 and _size(inside, begin, end) > most:
            # All rows have one number. Those of a snapshot have different keys, and win over changes.
            changes = [file for file in inside if file.kind == "changes"]
            if changes:
                yield Window(changes, begin, end)
            for file in inside:
                if file.kind == "snapshot":
                    yield Window([file], begin, end)
        elif inside:
            yield Window(inside, begin, end)


def _size(files: Sequence[DataFile], low: int, high: int) -> float:
    """Estimate the bytes of the files' rows with low < `_seq` <= high."""
    size = 0.0
    for file in files:
        span = file.last - file.first + 1
        inside = min(file.last, high) - max(file.first - 1, low)
        size += file.bytes * max(0, inside) / span
    return size
