"""Both sides, event by event and value by value. Pure: iterators in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from relay.binlog import tablemap
from relay.binlog.columntypes import COMPRESSED, OLD_TEMPORAL, Type
from relay.binlog.events import EventType
from relay.binlog.place import Place
from relay.binlog.rules import Rules
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column
from relay.verify import faults, values
from relay.verify.sides import ROWS, Images, OurRows, Seen, Step

EXCLUDED = "of tables that [Source] leaves out"
SKIPPED = "not understood (OnUnknown = skip)"
PREPARED_BEFORE = "of XA transactions that were prepared before the range"


class Difference(NamedTuple):
    """Something that the journal and the witness tell differently, and no known fault of the witness explains.

    `place` is the end of the rows event; `row` counts from 1 in it, and is 0 where `what` is about all of it. `column`
    and the two values are "" where it is not about a value.
    """

    place: Place
    table: str
    row: int
    what: str
    column: str = ""
    ours: str = ""
    theirs: str = ""


class Finding(NamedTuple):
    """What came of a rows event.

    Of its `rows`, `compared` were; `equal` are the same on both sides in every value, `weaker` in the weaker form that
    a fault of the witness leaves. `faults` says in how many rows which fault of the witness showed, and `detail` what
    the witness said of it. `left_out`: why the journal has none of them, and need not.
    """

    place: Place
    table: str
    rows: int
    compared: int = 0
    equal: int = 0
    weaker: int = 0
    faults: Mapping[str, int] = MappingProxyType({})
    detail: str = ""
    differences: Sequence[Difference] = ()
    left_out: str = ""


class Policy(NamedTuple):
    """What the configuration leaves out of the journal; the source's character sets by collation."""

    rules: Rules
    skip_unknown: bool
    charset_of: Mapping[int, str]


Pair = tuple[OurRows | None, Seen | None, str]
"""The same event on both sides, or on one, and why the journal may lack it."""


def pairs(steps: Iterable[Step], rows_of: Callable[[Step], Iterable[OurRows]], seen: Iterator[Seen]) -> Iterator[Pair]:
    """Bring together what stands at one place. Both sides come in the order of commits, each transaction once."""
    head = next(seen, None)
    for step in steps:
        for ours in rows_of(step) if step.rows else ():
            while head and head.at <= step.place and not _covers(head, step, ours) and head.place < ours.place:
                yield None, head, step.lost
                head = next(seen, None)
            if head and head.at <= step.place and (_covers(head, step, ours) or head.place == ours.place):
                yield ours, head, step.lost
                if head.code in ROWS:
                    head = next(seen, None)
            else:
                yield ours, None, step.lost
        while head and head.at <= step.place:
            if head.code in ROWS:
                yield None, head, step.lost
            head = next(seen, None)
    while head:
        if head.code in ROWS:
            yield None, head, ""
        head = next(seen, None)


def _covers(seen: Seen, step: Step, ours: OurRows) -> bool:
    """Whether it stands for several rows events of ours: those of a compressed or of an XA transaction."""
    if seen.code == EventType.TRANSACTION_PAYLOAD:
        return seen.place == ours.place
    return seen.code == EventType.QUERY and seen.at == step.place


def judge(pair: Pair, policy: Policy) -> Finding:
    """What a pair says."""
    ours, seen, lost = pair
    if ours is None:
        assert seen is not None
        return _theirs_only(seen, lost, policy)
    if seen is None:
        return _finding(ours, _whole(ours, "only in the journal: the source's binlog has no such rows event there"))
    if seen.code == EventType.QUERY:
        return _finding(ours)._replace(left_out=PREPARED_BEFORE)
    if seen.schema and (mismatch := _mismatch(ours, seen)):
        return _finding(ours, _whole(ours, mismatch))
    try:
        images = ours.values()
    except ValueError as error:
        return _finding(ours, _whole(ours, f"the journal's rows cannot be decoded: {error}"))
    if any(column.type in OLD_TEMPORAL and column.meta for column in ours.table.definition.columns):
        return _finding(ours)._replace(faults={faults.OLD_FRACTION: ours.rows})
    if seen.rows is None:
        fault = _reason(seen, ours.table.definition.columns, images) if seen.fault == faults.DIED else seen.fault
        return _finding(ours)._replace(faults={fault: ours.rows}, detail=seen.detail)
    return _Rows(ours, seen, policy.rules).compared(images)


def _finding(ours: OurRows, *differences: Difference) -> Finding:
    return Finding(ours.place, ours.table.name, ours.rows, differences=differences)


def _whole(ours: OurRows, what: str) -> Difference:
    return Difference(ours.place, ours.table.name, 0, what)


def _theirs_only(seen: Seen, lost: str, policy: Policy) -> Finding:
    finding = Finding(seen.place, f"{seen.schema}.{seen.table}", len(seen.rows or ()))
    if lost:
        return finding._replace(left_out=f"lost: {lost}")
    if not policy.rules.wants(seen.schema, seen.table):
        return finding._replace(left_out=EXCLUDED)
    if policy.skip_unknown and not _understood(seen, policy.charset_of):
        return finding._replace(left_out=SKIPPED)
    if seen.rows == []:
        return finding
    what = "not in the journal: the source's binlog has this rows event"
    return finding._replace(differences=(Difference(seen.place, finding.table, 0, what),))


def _understood(seen: Seen, charset_of: Mapping[int, str]) -> bool:
    """Whether the journal has to have it, by its type and its table map."""
    if seen.code == EventType.PARTIAL_UPDATE_ROWS:  # of a value that its image may not have
        return False
    try:
        table_map = tablemap.parse(seen.table_map)
        (tablemap.definition if table_map.full else tablemap.provisional)(table_map, charset_of)
    except RelayError as error:
        return error.code is not StopCode.UNSUPPORTED_COLUMN
    # Without the source's answer not even the lengths of these are certain.
    return not any(column.type in OLD_TEMPORAL for column in table_map.columns)


def _mismatch(ours: OurRows, seen: Seen) -> str:
    if ours.table.name != f"{seen.schema}.{seen.table}":
        return f"the witness has rows of {seen.schema}.{seen.table} there"
    if ROWS[seen.code] != ours.kind:
        return f"kind {ours.kind} in the journal, {ROWS[seen.code]} at the witness"
    return ""


def _reason(seen: Seen, columns: Sequence[Column], images: Images) -> str:
    """The known fault for which the witness cannot read an event, or that there is none."""
    try:
        types = {column.type for column in tablemap.parse(seen.table_map).columns}
    except RelayError:
        types = set()
    if types & COMPRESSED:
        return faults.COMPRESSED_COLUMN
    if Type.VECTOR in types:
        return faults.VECTOR
    dates = [column.name for column in columns if column.type == Type.DATE]
    if any(values.breaks_date(image.get(name)) for row in images for image in row if image for name in dates):
        return faults.INVALID_DATE
    if Type.ENUM in types and seen.detail.startswith("IndexError"):
        return faults.UNREADABLE_LABEL
    return faults.UNREADABLE_JSON if Type.JSON in types else faults.DIED


class _Rows:
    """One rows event that both sides can tell."""

    def __init__(self, ours: OurRows, seen: Seen, rules: Rules) -> None:
        self._ours = ours
        self._seen = seen
        self._rules = rules
        self._raw: Images | None = None
        self._differences: list[Difference] = []
        self._faults: Counter[str] = Counter()

    def compared(self, images: Images) -> Finding:
        """Compare all rows."""
        theirs = self._seen.rows or []
        if len(images) != len(theirs):
            self._add(0, f"{len(images)} rows in the journal, {len(theirs)} at the witness")
        finding = Finding(self._ours.place, self._ours.table.name, self._ours.rows)
        places = self._places()
        if places is None:
            self._faults[faults.NO_PLACES] += len(images)
            return finding._replace(faults=self._faults, differences=self._differences)
        if self._names is None:
            self._faults[faults.NO_NAMES] += len(images)
        rows = list(zip(images, theirs, strict=False))
        found = [self._row(number, *row, places) for number, row in enumerate(rows)]
        return finding._replace(
            compared=len(rows),
            equal=sum(not verdicts for verdicts in found),
            weaker=sum(bool(verdicts) and values.DIFFERENT not in verdicts for verdicts in found),
            faults=self._faults,
            differences=self._differences,
        )

    def _row(self, number: int, ours: Any, theirs: Any, places: list[tuple[Column, int]]) -> set[str]:
        """The verdicts on the row's values but for `SAME`; differences and faults are noted."""
        found: set[str] = set()
        for side in (0, 1):
            if (ours[side] is None) != (theirs[side] is None):
                self._add(number + 1, f"no image {('before', 'after')[side]} the change on one side")
                found.add(values.DIFFERENT)
            elif ours[side] is not None:
                found |= self._image(number, side, ours[side], theirs[side], places)
        self._faults.update(found - {values.DIFFERENT})
        return found

    def _image(
        self, number: int, side: int, ours: dict[str, Any], theirs: list[Any], places: list[tuple[Column, int]]
    ) -> set[str]:
        found: set[str] = set()
        patched = self._seen.code == EventType.PARTIAL_UPDATE_ROWS and side == 1
        for column, place in places:
            name = column.name
            one, other = ours.get(name), theirs[place]  # None too where the event's image has no such column
            if type(one) is type(other) and one == other and not isinstance(one, float):
                continue
            if patched and column.type == Type.JSON:
                found.add(faults.PARTIAL_JSON)
                continue
            raw = partial(self._bytes, number, side, name)
            verdict = values.judge(column, self._seen.columns[place], one, other, raw)
            if verdict:
                found.add(verdict)
            if verdict == values.DIFFERENT:
                what = "value" if self._ours.kind != 2 else f"value {('before', 'after')[side]}"
                self._add(number + 1, what, name, repr(one), repr(other))
        return found

    def _bytes(self, number: int, side: int, name: str) -> Any:
        """Our value as the bytes in the event."""
        if self._raw is None:
            self._raw = self._ours.raw_values()
        image = self._raw[number][side]
        return image[name] if image else None

    def _places(self) -> list[tuple[Column, int]] | None:
        """Our columns with the place of each at the witness; None where that is not certain."""
        ours, theirs = self._ours.table.definition.columns, self._seen.columns
        if self._names and self._ours.table.definition.proven:
            found = self._by_name(ours, self._names)
        else:
            by_type = _by_type([column.type for column in ours], [column.type for column in theirs])
            if by_type is None:
                return None
            found = list(zip(ours, by_type, strict=False))
        for column, place in found:
            if column.type != theirs[place].type:
                self._add(0, f"type {column.type} in the journal, {theirs[place].type} at the witness", column.name)
        return [(column, place) for column, place in found if column.type == theirs[place].type]

    @property
    def _names(self) -> Sequence[str] | None:
        """Of the witness's columns: its own, or those that the statements in the range tell."""
        own = [column.name for column in self._seen.columns if column.name is not None]
        found = own if len(own) == len(self._seen.columns) else self._seen.names
        return found if len(found) == len(self._seen.columns) else None

    def _by_name(self, ours: Sequence[Column], theirs: Sequence[str]) -> list[tuple[Column, int]]:
        places = {name: place for place, name in enumerate(theirs)}
        table = self._ours.table.definition
        for column in ours:
            if column.name not in places:
                self._add(0, "the witness has no such column", column.name)
        for name in sorted(places.keys() - {column.name for column in ours}):
            if self._rules.keeps(table.schema, table.table, name):
                self._add(0, "the journal has no such column", name)
        return [(column, places[column.name]) for column in ours if column.name in places]

    def _add(self, row: int, what: str, column: str = "", ours: str = "", theirs: str = "") -> None:
        table = self._ours.table.name
        self._differences.append(Difference(self._ours.place, table, row, what, column, ours, theirs))


def _by_type(ours: Sequence[int], theirs: Sequence[int]) -> list[int] | None:
    """The only places that our columns, some of which may have been left out, can have by their types."""
    if len(ours) == len(theirs):
        return list(range(len(ours)))
    first = _leftmost(ours, theirs)
    last = _leftmost(ours[::-1], theirs[::-1])
    if first is None or last is None or first != [len(theirs) - 1 - place for place in reversed(last)]:
        return None
    return first


def _leftmost(ours: Sequence[int], theirs: Sequence[int]) -> list[int] | None:
    places: list[int] = []
    for kind in ours:
        start = places[-1] + 1 if places else 0
        place = next((at for at in range(start, len(theirs)) if theirs[at] == kind), None)
        if place is None:
            return None
        places.append(place)
    return places
