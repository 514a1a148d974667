"""Decide which segments of the journal may be deleted: numbers only, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Segment(Protocol):
    """A file of the journal."""

    @property
    def base(self) -> int:
        """The position of the first byte."""

    @property
    def end(self) -> int:
        """The position after the last byte."""

    @property
    def modified(self) -> float:
        """The modification time in Unix seconds."""


class Limits(NamedTuple):
    """The minimum history (`keep_bytes`, `keep_age` in seconds), and the maximum size."""

    keep_bytes: int
    keep_age: int
    max_bytes: int


class Cut(NamedTuple):
    """The decision: delete the segments before `delete_before`.

    Before more can be deleted, clients' queues must drop their rows before `request`; 0 if nothing is to be dropped.
    `near`: the cap is near, and clients, the lake or the log need what would have to be deleted.
    """

    delete_before: int
    request: int
    near: bool


_NEAR = 0.9


def decide(segments: Sequence[Segment], needed: int, exported: int, now: float, limits: Limits) -> Cut:
    """Decide about `segments` (oldest first, the last one is being written).

    `needed` is the next position of the slowest client; `exported` that of the lake or the log. A segment that nothing
    needs is deleted when it is older than `keep_age` and the journal is larger than `keep_bytes`, or when the cap is
    reached; a needed one only for the cap. Then clients are asked to drop rows first; export and log notice the loss
    themselves, and stop with a fatal error.
    """
    if not segments:
        return Cut(0, 0, False)
    size = sum(segment.end - segment.base for segment in segments)
    near = size > limits.max_bytes * _NEAR and min(needed, exported) < segments[-1].base
    drop = segments[0].base
    for segment in segments[:-1]:
        remains = size - (segment.end - segment.base)
        over = size > limits.max_bytes
        expired = remains >= limits.keep_bytes and now - segment.modified > limits.keep_age
        if not over and not expired:
            break
        if segment.end > needed:
            return Cut(drop, _end_of_excess(segments, drop, size - limits.max_bytes) if over else 0, near)
        if segment.end > exported and not over:
            break
        drop, size = segment.end, remains
    return Cut(drop, 0, near)


def _end_of_excess(segments: Sequence[Segment], first: int, excess: int) -> int:
    """Return the end of the excess segments from `first` on.

    There may be many: a load can bring them between two checks.
    """
    end = first
    for segment in segments[:-1]:
        if segment.base >= first and excess > 0:
            end, excess = segment.end, excess - (segment.end - segment.base)
    return end
