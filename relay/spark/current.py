"""The current state of a table as a DataFrame: the last merged version, and the changes since."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.base.errors import ErrorCode, RelayError
from relay.lake import scan
from relay.lake.arrow import pyarrow
from relay.lake.columns import key_columns, unused_name
from relay.lake.documents import Field, Table, TableState
from relay.lake.moments import Moment, seq_at
from relay.lake.reading import TableRows, last_rows, ordered
from relay.lake.storage import Storage
from relay.lake.tables import (
    PRESENT,
    ROW_KINDS,
    Bounds,
    Lake,
    OpenLake,
    bounds_of,
    check_end,
    fields_in,
    find_table,
    is_relevant,
    open_lake,
    version_in,
)
from relay.lake.types import META_FIELDS
from relay.spark import pointer as pointers
from relay.spark.changes import changes, in_range, rows_of
from relay.spark.pointer import BucketFile, Pointer
from relay.spark.reading import are_few, read_files, split_small
from relay.spark.schema import col, struct_type
from relay.spark.small_files import from_arrow

_META = {field.name: field for field in META_FIELDS}
SEQ = _META["_seq"]
KIND = _META["_change_type"]


def current(spark: SparkSession, lake: Lake, table: str | Table, as_of: Moment | None = None) -> DataFrame:
    """Return the rows of a table with a primary key as of the last export: the result of `SELECT *` on the source then.

    With `as_of`: as of that moment (docs/lake-python.md). The columns are those of the table's version at that time,
    and the side columns that have values. The rows are merged on reading: the more changes since the last `relay spark
    merge`, the more work. After a reset (an ALTER that rewrites values, a loss), the state before it is returned, with
    a warning, until the table's snapshot is done. A table without a primary key is append-only: the result is all its
    rows of `changes`.

    Raises `RelayError` (usage) if the lake has no such table, or if its rows are not known at that time.
    """
    log = open_lake(lake)
    state = log.state()
    found = find_table(state, table)
    seq = seq_at(log.storage, state, [found], as_of)
    if not found.versions:  # no statement and no row has defined its columns yet
        bounds_of(state, found, seq)
        return spark.createDataFrame([], struct_type([]))
    if not found.version.key:
        check_end(state, found, seq)
        return changes(spark, log, found.table, until=seq)
    basis = basis_of(log, found.table, seq)
    if not basis.version.key:  # it got one later
        raise RelayError(
            ErrorCode.USAGE, f"read the state of {found.table}", "it had no primary key then",
            hint="read its changes: relay.spark.changes",
        )  # fmt: skip
    if basis.bounds.stale and as_of is None:
        warnings.warn(
            f"{found.table}: its rows after {basis.bounds.until} are not known yet; this is the state at that number",
            stacklevel=2,
        )
    return basis.state(spark).select(*(col(field.name) for field in basis.fields))


def basis_of(log: OpenLake, table: Table, as_of: int | None = None) -> Basis:
    """Return the parts of a table's current state, or of its state at a `_seq`.

    Raises `RelayError` (usage) if the lake does not know its rows then.
    """
    # This comes before the log, so that the log has everything that this version has merged.
    last = pointers.newest(log.storage, table)
    state = log.state()
    found = find_table(state, table)
    return Basis(log.storage, found, bounds_of(state, found, as_of), last)


def skip_reason(table: TableState) -> str:
    """Return why a table cannot be merged; "" if it can be."""
    if not table.versions:
        return "its columns are unknown before its first row"
    if not table.version.key:
        return "it has no primary key, so it is append-only: its rows are its changes"
    if table.complete_from is None:
        under_way = table.snapshot is not None
        return f"its rows are unknown until {'its snapshot is done' if under_way else '`relay snapshot` has run'}"
    return ""


class Basis:
    """The parts of a table's state at `bounds.until`; `last` is the newest merged version.

    `merged` is `last` if the state can be computed from it and from `changes`, the files with later changes. Otherwise
    it is None, and `changes` are all files that count. `recent` are those that the version has beside its buckets. If
    both `are_few`, the driver folds them; else Spark reads `others` and `recent`.
    """

    def __init__(self, storage: Storage, table: TableState, bounds: Bounds, last: Pointer | None) -> None:
        self.storage = storage
        self.table = table
        self.bounds = bounds
        counted = [file for file in table.files.values() if is_relevant(file, bounds)]
        self.version = version_in(bounds, table, counted)
        self.fields = fields_in(table, self.version)
        self.columns = [*self.fields, SEQ, KIND]
        self.snapshot_rows = sum(file.rows for file in counted if file.kind == "snapshot")
        self.number = last.number + 1 if last else 1
        self.merged = last if last and self._follows(last) else None
        self.changes = counted
        if self.merged is not None:
            self.changes = [each for each in counted if each.kind == "changes" and each.last > self.merged.applied]
        self.recent: list[BucketFile] = self.merged.recent if self.merged else []
        count = len(self.columns)
        self.are_few = are_few([*self.recent, *self.changes], count)
        self._small, self.others = (self.changes, []) if self.are_few else split_small(self.changes, count)
        self._newest: DataFrame | None = None

    def _follows(self, last: Pointer) -> bool:
        return (
            last.reset == self.bounds.reset
            and last.snapshot_rows == self.snapshot_rows
            and last.applied <= self.bounds.until
            and last.version.generation == self.version.generation
            and last.version.key == self.version.key
        )

    def pointer(
        self, buckets: int, folder: str, files: Sequence[BucketFile], recent: Sequence[BucketFile] = ()
    ) -> Pointer:
        """Return the document of the state as the next merged version, with these files."""
        return Pointer(
            number=self.number,
            table=self.table.table,
            version=self.version,
            fields=self.fields,
            applied=self.bounds.until,
            reset=self.bounds.reset,
            snapshot_rows=self.snapshot_rows,
            buckets=buckets,
            folder=folder,
            files=sorted(files, key=lambda file: (file.bucket, file.path)),
            recent=list(recent),
        )

    def newest(self, spark: SparkSession) -> DataFrame:
        """Return the last row of each key that changed since the merged version, with `columns`."""
        if self._newest is None:
            parts = [from_arrow(spark, self.fold_small(), self.columns)] if self._small or self.are_few else []
            if not self.are_few:
                if self.recent:
                    parts.append(read_files(spark, self.storage, self.recent, self.columns))
                if self.others:
                    parts.append(self._rows_of_others(spark))
                parts = [fold(reduce(DataFrame.unionAll, parts), self.fields, self.version.key)]
            (self._newest,) = parts
        return self._newest

    def fold_small(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the last row of each key in the files that the driver reads, with `columns` and the lake's types."""
        start = self.merged.applied if self.merged else -1
        rows = TableRows(self.storage, self.table, self.columns, start, self.bounds.until)
        batches = chain(
            self._recent_rows(rows.schema(rows.names)) if self.are_few else (),
            (batch.select(rows.names) for batch in rows.batches(ordered(self._small), rows.names)),
        )
        return last_rows(batches, key_columns(self.fields, self.version.key), self.bounds)

    def _recent_rows(self, schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
        if self.merged is None or not self.recent:
            return iter(())
        stored = {field.name: field.type for field in self.merged.fields}
        files = scan.Files(self.storage.url(), [file.path for file in self.recent], -1, None, stored, {})
        return scan.read(files, {field.name: field.type for field in self.columns}, schema, self.storage)

    def _rows_of_others(self, spark: SparkSession) -> DataFrame:
        rows = rows_of(spark, self.storage, self.table, self.others, self.columns)
        rows = in_range(rows, self.merged.applied if self.merged else None, self.bounds.until)
        snapshot = (col(KIND.name) == "snapshot") & (col(SEQ.name) == self.bounds.reset)
        return rows.where((col(SEQ.name) > self.bounds.reset) | snapshot).where(col(KIND.name).isin(*ROW_KINDS))

    def state(self, spark: SparkSession, files: Sequence[BucketFile] | None = None) -> DataFrame:
        """Return the rows of the table, with `fields` and SEQ.

        With `files` of the merged version: only the rows of their buckets, which must be all buckets that have changes.
        """
        before = None
        if self.merged is not None:
            before = read_files(spark, self.storage, self.merged.files if files is None else files, [*self.fields, SEQ])
            if not self.changes and not self.recent:
                return before
        newest = self.newest(spark)
        state = newest.where(col(KIND.name).isin(*PRESENT)).drop(KIND.name)
        return state if before is None else self._others_of(before, newest).unionAll(state)

    def _others_of(self, before: DataFrame, newest: DataFrame) -> DataFrame:
        """Return the rows of `before` whose keys are not those of `newest`: an anti-join, which need not sort them."""
        keys = key_columns(self.fields, self.version.key)
        names = {name: unused_name(f"_changed_{number}", before.columns) for number, name in enumerate(keys)}
        changed = newest.select(*(col(name).alias(other) for name, other in names.items()))
        if self.are_few:  # Spark does not know
            changed = f.broadcast(changed)
        same = [col(name).eqNullSafe(col(other)) for name, other in names.items()]
        return before.join(changed, same, "left_anti")


def fold(rows: DataFrame, fields: Sequence[Field], key: Sequence[str]) -> DataFrame:
    """Return the last row of each key. The rows have `fields`, SEQ and KIND.

    The two images of an update have one number, and the later image counts; a snapshot row includes the change with its
    number. Side columns are part of the key: values that the column itself cannot hold are NULL in it.
    """
    columns = [*(field.name for field in fields), SEQ.name, KIND.name]
    rank = f.when(col(KIND.name) == "snapshot", 2).when(col(KIND.name) == "update_preimage", 0).otherwise(1)
    last = unused_name("_last", columns)
    picked = f.max_by(f.struct(*map(col, columns)), f.struct(col(SEQ.name), rank)).alias(last)
    return rows.groupBy(*map(col, key_columns(fields, key))).agg(picked).select(f"{last}.*")
