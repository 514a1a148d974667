"""Which range: what `--from` and `--to` say, as boundaries of the journal that the source still has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from relay._native import GtidSet
from relay.binlog.commands import SHORT_POSITION
from relay.binlog.facts import ServerFacts
from relay.binlog.place import Place
from relay.binlog.resume import spelled_out
from relay.errors import ErrorCode, RelayError, StopCode
from relay.journal.frames import Source
from relay.verify.journal import Journal
from relay.verify.sides import Step

_OPERATION = "find the range"


class Range(NamedTuple):
    """What is compared: all transactions after `first`, up to and with `last`."""

    first: Step
    last: Step


def find(journal: Journal, start: str, end: str, server: ServerFacts, oldest: Place) -> Range:
    """The range from `start` to `end`, each `oldest`, `newest`, FILE:POS or a GTID set; `oldest` is the source's.

    A position within a transaction stands for that transaction's beginning; a GTID set for the end of the last of its
    transactions. Raises `RelayError`: wrong_source, journal_lost or binlog_purged for what one of the two does not have
    any more, usage.
    """
    chapter = _Chapter(journal, server)
    first, last = chapter.boundary(start, oldest), chapter.boundary(end, oldest)
    if first.place < oldest:
        raise RelayError(
            StopCode.BINLOG_PURGED, _OPERATION, f"the source's binlog begins at {oldest}", position=str(first.place),
            hint="--from oldest begins with the oldest that journal and source still have",
        )  # fmt: skip
    if last.place < first.place:
        cause = f"--from is {first.place} and --to is {last.place}, which comes before"
        raise RelayError(ErrorCode.USAGE, _OPERATION, cause, hint="give them in the order of the binlog")
    if first.place.position > SHORT_POSITION:
        cause = "the witness cannot begin beyond 4 GiB of a file"
        raise RelayError(
            ErrorCode.USAGE, _OPERATION, cause, position=str(first.place), hint="begin earlier in the file"
        )
    return Range(first, last)


class _Chapter:
    """The last part of the journal in which the places of one source rise: only there a place means one thing."""

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

    def boundary(self, text: str, oldest: Place) -> Step:
        """The boundary that a position stands for; `oldest` is the oldest place that the source has."""
        if text == "newest":
            return self._last(lambda _: True)
        if text == "oldest":
            return self._from(oldest)
        named = spelled_out(text)
        if not named.file:
            return self._after(text)
        place = Place(named.file, named.position)
        if place < self._first.place:
            raise self._lost(f"the journal begins at {self._first.place}", str(place))
        return self._last(lambda step: step.place <= place)

    def _begin(self, bases: list[int], server: ServerFacts) -> Step:
        first = before = None
        for step in self._journal.steps(bases[0]):
            if step.identity != server.identity or (before and step.place < before.place):
                first = None
            if first is None and step.identity == server.identity and step.place.file:
                first = step
            before = step
            if first and len(bases) > 1 and step.end > bases[1]:
                break
        if first is None:
            cause = f"the journal holds nothing of {server.identity}, only of {before.identity if before else 'nobody'}"
            raise RelayError(
                StopCode.WRONG_SOURCE, _OPERATION, cause, hint="name the server that the relay reads from in IPAddr"
            )
        return first

    def _last(self, fits: Callable[[Step], bool]) -> Step:
        """The last step before the first one that does not fit."""
        for base in reversed(self._later):
            steps = self._journal.steps(base)
            next(steps, None)  # a segment may open within a transaction: this one is no boundary for sure
            if found := _last_of(steps, fits):
                return found
        return _last_of(self._journal.steps(self._first), fits) or self._first

    def _from(self, oldest: Place) -> Step:
        if self._first.place >= oldest:
            return self._first
        before = self._last(lambda step: step.place <= oldest)
        if before.place == oldest:
            return before
        for step in self._journal.steps(before):
            return step
        raise RelayError(
            StopCode.BINLOG_PURGED, _OPERATION,
            f"the journal ends at {before.place}, and the source has purged its binlog up to {oldest}",
            hint="there is nothing that both still have",
        )  # fmt: skip

    def _after(self, gtid_set: str) -> Step:
        wanted = GtidSet(gtid_set)
        found = None
        for step in self._journal.steps(self._first):
            if step.gtid and step.gtid in wanted:
                found = step
        if found is None:
            raise self._lost("the journal holds no transaction of this set", gtid_set)
        return found

    def _lost(self, cause: str, position: str) -> RelayError:
        hint = "--from oldest begins with the oldest that journal and source still have"
        return RelayError(StopCode.JOURNAL_LOST, _OPERATION, cause, position=position, hint=hint)


def _last_of(steps: Iterator[Step], fits: Callable[[Step], bool]) -> Step | None:
    found = None
    for step in steps:
        if not fits(step):
            break
        found = step
    return found


def _rises(pair: Sequence[tuple[int, Source]]) -> bool:
    earlier, later = (Place(source.file, source.position) for _, source in pair)
    return earlier <= later
