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
from relay.spark.reading import read_files
from relay.spark.schema import col, struct_type

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
    it is None, and `changes` are all files that count.
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

    def _follows(self, last: Pointer) -> bool:
        return (
            last.reset == self.bounds.reset
            and last.snapshot_rows == self.snapshot_rows
            and last.applied <= self.bounds.until
            and last.version.generation == self.version.generation
            and last.version.key == self.version.key
        )

    def new_rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows of `changes` that count, with `fields`, SEQ and KIND."""
        rows = rows_of(spark, self.storage, self.table, self.changes, [*self.fields, SEQ, KIND])
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
            if not self.changes:
                return before
        return fold(self.new_rows(spark), self.fields, self.version.key, before)


def fold(rows: DataFrame, fields: Sequence[Field], key: Sequence[str], before: DataFrame | None = None) -> DataFrame:
    """Fold changes into a state: `rows` have `fields`, SEQ and KIND, the state `before` them `fields` and SEQ.

    For each key the last row counts, if it is not a deletion. The two images of an update have one number, and the
    later image counts; a snapshot row includes the change with its number. Side columns are part of the key: values
    that the column itself cannot hold are NULL in it.
    """
    keys = key_columns(fields, key)
    columns = [*(field.name for field in fields), SEQ.name, KIND.name]
    rank = f.when(col(KIND.name) == "snapshot", 2).when(col(KIND.name) == "update_preimage", 0).otherwise(1)
    last = unused_name("_last", columns)
    picked = f.max_by(f.struct(*map(col, columns)), f.struct(col(SEQ.name), rank)).alias(last)
    newest = rows.groupBy(*map(col, keys)).agg(picked).select(f"{last}.*")
    state = newest.where(col(KIND.name).isin(*PRESENT)).drop(KIND.name)
    if before is None:
        return state
    # An anti-join: with few changes to a large table, unchanged rows need not be sorted.
    changed = {name: unused_name(f"_changed_{number}", columns) for number, name in enumerate(keys)}
    same = [col(name).eqNullSafe(col(other)) for name, other in changed.items()]
    others = newest.select(*(col(name).alias(other) for name, other in changed.items()))
    return before.join(others, same, "left_anti").unionAll(state)
