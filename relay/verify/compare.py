"""Compare both sides, event by event and value by value. No I/O: iterators in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from relay.base.errors import RelayError, StopCode
from relay.binlog.events import EventType, table_maps
from relay.binlog.events.column_types import COMPRESSED, OLD_TEMPORAL, Type
from relay.binlog.events.position import BinlogPosition
from relay.ingest.rules import Rules
from relay.journal.frames import Column
from relay.verify import faults, values
from relay.verify.sides import ROWS, Images, JournalRows, Kind, ReferenceEvent, Step

EXCLUDED = "of tables that [Source] excludes"
SKIPPED = "unknown (OnUnknown = skip)"
PREPARED_BEFORE = "of XA transactions that were prepared before the range"


class Difference(NamedTuple):
    """A difference between journal and reference reader that no known fault of the reference reader explains.

    `position` is the end of the rows event; `row` counts from 1 in it, and is 0 if `what` is about the whole event.
    `column` and the two values are "" if the difference is not about a value.
    """

    position: BinlogPosition
    table: str
    row: int
    what: str
    column: str = ""
    ours: str = ""
    theirs: str = ""


class Finding(NamedTuple):
    """The result for a rows event.

    Of its `rows`, `compared` were compared; `equal` are the same on both sides in every value, `weaker` in the weaker
    form that a fault of the reference reader leaves. `faults` counts rows by fault of the reference reader, and
    `detail` is its own message. `left_out` is the reason why the journal does not have the rows and need not have them.
    """

    position: BinlogPosition
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
    """What the configuration excludes from the journal, and the source's character sets by collation."""

    rules: Rules
    skip_unknown: bool
    charset_of: Mapping[int, str]


Pair = tuple[JournalRows | None, ReferenceEvent | None, str]
"""The same event on both sides, or on one side, and the reason why the journal may lack it."""


def pairs(
    steps: Iterable[Step], rows_of: Callable[[Step], Iterable[JournalRows]], seen: Iterator[ReferenceEvent]
) -> Iterator[Pair]:
    """Pair the events of both sides by binlog position. Both sides are in commit order, with each transaction once."""
    head = next(seen, None)
    for step in steps:
        for ours in rows_of(step) if step.rows else ():
            while (
                head
                and head.commit_position <= step.position
                and not _covers(head, step, ours)
                and head.position < ours.position
            ):
                yield None, head, step.lost
                head = next(seen, None)
            if (
                head
                and head.commit_position <= step.position
                and (_covers(head, step, ours) or head.position == ours.position)
            ):
                yield ours, head, step.lost
                if head.code in ROWS:
                    head = next(seen, None)
            else:
                yield ours, None, step.lost
        while head and head.commit_position <= step.position:
            if head.code in ROWS:
                yield None, head, step.lost
            head = next(seen, None)
    while head:
        if head.code in ROWS:
            yield None, head, ""
        head = next(seen, None)


def _covers(seen: ReferenceEvent, step: Step, ours: JournalRows) -> bool:
    """Whether `seen` stands for all rows events of a compressed or XA transaction, `ours` among them."""
    if seen.code == EventType.TRANSACTION_PAYLOAD:
        return seen.position == ours.position
    return seen.code == EventType.QUERY and seen.commit_position == step.position


def compare_pair(pair: Pair, policy: Policy) -> Finding:
    """Compare a pair."""
    ours, seen, lost = pair
    if ours is None:
        assert seen is not None
        return _reference_only(seen, lost, policy)
    if seen is None:
        return _finding(ours, "only in the journal: the source's binlog has no such rows event")
    if seen.code == EventType.QUERY:
        return _finding(ours)._replace(left_out=PREPARED_BEFORE)
    if seen.schema and (mismatch := _mismatch(ours, seen)):
        return _finding(ours, mismatch)
    try:
        images = ours.values()
    except ValueError as error:
        return _finding(ours, f"the journal's rows cannot be decoded: {error}")
    if any(column.type in OLD_TEMPORAL and column.meta for column in ours.table.definition.columns):
        return _finding(ours)._replace(faults={faults.OLD_FRACTION: ours.rows})
    if seen.rows is None:
        fault = _fault_of(seen, ours.table.definition.columns, images) if seen.fault == faults.DIED else seen.fault
        return _finding(ours)._replace(faults={fault: ours.rows}, detail=seen.detail)
    return _Rows(ours, seen, policy.rules).compare(images)


def _finding(ours: JournalRows, what: str = "") -> Finding:
    """Return a finding before any comparison; `what` is a difference of the whole event, "" for none."""
    differences = (Difference(ours.position, ours.table.name, 0, what),) if what else ()
    return Finding(ours.position, ours.table.name, ours.rows, differences=differences)


def _reference_only(seen: ReferenceEvent, lost: str, policy: Policy) -> Finding:
    finding = Finding(seen.position, f"{seen.schema}.{seen.table}", len(seen.rows or ()))
    if lost:
        return finding._replace(left_out=f"lost: {lost}")
    if not policy.rules.wants(seen.schema, seen.table):
        return finding._replace(left_out=EXCLUDED)
    if policy.skip_unknown and not _must_be_in_journal(seen, policy.charset_of):
        return finding._replace(left_out=SKIPPED)
    if seen.rows == []:
        return finding
    what = "not in the journal: the source's binlog has this rows event"
    return finding._replace(differences=(Difference(seen.position, finding.table, 0, what),))


def _must_be_in_journal(seen: ReferenceEvent, charset_of: Mapping[int, str]) -> bool:
    """Whether the journal must have the event, judged by its type and its table map."""
    if seen.code == EventType.PARTIAL_UPDATE_ROWS:  # of a value that its image may lack
        return False
    try:
        table_map = table_maps.parse(seen.table_map)
        (table_maps.definition if table_map.full else table_maps.provisional)(table_map, charset_of)
    except RelayError as error:
        return error.code is not StopCode.UNSUPPORTED_COLUMN
    # Without the source's definition, even the lengths of these are uncertain.
    return not any(column.type in OLD_TEMPORAL for column in table_map.columns)


def _mismatch(ours: JournalRows, seen: ReferenceEvent) -> str:
    if ours.table.name != f"{seen.schema}.{seen.table}":
        return f"the reference reader has rows of {seen.schema}.{seen.table} there"
    if ROWS[seen.code] != ours.kind:
        return f"kind {ours.kind} in the journal, {ROWS[seen.code]} in the reference reader"
    return ""


def _fault_of(seen: ReferenceEvent, columns: Sequence[Column], images: Images) -> str:
    """Return the known fault that keeps the reference reader from reading an event, or DIED if none is known."""
    try:
        types = {column.type for column in table_maps.parse(seen.table_map).columns}
    except RelayError:
        types = set()
    if types & COMPRESSED:
        return faults.COMPRESSED_COLUMN
    if Type.VECTOR in types:
        return faults.VECTOR
    dates = [column.name for column in columns if column.type == Type.DATE]
    if any(values.is_invalid_date(image.get(name)) for row in images for image in row if image for name in dates):
        return faults.INVALID_DATE
    if Type.ENUM in types and seen.detail.startswith("IndexError"):
        return faults.UNREADABLE_LABEL
    return faults.UNREADABLE_JSON if Type.JSON in types else faults.DIED


class _Rows:
    """One rows event that both sides can read."""

    def __init__(self, ours: JournalRows, seen: ReferenceEvent, rules: Rules) -> None:
        self._ours = ours
        self._seen = seen
        self._rules = rules
        self._raw: Images | None = None
        self._differences: list[Difference] = []
        self._faults: Counter[str] = Counter()

    def compare(self, images: Images) -> Finding:
        """Compare all rows."""
        theirs = self._seen.rows or []
        if len(images) != len(theirs):
            self._add_difference(0, f"{len(images)} rows in the journal, {len(theirs)} in the reference reader")
        finding = _finding(self._ours)
        indexes = self._column_indexes()
        if indexes is None:
            self._faults[faults.NO_POSITIONS] += len(images)
            return finding._replace(faults=self._faults, differences=self._differences)
        if self._names is None:
            self._faults[faults.NO_NAMES] += len(images)
        rows = list(zip(images, theirs, strict=False))
        found = [self._row(number, *row, indexes) for number, row in enumerate(rows)]
        return finding._replace(
            compared=len(rows),
            equal=sum(not verdicts for verdicts in found),
            weaker=sum(bool(verdicts) and values.DIFFERENT not in verdicts for verdicts in found),
            faults=self._faults,
            differences=self._differences,
        )

    def _row(self, number: int, ours: Any, theirs: Any, indexes: list[tuple[Column, int]]) -> set[str]:
        """Compare one row; return its verdicts other than `SAME`, and record differences and faults."""
        found: set[str] = set()
        for side in (0, 1):
            if (ours[side] is None) != (theirs[side] is None):
                self._add_difference(number + 1, f"no image {('before', 'after')[side]} the change on one side")
                found.add(values.DIFFERENT)
            elif ours[side] is not None:
                found |= self._image(number, side, ours[side], theirs[side], indexes)
        self._faults.update(found - {values.DIFFERENT})
        return found

    def _image(
        self, number: int, side: int, ours: dict[str, Any], theirs: list[Any], indexes: list[tuple[Column, int]]
    ) -> set[str]:
        found: set[str] = set()
        patched = self._seen.code == EventType.PARTIAL_UPDATE_ROWS and side == 1
        for column, index in indexes:
            name = column.name
            one, other = ours.get(name), theirs[index]  # also None if the event's image lacks the column
            if type(one) is type(other) and one == other and not isinstance(one, float):
                continue
            if patched and column.type == Type.JSON:
                found.add(faults.PARTIAL_JSON)
                continue
            raw = partial(self._bytes, number, side, name)
            verdict = values.compare_value(column, self._seen.columns[index], one, other, raw)
            if verdict:
                found.add(verdict)
            if verdict == values.DIFFERENT:
                what = "value" if self._ours.kind != Kind.UPDATE else f"value {('before', 'after')[side]}"
                self._add_difference(number + 1, what, name, repr(one), repr(other))
        return found

    def _bytes(self, number: int, side: int, name: str) -> Any:
        """Return the journal's value as the bytes in the event."""
        if self._raw is None:
            self._raw = self._ours.raw_values()
        image = self._raw[number][side]
        return image[name] if image else None

    def _column_indexes(self) -> list[tuple[Column, int]] | None:
        """Return the columns of the journal, each with its index in the reference row; None if that is uncertain."""
        ours, theirs = self._ours.table.definition.columns, self._seen.columns
        if self._names and self._ours.table.definition.proven:
            found = self._by_name(ours, self._names)
        else:
            by_type = _by_type([column.type for column in ours], [column.type for column in theirs])
            if by_type is None:
                return None
            found = list(zip(ours, by_type, strict=False))
        for column, index in found:
            if column.type != theirs[index].type:
                self._add_difference(
                    0, f"type {column.type} in the journal, {theirs[index].type} in the reference", column.name
                )
        return [(column, index) for column, index in found if column.type == theirs[index].type]

    @property
    def _names(self) -> Sequence[str] | None:
        """The names of the reference reader's columns: its own, or those from statements in the range."""
        own = [column.name for column in self._seen.columns if column.name is not None]
        found = own if len(own) == len(self._seen.columns) else self._seen.names
        return found if len(found) == len(self._seen.columns) else None

    def _by_name(self, ours: Sequence[Column], theirs: Sequence[str]) -> list[tuple[Column, int]]:
        indexes = {name: index for index, name in enumerate(theirs)}
        table = self._ours.table.definition
        for column in ours:
            if column.name not in indexes:
                self._add_difference(0, "the reference reader has no such column", column.name)
        for name in sorted(indexes.keys() - {column.name for column in ours}):
            if self._rules.keeps(table.schema, table.table, name):
                self._add_difference(0, "the journal has no such column", name)
        return [(column, indexes[column.name]) for column in ours if column.name in indexes]

    def _add_difference(self, row: int, what: str, column: str = "", ours: str = "", theirs: str = "") -> None:
        table = self._ours.table.name
        self._differences.append(Difference(self._ours.position, table, row, what, column, ours, theirs))


def _by_type(ours: Sequence[int], theirs: Sequence[int]) -> list[int] | None:
    """Return the only indexes that the journal's columns, some of which may be excluded, can have by their types."""
    if len(ours) == len(theirs):
        return list(range(len(ours)))
    first = _leftmost(ours, theirs)
    last = _leftmost(ours[::-1], theirs[::-1])
    if first is None or last is None or first != [len(theirs) - 1 - index for index in reversed(last)]:
        return None
    return first


def _leftmost(ours: Sequence[int], theirs: Sequence[int]) -> list[int] | None:
    indexes: list[int] = []
    for kind in ours:
        start = indexes[-1] + 1 if indexes else 0
        index = next((other for other in range(start, len(theirs)) if theirs[other] == kind), None)
        if index is None:
            return None
        indexes.append(index)
    return indexes
