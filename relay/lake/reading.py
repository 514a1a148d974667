"""Read a table of a lake without Spark: its changes, or its current state, as a stream of Arrow batches.

    relay.lake.changes("/srv/lake", "shop.orders", since=1200)
    relay.lake.current("/srv/lake", "shop.orders", columns=["id", "total"], filters=[("total", ">", 100)])

Both return a pyarrow.RecordBatchReader, which DuckDB, Polars and pandas read.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake import scan
from relay.lake.arrow import pyarrow
from relay.lake.columns import fields_of_all, generations_of, key_columns
from relay.lake.documents import DataFile, Field, Table, TableState
from relay.lake.moments import Moment, seq_at
from relay.lake.storage import Storage
from relay.lake.tables import (
    PRESENT,
    ROW_KINDS,
    Bounds,
    Lake,
    bounds_of,
    fields_in,
    find_table,
    is_relevant,
    open_lake,
    version_in,
)
from relay.lake.types import META_FIELDS, arrow_type, generation_schema

Watch = Callable[[int, int], None]
"""Told of rows that are read: how many more, and how many there are."""

Filter = tuple[str, str, Any]
"""A condition of a row: column, one of == != < <= > >= in, value."""

_AT_ONCE_BYTES: Final = 32 << 20
_META: Final = {field.name: field for field in META_FIELDS}
_SEQ: Final = "_seq"
_KIND: Final = "_change_type"
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda column, values: column.isin(list(values)),
}  # fmt: skip


def changes(
    lake: Lake,
    table: str | Table,
    since: Moment | None = None,
    until: Moment | None = None,
    *,
    columns: Sequence[str] | None = None,
    filters: Sequence[Filter] = (),
    watch: Watch | None = None,
) -> pyarrow.RecordBatchReader:
    """Return the changes of a table after `since` and up to `until`, in the order of its files.

    Both are moments as `current` takes them (docs/lake-python.md); a `_seq` may be beyond the end of the lake.

    A change is one row, an update two. The columns are those of the table's newest version, then those that only older
    ones had, the side columns that have values (`NAME__text`, `NAME__raw`, `NAME__srid`), and last META_FIELDS;
    `columns` selects some of them. Rows that do not meet all `filters` are left out. docs/lake.md defines the rows. A
    value of an older type that the column's type cannot hold is NULL, with its text in `NAME__text`. `watch` gets the
    number of rows of each batch that is read, and of all.

    Raises `RelayError` (usage) if the lake has no such table, or the table no such column.
    """
    opened = open_lake(lake)
    state = opened.state()
    found = find_table(state, table)
    start, end = (seq_at(opened.storage, state, [found], each) for each in (since, until))
    start = -1 if start is None else start
    rows = TableRows(opened.storage, found, [*fields_of_all(found), *META_FIELDS], start, end)
    names = [field.name for field in rows.fields] if columns is None else list(columns)
    files = [each for each in found.files.values() if each.last > start and (end is None or each.first <= end)]
    rows.watched(watch, sum(file.rows for file in files))
    return _selected(rows.batches(ordered(files), [*names, *_names(filters)]), rows.schema(names), filters)


def current(
    lake: Lake,
    table: str | Table,
    *,
    as_of: Moment | None = None,
    columns: Sequence[str] | None = None,
    filters: Sequence[Filter] = (),
    watch: Watch | None = None,
) -> pyarrow.RecordBatchReader:
    """Return the rows of a table with a primary key as of the last export: the result of `SELECT *` on the source then.

    With `as_of`: as of that moment (docs/lake-python.md). The columns are those of the table's version at that time,
    and the side columns that have values; `columns` and `filters` are those of `changes`. After a reset (an ALTER that
    rewrites values, a loss), the state before it is returned, with a warning, until the table's snapshot is done.

    Memory holds the keys of the changes and a batch of rows, or all rows of files below 32 MiB.

    Raises `RelayError` (usage) if the lake has no such table or column, if the table has no key, or if its rows are
    not known at that time.
    """
    opened = open_lake(lake)
    state = opened.state()
    found = find_table(state, table)
    bounds = bounds_of(state, found, seq_at(opened.storage, state, [found], as_of))
    if bounds.stale and as_of is None:
        warnings.warn(
            f"{found.table}: its rows after {bounds.until} are not known yet; this is the state at that number",
            stacklevel=2,
        )
    files = [file for file in found.files.values() if is_relevant(file, bounds)]
    if not found.versions:  # no statement and no row has defined its columns yet
        return pyarrow.RecordBatchReader.from_batches(pyarrow.schema([]), [])
    version = version_in(bounds, found, files)
    if not version.key:
        raise RelayError(
            ErrorCode.USAGE, f"read the state of {found.table}", "it has no primary key",
            hint="read its changes: relay.lake.changes",
        )  # fmt: skip
    fields = fields_in(found, version)
    rows = TableRows(opened.storage, found, [*fields, _META[_SEQ], _META[_KIND]], -1, bounds.until)
    names = [field.name for field in fields] if columns is None else list(columns)
    schema = rows.schema(names)
    rows.watched(watch, sum(file.rows for file in files) * (1 if _at_once(files) else 2))
    newest = newest_rows(rows, ordered(files), key_columns(fields, version.key), bounds, [*names, *_names(filters)])
    return _selected(newest, schema, filters)


class TableRows:
    """Rows of a table's files with start < `_seq` <= end, converted to these `fields`."""

    def __init__(
        self, storage: Storage, table: TableState, fields: Sequence[Field], start: int, end: int | None
    ) -> None:
        self.fields = fields
        self._start = start
        self._watch: Watch | None = None
        self._total = 0
        self._storage = storage
        self._end = end
        self._table = table
        self._types = {field.name: field.type for field in fields}
        self._generations = {version.version: version.generation for version in table.versions}
        self._stored = {
            number: {field.name: field.type for field in generation_schema(versions, table.sides)}
            for number, versions in generations_of(table).items()
        }
        sides = {field.column: field.name for field in fields if field.side == "text"}
        self._texts = {f.name: sides[f.column] for f in fields if f.column and not f.side and f.column in sides}

    def watched(self, watch: Watch | None, total: int) -> None:
        """Tell `watch` of the rows that are read from now on, of `total`."""
        self._watch, self._total = watch, total

    @property
    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._types)

    def within(self, start: int, end: int) -> TableRows:
        """Return the rows with start < `_seq` <= end."""
        return TableRows(self._storage, self._table, self.fields, start, end)

    def schema(self, names: Sequence[str]) -> pyarrow.Schema:
        """Return the schema of these columns. Raises RelayError (usage) for one that does not exist."""
        if unknown := [name for name in names if name not in self._types]:
            raise RelayError(
                ErrorCode.USAGE, "read the lake", f"there is no column {unknown[0]!r}",
                position=str(self._table.table), hint=f"columns: {', '.join(self._types)}",
            )  # fmt: skip
        return pyarrow.schema([(name, arrow_type(self._types[name])) for name in names])

    def batches(self, files: Iterable[DataFile], names: Iterable[str]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of files, with these columns."""
        wanted = list(names)
        for piece in self.pieces(files):
            yield from self.of(piece, wanted)

    def pieces(self, files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
        """Yield the files as `of` takes them."""
        return scan.pieces(files, self._generations)

    def of(self, piece: Sequence[DataFile], names: Iterable[str]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a piece, with these columns."""
        schema = self.schema(list(dict.fromkeys(names)))
        types = {name: self._types[name] for name in schema.names}
        stored = self._stored[self._generations[piece[0].version]]
        paths = [file.path for file in piece]
        what = scan.Files(self._storage.url(), paths, self._start, self._end, stored, self._texts, len(paths) > 1)
        for batch in scan.read(what, types, schema, self._storage):
            if self._watch is not None:
                self._watch(batch.num_rows, self._total)
            yield batch


def newest_rows(
    rows: TableRows, files: Sequence[DataFile], key: Sequence[str], bounds: Bounds, names: Sequence[str]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield, for each key, its last row, if it is not a deletion, with these columns.

    The two images of an update have one number, and the later image counts; a snapshot row includes the change with its
    number. `key` has the side columns of the key too: values that the column itself cannot hold are NULL in it.

    The keys are read first, and then the rows that count; of a table with few bytes, both at once.
    """
    at_once = _at_once(files)
    wanted = [*key, _SEQ, _KIND]
    pieces = list(rows.pieces(files))
    keys: list[pyarrow.RecordBatch] = []
    read: list[list[pyarrow.RecordBatch]] = []
    sizes = []
    for piece in pieces:
        batches = rows.of(piece, [*wanted, *names] if at_once else wanted)
        found = list(batches) if at_once else batches
        before = len(keys)
        keys += [key_rows(batch, key, bounds) for batch in found]
        sizes.append(sum(batch.num_rows for batch in keys[before:]))
        if isinstance(found, list):
            read.append(found)
    if not keys:
        return
    every = pyarrow.Table.from_batches(keys)
    mask = pyarrow.compute.and_(is_last(every), every["present"].combine_chunks())
    begin = 0
    for number, (piece, size) in enumerate(zip(pieces, sizes, strict=True)):
        counts, at = mask[begin : begin + size], 0
        begin += size
        if counts.true_count:
            for batch in read[number] if at_once else rows.of(piece, names):
                yield batch.filter(counts[at : at + batch.num_rows])
                at += batch.num_rows


def last_rows(
    batches: Iterable[pyarrow.RecordBatch], key: Sequence[str], bounds: Bounds
) -> Iterator[pyarrow.RecordBatch]:
    """Yield, for each key, its last row, deletions too. Memory holds all rows. `key` is that of `newest_rows`."""
    rows = [batch for batch in batches if batch.num_rows]
    if not rows:
        return
    last = is_last(pyarrow.Table.from_batches([key_rows(batch, key, bounds) for batch in rows]))
    at = 0
    for batch in rows:
        yield batch.filter(last[at : at + batch.num_rows])
        at += batch.num_rows


def _at_once(files: Iterable[DataFile]) -> bool:
    return sum(file.bytes for file in files) <= _AT_ONCE_BYTES


def is_last(rows: pyarrow.Table) -> pyarrow.Array:
    """Return for each of the `key_rows` whether it is the last one of its key."""
    pc = pyarrow.compute
    order = rows["order"].combine_chunks()
    positions = None
    if not pc.all(pc.greater_equal(order[1:], order[:-1])).as_py():
        positions = pc.sort_indices(order)  # a stable sort
        rows = rows.take(positions)
    number = pc.subtract(pc.cumulative_sum(pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), len(order))), 1)
    counting = rows.append_column("number", number).filter(rows["counts"])
    key = [name for name in rows.column_names if name not in ("order", "counts", "present")]
    # One thread is faster than two: threads have to merge the groups that they found.
    last = counting.group_by(key, use_threads=False).aggregate([("number", "max")])["number_max"].combine_chunks()
    last = last if positions is None else positions.take(last).cast(number.type)
    others = pyarrow.nulls(len(order) - len(last), last.type)
    return pc.is_valid(pc.inverse_permutation(pyarrow.concat_arrays([last, others])))


def key_rows(batch: pyarrow.RecordBatch, key: Sequence[str], bounds: Bounds) -> pyarrow.RecordBatch:
    """Return the key of rows, and their order; whether they are rows within the bounds, and present afterwards."""
    pc = pyarrow.compute
    kind, seq = batch[_KIND], batch[_SEQ]
    snapshot = pc.equal(kind, "snapshot")
    within = pc.or_(pc.greater(seq, bounds.reset), pc.and_(snapshot, pc.equal(seq, bounds.reset)))
    arrays = [groupable(batch[name]) for name in key]
    return pyarrow.RecordBatch.from_arrays(
        [
            *arrays,
            order_of(batch),
            pc.and_(within, pc.is_in(kind, pyarrow.array(ROW_KINDS))),
            pc.is_in(kind, pyarrow.array(PRESENT)),
        ],
        names=[*(f"key{at}" for at in range(len(key))), "order", "counts", "present"],
    )


def order_of(batch: pyarrow.RecordBatch) -> pyarrow.Array:
    """Return numbers that rise as rows follow each other: by `_seq`, the first image of an update, then others.

    A snapshot row comes last, since it includes the change with its number.
    """
    pc = pyarrow.compute
    kind = batch[_KIND]
    rank = pc.if_else(pc.equal(kind, "snapshot"), 2, pc.if_else(pc.equal(kind, "update_preimage"), 0, 1))
    return pc.add(pc.multiply(batch[_SEQ], 4), rank.cast(pyarrow.int64()))


def groupable(values: pyarrow.Array) -> pyarrow.Array:
    """Return values that can be grouped, equal if the given ones are: a SET as one text."""
    if not pyarrow.types.is_list(values.type):
        return values
    item = values.type.value_type
    return pyarrow.compute.binary_join(values, pyarrow.scalar("," if pyarrow.types.is_string(item) else b",", item))


def ordered(files: Iterable[DataFile]) -> list[DataFile]:
    """Return files in the order of their rows."""
    return sorted(files, key=lambda file: (file.first, file.last, file.path))


def _names(filters: Sequence[Filter]) -> list[str]:
    return [name for name, _, _ in filters]


def _selected(
    batches: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema, filters: Sequence[Filter]
) -> pyarrow.RecordBatchReader:
    """Return a reader of the rows that meet all filters, with the columns of the schema."""
    condition = _expression(filters)

    def select() -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            rows = batch if condition is None else batch.filter(condition)
            if rows.num_rows:
                yield rows.select(schema.names)

    return pyarrow.RecordBatchReader.from_batches(schema, select())


def _expression(filters: Sequence[Filter]) -> pyarrow.compute.Expression | None:
    conditions = []
    for name, sign, value in filters:
        if sign not in _OPERATORS:
            raise RelayError(
                ErrorCode.USAGE, "read the lake", f"{sign!r} is no operator of a filter",
                hint=f"operators: {' '.join(_OPERATORS)}",
            )  # fmt: skip
        conditions.append(_OPERATORS[sign](pyarrow.compute.field(name), value))
    return reduce(operator.and_, conditions) if conditions else None
