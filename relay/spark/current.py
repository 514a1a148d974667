"""The current state of a table as a DataFrame: what was merged last, and the changes since."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.errors import ErrorCode, RelayError
from relay.lake.documents import DataFile, Field, LakeState, Place, Table, TableState, TableVersion
from relay.lake.log import LakeLog
from relay.lake.storage import Storage
from relay.lake.types import META_FIELDS, generation_schema
from relay.spark import pointer as pointers
from relay.spark.changes import between, changes, generations_of, rows_of
from relay.spark.pointer import BucketFile, Pointer
from relay.spark.reading import Lake, find, opened, read
from relay.spark.schema import col, key_columns, struct_type, unused

_META = {field.name: field for field in META_FIELDS}
SEQ = _META["_seq"]
KIND = _META["_change_type"]
_STAYS = ("insert", "update_postimage", "snapshot")
_IMAGES = (*_STAYS, "update_preimage", "delete")


class Bounds(NamedTuple):
    """What the lake knows of a table: its state at `until`, of changes above `reset` and snapshot rows from it on.

    `stale`: rows changed since in ways that only a snapshot will tell.
    """

    reset: int
    until: int
    stale: bool = False


def current(spark: SparkSession, lake: Lake, table: str | Table) -> DataFrame:
    """The rows of a table with a primary key, as of the last export: what `SELECT *` gave on the source then.

    The columns are those of the table's newest version, and the side columns that have values. Merged on reading: the
    more changes the last `relay spark merge` has not seen, the more work it is. Of a table whose rows are not known
    since a reset (an ALTER that rewrites values, a loss), until its snapshot is done, the state before that, with a
    warning. A table without a primary key is append-only: all its rows of `changes`.

    Raises `RelayError`: usage if the lake has no such table, and if its rows were never known.
    """
    log = opened(lake)
    state = log.state()
    found = find(state, table)
    if not found.versions:  # neither a statement nor a row has told its columns
        bounds_of(state, found)
        return spark.createDataFrame([], struct_type([]))
    if not found.version.key:
        return changes(spark, log, found.table)
    basis = basis_of(log, found.table)
    if basis.bounds.stale:
        warnings.warn(
            f"{found.table}: its rows since {basis.bounds.until} are not known yet; this is the state at that number",
            stacklevel=2,
        )
    return basis.state(spark).select(*(col(field.name) for field in basis.fields))


def bounds_of(state: LakeState, table: TableState) -> Bounds:
    """What the lake knows of a table. Raises `RelayError` (usage) if that is nothing yet."""
    place: Place | None = state.place
    if table.complete_from is not None and place is not None:
        return Bounds(table.reset, place.seq)
    if table.before is not None:
        return Bounds(table.before.reset, table.before.until, stale=True)
    raise RelayError(
        ErrorCode.USAGE,
        f"read the state of {table.table}",
        "its rows from before the export are not in the lake" + (" yet" if table.snapshot is not None else ""),
        hint="`relay snapshot` brings them; once it is done the state is known",
    )


def basis_of(log: LakeLog, table: Table) -> Basis:
    """What the state of a table is made of now. Raises `RelayError` (usage) if the lake does not know its rows."""
    # Before the log, which then knows all that was merged, however fast others merge.
    last = pointers.newest(log.storage, table)
    state = log.state()
    found = find(state, table)
    return Basis(log.storage, found, bounds_of(state, found), last)


class Basis:
    """What the state of a table at `bounds.until` is made of; `last` is the newest merged version.

    `merged` is the last merged version, if the state follows from it and `changes`, the files with what came since;
    otherwise it is None, and `changes` are all files that count.
    """

    def __init__(self, storage: Storage, table: TableState, bounds: Bounds, last: Pointer | None) -> None:
        self.storage = storage
        self.table = table
        self.bounds = bounds
        counted = [file for file in table.files.values() if _counts(file, bounds)]
        self.version = self._version(counted)
        self.fields = self._fields()
        self.snapshot_rows = sum(file.rows for file in counted if file.kind == "snapshot")
        self.number = last.number + 1 if last else 1
        self.merged = last if last and self._follows(last) else None
        self.changes = counted
        if self.merged is not None:
            self.changes = [each for each in counted if each.kind == "changes" and each.last > self.merged.applied]

    def _version(self, counted: Sequence[DataFile]) -> TableVersion:
        if not self.bounds.stale:
            return self.table.version
        return self.table.versions[max((file.version for file in counted), default=len(self.table.versions)) - 1]

    def _fields(self) -> list[Field]:
        """The version's own columns and the sides with values; of the widest type that its generation has them in."""
        versions = [v for v in generations_of(self.table)[self.version.generation] if v.version <= self.version.version]
        names = {field.name for field in self.version.fields}
        return [field for field in generation_schema(versions, self.table.sides) if field.name in names]

    def _follows(self, last: Pointer) -> bool:
        return (
            last.reset == self.bounds.reset
            and last.snapshot_rows == self.snapshot_rows
            and last.applied <= self.bounds.until
            and last.version.generation == self.version.generation
            and last.version.key == self.version.key
        )

    def new_rows(self, spark: SparkSession) -> DataFrame:
        """The rows of `changes` that count, with `fields`, SEQ and KIND."""
        rows = rows_of(spark, self.storage, self.table, self.changes, [*self.fields, SEQ, KIND])
        rows = between(rows, self.merged.applied if self.merged else None, self.bounds.until)
        snapshot = (col(KIND.name) == "snapshot") & (col(SEQ.name) == self.bounds.reset)
        return rows.where((col(SEQ.name) > self.bounds.reset) | snapshot).where(col(KIND.name).isin(*_IMAGES))

    def state(self, spark: SparkSession, files: Sequence[BucketFile] | None = None) -> DataFrame:
        """The rows of the table, with `fields` and SEQ; where `files` of the merged version are given, of their buckets
        only, which are all that there are changes for."""
        before = None
        if self.merged is not None:
            paths = [file.path for file in (self.merged.files if files is None else files)]
            before = read(spark, self.storage, paths, [*self.fields, SEQ])
            if not self.changes:
                return before
        return fold(self.new_rows(spark), self.fields, self.version.key, before)


def _counts(file: DataFile, bounds: Bounds) -> bool:
    above = file.last > bounds.reset or (file.kind == "snapshot" and file.last == bounds.reset)
    return above and file.first <= bounds.until


def fold(rows: DataFrame, fields: Sequence[Field], key: Sequence[str], before: DataFrame | None = None) -> DataFrame:
    """The state after changes, from the state `before` them (`fields` and SEQ), and rows with these and KIND.

    Of each key the last row counts, if it is one that stays. An update's two images have one number, and the later one
    counts; a snapshot's row has seen the change whose number it has. Keys are told apart by their side columns too:
    values that no column can hold are NULL in the key's own.
    """
    keys = key_columns(fields, key)
    columns = [*(field.name for field in fields), SEQ.name, KIND.name]
    rank = f.when(col(KIND.name) == "snapshot", 2).when(col(KIND.name) == "update_preimage", 0).otherwise(1)
    last = unused("_last", columns)
    picked = f.max_by(f.struct(*map(col, columns)), f.struct(col(SEQ.name), rank)).alias(last)
    newest = rows.groupBy(*map(col, keys)).agg(picked).select(f"{last}.*")
    state = newest.where(col(KIND.name).isin(*_STAYS)).drop(KIND.name)
    if before is None:
        return state
    # Few changes to a large table: what did not change is not to be sorted with them.
    changed = {name: unused(f"_changed_{place}", columns) for place, name in enumerate(keys)}
    same = [col(name).eqNullSafe(col(other)) for name, other in changed.items()]
    others = newest.select(*(col(name).alias(other) for name, other in changed.items()))
    return before.join(others, same, "left_anti").unionAll(state)
