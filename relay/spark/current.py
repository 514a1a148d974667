"""The current state of a table as a DataFrame: the last merged version, and the changes since."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.base.errors import ErrorCode, RelayError
from relay.lake.columns import key_columns, unused_name
from relay.lake.documents import Field, Table, TableState
from relay.lake.moments import Moment, seq_at
from relay.lake.reading import TableRows, newest_rows, ordered
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
from relay.spark.reading import read_files, read_here
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


class Basis:
    """The parts of a table's state at `bounds.until`; `last` is the newest merged version.

    `merged` is `last` if the state can be computed from it and from `changes`, the files with later changes. Otherwise
    it is None, and `changes` are all files that count. Spark reads `others` of them, the driver the rest.
    """

    def __init__(self, storage: Storage, table: TableState, bounds: Bounds, last: Pointer | None) -> None:
        self.storage = storage
        self.table = table
        self.bounds = bounds
        counted = [file for file in table.files.values() if is_relevant(file, bounds)]
        self.version = version_in(bounds, table, counted)
        self.fields = fields_in(table, self.version)
        self.snapshot_rows = sum(file.rows for file in counted if file.kind == "snapshot")
        self.number = last.number + 1 if last else 1
        self.merged = last if last and self._follows(last) else None
        self.changes = counted
        if self.merged is not None:
            self.changes = [each for each in counted if each.kind == "changes" and each.last > self.merged.applied]
        self._columns = [*self.fields, SEQ, KIND]
        self._here, self.others = read_here(self.changes, len(self._columns))
        self._folded: DataFrame | None = None

    def _follows(self, last: Pointer) -> bool:
        return (
            last.reset == self.bounds.reset
            and last.snapshot_rows == self.snapshot_rows
            and last.applied <= self.bounds.until
            and last.version.generation == self.version.generation
            and last.version.key == self.version.key
        )

    def newest(self, spark: SparkSession) -> DataFrame:
        """Return the last row of each key in `changes`, with `fields`, SEQ and KIND.

        The driver folds what it can read at once, in less time than Spark needs to list, open and shuffle it.
        """
        if self._folded is None:
            self._folded = self._fold_here(spark)
        if not self.others:
            return self._folded
        rows = rows_of(spark, self.storage, self.table, self.others, self._columns)
        rows = in_range(rows, self.merged.applied if self.merged else None, self.bounds.until)
        snapshot = (col(KIND.name) == "snapshot") & (col(SEQ.name) == self.bounds.reset)
        rows = rows.where((col(SEQ.name) > self.bounds.reset) | snapshot).where(col(KIND.name).isin(*ROW_KINDS))
        return fold(self._folded.unionAll(rows) if self._here else rows, self.fields, self.version.key)

    def state(self, spark: SparkSession, files: Sequence[BucketFile] | None = None) -> DataFrame:
        """Return the rows of the table, with `fields` and SEQ.

        With `files` of the merged version: only the rows of their buckets, which must be all buckets that have changes.
        """
        before = None
        if self.merged is not None:
            before = read_files(spark, self.storage, self.merged.files if files is None else files, [*self.fields, SEQ])
            if not self.changes:
                return before
        newest = self.newest(spark)
        state = newest.where(col(KIND.name).isin(*PRESENT)).drop(KIND.name)
        return state if before is None else self._others_of(before, newest).unionAll(state)

    def _fold_here(self, spark: SparkSession) -> DataFrame:
        start = self.merged.applied if self.merged else -1
        rows = TableRows(self.storage, self.table, self._columns, start, self.bounds.until)
        keys = key_columns(self.fields, self.version.key)
        newest = newest_rows(rows, ordered(self._here), keys, self.bounds, rows.names, deleted=True)
        return from_arrow(spark, newest, self._columns)

    def _others_of(self, before: DataFrame, newest: DataFrame) -> DataFrame:
        """Return the rows of `before` whose keys are not those of `newest`: an anti-join, which need not sort them."""
        keys = key_columns(self.fields, self.version.key)
        names = {name: unused_name(f"_changed_{number}", before.columns) for number, name in enumerate(keys)}
        changed = newest.select(*(col(name).alias(other) for name, other in names.items()))
        if not self.others:  # Spark does not know that they are few
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
