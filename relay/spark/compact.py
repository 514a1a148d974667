"""Compaction: merges many small files of a lake into few larger ones, through its log.

A task on an executor reads consecutive files of one table, version, date and kind, and writes them as one file; a
commit replaces them. Until that commit the lake is unchanged; a file that is written and not committed is a leftover
(relay.lake.leftovers). Rows, their order and their `_seq` do not change. Readers with an older state still find the
replaced files until they are deleted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.lake.documents import ChangeKind, DataFile, Table, TableState, TableVersion
from relay.lake.leftovers import GRACE_SECONDS, delete_leftovers
from relay.lake.log import Conflict, LakeLog, fault
from relay.lake.storage import open_storage
from relay.lake.tables import find_table
from relay.lake.types import file_schema
from relay.spark.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES: Final = 64 << 20
"""The target size of compacted files. A task holds the columns of one file in memory, several times larger."""

_GROUPS_A_TASK: Final = 4  # groups that an executor merges in a round, before the commit


class Group(msgspec.Struct, frozen=True):
    """Files that are merged into one, in the order of their rows."""

    version: TableVersion
    date: str
    kind: ChangeKind
    files: list[DataFile]


class Compacted(msgspec.Struct):
    """The result: `files` of `bytes` were replaced by `into_files` of `into_bytes`."""

    files: int = 0
    bytes: int = 0
    into_files: int = 0
    into_bytes: int = 0

    def __str__(self) -> str:
        """Return a summary for people."""
        if not self.files:
            return "nothing to merge"
        return f"{self.files:,} files of {self.bytes:,} bytes became {self.into_files:,} of {self.into_bytes:,}"


def run(
    spark: SparkSession, lake: str, tables: Sequence[Table], options: Mapping[str, str], progress: Progress
) -> Iterator[str]:
    """Compact tables and delete leftovers; yield a line for each step.

    Options: `target` (bytes) and `grace` (seconds).
    """
    log = LakeLog(open_storage(lake))
    target = int(options.get("target", TARGET_BYTES))
    for table in tables:
        begin = time.monotonic()
        done = compact(spark, log, table, target, progress)
        yield f"{table}: {done} ({time.monotonic() - begin:.1f} s)"
    deleted = delete_leftovers(log, float(options.get("grace", GRACE_SECONDS)))
    yield f"leftovers: {len(deleted):,} files deleted"


def plan(table: TableState, target: int = TARGET_BYTES) -> list[Group]:
    """Return the groups of files worth merging in a table.

    A file of half the target is large enough to stay. Smaller neighbours are merged once they reach half the target, or
    the largest of them has at most two thirds of their bytes. So each time that a row is written again, its file has
    grown by at least half, however often compaction runs.
    """
    versions = {version.version: version for version in table.versions}
    kinds: dict[tuple[int, str, ChangeKind, bool], list[DataFile]] = {}
    for file in sorted(table.files.values(), key=lambda file: (file.first, file.last, file.path)):
        # Files from before the last marker stay apart: readers of the current state skip them.
        gone = file.last < table.reset
        kinds.setdefault((file.version, file.date, file.kind, gone), []).append(file)
    return [
        Group(versions[version], date, kind, part)
        for (version, date, kind, _), files in kinds.items()
        for run in _runs(files, target)
        for part in _worthwhile(run, target)
    ]


def _runs(files: Iterable[DataFile], target: int) -> Iterator[list[DataFile]]:
    """Yield runs of neighbours with at most `target` bytes together.

    A run ends where the ranges of two files overlap.
    """
    run: list[DataFile] = []
    for file in files:
        fits = sum(each.bytes for each in run) + file.bytes <= target and not (run and file.first < run[-1].last)
        if run and (not fits or file.bytes * 2 >= target):
            yield run
            run = []
        if file.bytes * 2 < target:
            run.append(file)
    if run:
        yield run


def _worthwhile(run: list[DataFile], target: int) -> Iterator[list[DataFile]]:
    """Yield the run, or the parts on either side of its largest file that are worth merging."""
    size = sum(file.bytes for file in run)
    largest = max(run, key=lambda file: file.bytes, default=None)
    if largest is None or len(run) < 2:
        return
    if 2 * size >= target or 3 * largest.bytes <= 2 * size:
        yield run
        return
    index = run.index(largest)
    yield from _worthwhile(run[:index], target)
    yield from _worthwhile(run[index + 1 :], target)


def compact(
    spark: SparkSession, log: LakeLog, table: Table, target: int = TARGET_BYTES, progress: Progress | None = None
) -> Compacted:
    """Merge the groups of `plan` in parallel on the executors; each round is one commit.

    Raises RelayError (lake_damaged) for a file whose bytes do not match the log, after the other groups of that round
    are committed.
    """
    groups = plan(find_table(log.state(), table), target)
    done, began = Compacted(), time.monotonic()
    rows = [sum(file.rows for file in group.files) for group in groups]
    lake = log.storage.url()  # executors open it: a relative path may differ there
    step = spark.sparkContext.defaultParallelism * _GROUPS_A_TASK
    for begin in range(0, len(groups), step):
        part = groups[begin : begin + step]
        tried = (
            spark.sparkContext.parallelize(part, len(part)).map(lambda group: _merged_or_error(lake, group)).collect()
        )
        made = [(group, file) for group, file in zip(part, tried, strict=True) if isinstance(file, DataFile)]
        for group, file in _publish(log, made):
            done.files += len(group.files)
            done.bytes += sum(each.bytes for each in group.files)
            done.into_files += 1
            done.into_bytes += file.bytes
        for error in tried:
            if isinstance(error, RelayError):
                raise error
        if progress is not None:
            progress.at(str(table), sum(rows[: begin + step]), sum(rows), began)
    return done


def _merged_or_error(lake: str, group: Group) -> DataFile | RelayError:
    """Return the merged file of a group, or the error for a damaged one.

    Spark would retry an exception in a task.
    """
    try:
        return merge_files(lake, group)
    except RelayError as error:
        if error.code != StopCode.LAKE_DAMAGED:
            raise
        return error


def merge_files(lake: str, group: Group) -> DataFile:
    """Write the rows of a group's files as one file. Runs on an executor; the file counts once it is committed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from relay.lake.writer import seal

    storage = open_storage(lake)
    names = file_schema(group.version).names
    parts = []
    for file in group.files:
        if wrong := fault(storage, file):
            raise RelayError(StopCode.LAKE_DAMAGED, "compact", wrong, position=storage.url(file.path))
        with storage.arrow_source(file.path) as source, pq.ParquetFile(source) as parquet:
            parts.append(parquet.read().select(names))
    rows = pa.concat_tables(parts).combine_chunks().to_batches()
    chunk = f"compact-{uuid.uuid4().hex[:12]}"  # a new name, which no other attempt and no deletion uses
    made = seal(storage, group.version, group.date, group.kind, rows, chunk)
    if made.rows != (expected := sum(file.rows for file in group.files)):
        raise RelayError(
            ErrorCode.UNEXPECTED, "compact", f"{made.rows:,} rows of {expected:,}", position=str(group.version.table)
        )
    return made


def _publish(log: LakeLog, made: list[tuple[Group, DataFile]]) -> list[tuple[Group, DataFile]]:
    """Replace the files of groups in one commit, except groups that another process has replaced meanwhile."""
    while True:
        present = {path for table in log.state().tables.values() for path in table.files}
        valid = [(group, file) for group, file in made if all(each.path in present for each in group.files)]
        try:
            if valid:
                log.commit(
                    "compact",
                    add=[file for _, file in valid],
                    remove=[each.path for group, _ in valid for each in group.files],
                )
            break
        except Conflict:
            continue
    taken = {file.path for _, file in valid}
    for _, file in made:
        if file.path not in taken:
            log.storage.delete(file.path)
    return valid
