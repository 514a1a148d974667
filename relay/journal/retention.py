"""Which segments of the journal may go: a decision about numbers, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Segment(Protocol):
    """A file of the journal: journal positions of its first byte and after its last, and when it last changed."""

    @property
    def base(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def modified(self) -> float: ...


class Limits(NamedTuple):
    """History kept in any case (`keep_bytes`, `keep_age` in seconds), and the size that is never passed."""

    keep_bytes: int
    keep_age: int
    max_bytes: int


class Cut(NamedTuple):
    """`drop` segments before this position. `ask`: rows before this one have to be taken from clients first, 0: none.

    `near`: the cap is near, and clients, the lake or the log need what would have to go.
    """

    drop: int
    ask: int
    near: bool


_NEAR = 0.9


def decide(segments: Sequence[Segment], needed: int, exported: int, now: float, limits: Limits) -> Cut:
    """Decide about `segments` (oldest first, the last one is being written).

    `needed`: what the slowest client needs next; `exported`: what the lake or the log does. What nobody needs goes
    when it is older than `keep_age` and the journal larger than `keep_bytes`, or when the cap is reached; what somebody
    needs goes only for the cap. Then clients are asked for it first; export and log find
    out by themselves, and stop by name.
    """
    if not segments:
        return Cut(0, 0, False)
    size = sum(segment.end - segment.base for segment in segments)
    near = size > limits.max_bytes * _NEAR and min(needed, exported) < segments[-1].base
    drop = segments[0].base
    for segment in segments[:-1]:
        remains = size - (segment.end - segment.base)
        over = size > limits.max_bytes
        outlived = remains >= limits.keep_bytes and now - segment.modified > limits.keep_age
        if not over and not outlived:
            break
        if segment.end > needed:
            return Cut(drop, _beyond(segments, drop, size - limits.max_bytes) if over else 0, near)
        if segment.end > exported and not over:
            break
        drop, size = segment.end, remains
    return Cut(drop, 0, near)


def _beyond(segments: Sequence[Segment], first: int, excess: int) -> int:
    """The end of those segments from `first` on that are too many: all at once, since a load may bring many a turn."""
    end = first
    for segment in segments[:-1]:
        if segment.base >= first and excess > 0:
            end, excess = segment.end, excess - (segment.end - segment.base)
    return end
