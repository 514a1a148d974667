"""Resolve `--from` and `--to` to boundaries in the journal that the source still has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from relay._native import GtidSet
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.binlog.events.position import BinlogPosition
from relay.ingest.resume import parse_start
from relay.journal.frames import Source
from relay.source.commands import SHORT_POSITION
from relay.source.facts import ServerFacts
from relay.verify.journal import Journal
from relay.verify.sides import Step

_OPERATION = "find the range"


class Range(NamedTuple):
    """The range to compare: all transactions after `first`, up to and including `last`."""

    first: Step
    last: Step


def find(journal: Journal, start: str, end: str, server: ServerFacts, oldest: BinlogPosition) -> Range:
    """Find the range from `start` to `end`, each `oldest`, `newest`, FILE:POS or a GTID set.

    `oldest` is the source's oldest binlog position. A position within a transaction means the beginning of that
    transaction; a GTID set means the end of its last transaction. Raises `RelayError`: wrong_source; journal_lost or
    binlog_purged if journal or source no longer has the range; usage.
    """
    history = _History(journal, server)
    first, last = history.boundary(start, oldest), history.boundary(end, oldest)
    if first.position < oldest:
        raise RelayError(
            StopCode.BINLOG_PURGED, _OPERATION, f"the source's binlog begins at {oldest}", position=str(first.position),
            hint="--from oldest starts at the oldest position in journal and source",
        )  # fmt: skip
    if last.position < first.position:
        cause = f"--from is {first.position}, after --to, which is {last.position}"
        raise RelayError(ErrorCode.USAGE, _OPERATION, cause, hint="give the earlier position as --from")
    if first.position.position > SHORT_POSITION:
        cause = "the reference reader cannot start beyond 4 GiB of a file"
        raise RelayError(
            ErrorCode.USAGE, _OPERATION, cause, position=str(first.position), hint="start earlier in the file"
        )
    return Range(first, last)


class _History:
    """The last part of the journal in which the binlog positions of one source rise.

    Only in it is a position unique.
    """

    def __init__(self, journal: Journal, server: ServerFacts) -> None:
        self._journal = journal
        segments = journal.segments()
        own = len(segments) - 1
        while own and segments[own - 1][1].identity == server.identity and _rises(segments[own - 1 : own + 1]):
            own -= 1
        # It may begin within the segment before.
        bases = [base for base, _ in segments[max(own - 1, 0) :]]
        self._first = self._begin(bases, server)
        self._later = [base for base in bases if base > self._first.start]

    def boundary(self, text: str, oldest: BinlogPosition) -> Step:
        """Return the boundary for a position; `oldest` is the source's oldest binlog position."""
        if text == "newest":
            return self._last(lambda _: True)
        if text == "oldest":
            return self._from(oldest)
        named = parse_start(text)
        if not named.file:
            return self._after(text)
        position = BinlogPosition(named.file, named.position)
        if position < self._first.position:
            raise self._lost(f"the journal begins at {self._first.position}", str(position))
        return self._last(lambda step: step.position <= position)

    def _begin(self, bases: list[int], server: ServerFacts) -> Step:
        first = before = None
        for step in self._journal.steps(bases[0]):
            if step.identity != server.identity or (before and step.position < before.position):
                first = None
            if first is None and step.identity == server.identity and step.position.file:
                first = step
            before = step
            if first and len(bases) > 1 and step.end > bases[1]:
                break
        if first is None:
            cause = f"the journal has nothing of {server.identity}, only of {before.identity if before else 'nobody'}"
            raise RelayError(
                StopCode.WRONG_SOURCE, _OPERATION, cause, hint="set IPAddr to the server that the relay reads from"
            )
        return first

    def _last(self, fits: Callable[[Step], bool]) -> Step:
        """Return the last step before the first one that does not satisfy `fits`."""
        for base in reversed(self._later):
            steps = self._journal.steps(base)
            next(steps, None)  # a segment may begin within a transaction: its first step need not be a boundary
            if found := _last_of(steps, fits):
                return found
        return _last_of(self._journal.steps(self._first), fits) or self._first

    def _from(self, oldest: BinlogPosition) -> Step:
        if self._first.position >= oldest:
            return self._first
        before = self._last(lambda step: step.position <= oldest)
        if before.position == oldest:
            return before
        for step in self._journal.steps(before):
            return step
        raise RelayError(
            StopCode.BINLOG_PURGED, _OPERATION,
            f"the journal ends at {before.position}, and the source has purged its binlog up to {oldest}",
            hint="journal and source have no common range",
        )  # fmt: skip

    def _after(self, gtid_set: str) -> Step:
        wanted = GtidSet(gtid_set)
        found = None
        for step in self._journal.steps(self._first):
            if step.gtid and step.gtid in wanted:
                found = step
        if found is None:
            raise self._lost("the journal has no transaction of this set", gtid_set)
        return found

    def _lost(self, cause: str, position: str) -> RelayError:
        hint = "--from oldest starts at the oldest position in journal and source"
        return RelayError(StopCode.JOURNAL_LOST, _OPERATION, cause, position=position, hint=hint)


def _last_of(steps: Iterator[Step], fits: Callable[[Step], bool]) -> Step | None:
    found = None
    for step in takewhile(fits, steps):
        found = step
    return found


def _rises(pair: Sequence[tuple[int, Source]]) -> bool:
    earlier, later = (BinlogPosition(source.file, source.position) for _, source in pair)
    return earlier <= later
