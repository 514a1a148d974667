"""The coverage-guided driver for parsers written in Python, the counterpart of driver.cpp.

It first runs the kept inputs (former crashers) and the seeds. Then it mutates inputs that reached new lines, or lines
in a new order or more often, until the time or the count is over. A target raises an error if something is wrong.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

LONGEST: Final = 4096
"""Bytes of an input."""

PATIENCE: Final = 10
"""Seconds of the processor that an input may take; one that takes longer has failed."""

_EDGES: Final = tuple(
    value.to_bytes(width, "little")
    for width in (1, 2, 4, 8)
    for value in (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 2**63, 2**64 - 1)
    if value < 256**width
)

Edge = tuple[CodeType, int, int]


class Target(NamedTuple):
    """A parser under test. `watched`: the modules whose lines count, by the beginnings of their names."""

    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    watched: tuple[str, ...]


class Failure(Exception):
    """A target raised an error, the cause of this one, at `input`."""

    def __init__(self, content: bytes, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.input = content


class Tally(NamedTuple):
    """The result of a run: the numbers of inputs made, of edges reached, and of inputs in the corpus."""

    inputs: int
    edges: int
    kept: int


def fuzz(
    target: Target,
    kept: Sequence[bytes],
    seed: int,
    *,
    seconds: float = 0.0,
    count: int = 0,
    begins: Callable[[bytes], None] = lambda content: None,
) -> Tally:
    """Run the target for `seconds`, or with `count` inputs if that is given. Raises `Failure`.

    `begins` is called with each input before it runs, so that it is known if the process dies.
    """
    chance = random.Random(seed)
    watch = _Watch(target.watched)
    corpus = [content[:LONGEST] for content in (*target.seeds, *kept)]
    for content in corpus:
        begins(content)
        _try(target, watch, content)
    until = time.monotonic() + seconds
    made = 0
    while made < count if count else time.monotonic() < until:
        content = _mutated(corpus, chance)
        made += 1
        begins(content)
        if _try(target, watch, content):
            corpus.append(content)
    return Tally(made, len(watch.seen), len(corpus))


def _try(target: Target, watch: _Watch, content: bytes) -> bool:
    """Run the target with the input. True if it reached something new."""
    try:
        with _patience(), watch:
            target.run(content)
    except (Exception, _TooLong) as error:
        raise Failure(content, error) from error
    return watch.is_new()


class _TooLong(BaseException):
    """The input takes too long. Not an `Exception`, so that the target does not catch it."""


@contextmanager
def _patience() -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        raise _TooLong(f"more than {PATIENCE} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _Watch:
    """Records which line of the watched modules followed which, and how often, to the next power of two."""

    def __init__(self, watched: tuple[str, ...]) -> None:
        self.seen: dict[Edge, int] = {}
        self._watched = watched
        self._known: dict[CodeType, bool] = {}
        self._reached: dict[Edge, int] = {}
        self._last = 0
        self._before: Any = None

    def __enter__(self) -> None:
        self._reached, self._last = {}, 0
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def is_new(self) -> bool:
        """Whether the last input reached something new. It counts as known from now on."""
        new = False
        for edge, often in self._reached.items():
            grade = 1 << often.bit_length()
            if not self.seen.get(edge, 0) & grade:
                self.seen[edge] = self.seen.get(edge, 0) | grade
                new = True
        return new

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        watched = self._known.get(code)
        if watched is None:
            watched = self._known[code] = str(frame.f_globals.get("__name__", "")).startswith(self._watched)
        return self._line if watched else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            edge = (frame.f_code, self._last, frame.f_lineno)
            self._reached[edge] = self._reached.get(edge, 0) + 1
            self._last = frame.f_lineno
        return self._line


def _mutated(corpus: Sequence[bytes], chance: random.Random) -> bytes:
    content = bytearray(chance.choice(corpus))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(8):
            case 0 if content:
                content[at - 1] ^= 1 << chance.randrange(8)
            case 1 if content:
                content[at - 1] = chance.randrange(256)
            case 2:
                edge = chance.choice(_EDGES)
                content[at : at + len(edge)] = edge
            case 3:
                del content[at:]
            case 4:
                del content[at : at + chance.randint(1, 8)]
            case 5:
                content[at:at] = bytes((chance.randrange(256),)) * chance.randint(1, 8)
            case 6:
                content[at:at] = content[at : at + chance.randint(1, 32)]
            case _:
                other = chance.choice(corpus)
                content[at:] = other[chance.randrange(len(other) + 1) :]
    return bytes(content[:LONGEST])
