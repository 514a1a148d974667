"""Merging: keeps the current state of tables in files of their own, and applies changes to them.

A merge reads the changes above what the last version has, folds them into the buckets that they fall into, and writes
those buckets into a new folder. A pointer then names these files and those of the other buckets as the table. No file
that counts is ever overwritten, so a kill at any moment leaves the old version or the new one.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.lake import paths
from relay.lake.columns import key_columns, unused_name
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import Storage
from relay.lake.tables import find_table, open_log
from relay.lake.types import arrow_type
from relay.spark import pointer as pointers
from relay.spark.current import Basis, basis_of, skip_reason
from relay.spark.into import merge_into
from relay.spark.pointer import BucketFile, Pointer
from relay.spark.progress import Progress
from relay.spark.schema import col
from relay.spark.vacuum import GRACE_SECONDS, vacuum

BUCKET_BYTES: Final = 32 << 20
"""The approximate Parquet bytes of a bucket: the least that a merge rewrites for a single change."""

RECENT_SHARE: Final = 1 / 8
"""Of the bytes of all buckets: as many changes are kept beside them."""

_ATTEMPTS: Final = 3


def run(
    spark: SparkSession, lake: str, tables: Sequence[Table], options: Mapping[str, str], progress: Progress
) -> Iterator[str]:
    """Merge tables; yield a summary line for each.

    Option `grace`: seconds that old versions stay. Option `into`: the table of a catalog that one table is merged into.
    """
    log = open_log(lake)
    if target := options.get("into"):
        if len(tables) != 1:
            raise RelayError(
                ErrorCode.USAGE, f"merge into {target}", f"{len(tables)} tables match", hint="give one with --table"
            )
        begin = time.monotonic()
        yield f"{tables[0]}: {merge_into(spark, log, tables[0], target, progress)} ({time.monotonic() - begin:.1f} s)"
        return
    for table in tables:
        begin = time.monotonic()
        done = merge(spark, log, table, grace=float(options.get("grace", GRACE_SECONDS)), progress=progress)
        yield f"{table}: {done} ({time.monotonic() - begin:.1f} s)"


def merge(
    spark: SparkSession,
    lake: LakeLog,
    table: Table,
    *,
    grace: float = GRACE_SECONDS,
    bucket_bytes: int = BUCKET_BYTES,
    progress: Progress | None = None,
) -> str:
    """Bring the merged version of a table to the end of the export; return a summary of the work.

    If several processes merge a table at once, one wins; the others continue from its version. A table is skipped if
    not all its rows are known, or if it has no primary key, since its rows are then its changes. Versions that are no
    longer read are deleted after `grace` seconds.

    Raises `RelayError` (lake_conflict) if others were faster each time; Spark's exceptions if its job fails.
    """
    for _ in range(_ATTEMPTS):
        if reason := skip_reason(find_table(lake.state(), table)):
            return f"skipped: {reason}"
        basis = basis_of(lake, table)
        if basis.bounds.stale:  # a reset came meanwhile
            continue
        if basis.merged is not None and not basis.changes:
            return f"nothing new, version {basis.merged.number} stays"
        folder = f"{paths.table_folder(table, paths.CURRENT)}/ver-{basis.number}-{uuid.uuid4().hex}"
        try:
            pointer, written = _write(spark, basis, folder, bucket_bytes, progress or Progress(spark))
        except (PySparkException, Py4JError, FileNotFoundError):
            # If another process took the number, vacuum may have deleted this folder.
            if _number_taken(lake.storage, basis):
                continue
            raise
        if pointers.publish(lake.storage, pointer):
            vacuum(lake.storage, table, grace)
            return _summary(basis, pointer, written)
        lake.storage.delete_folder(folder)
    raise RelayError(
        StopCode.LAKE_CONFLICT,
        f"merge {table}",
        f"other jobs published a version first, {_ATTEMPTS} times in a row",
        hint="let only one job at a time merge a table",
    )


def _number_taken(storage: Storage, basis: Basis) -> bool:
    """Whether another process has published the version that `basis` was to become."""
    return pointers.numbers(storage, basis.table.table)[-1:] >= [basis.number]


def _write(
    spark: SparkSession, basis: Basis, folder: str, bucket_bytes: int, progress: Progress
) -> tuple[Pointer, int]:
    """Write a version's files into `folder`; return its pointer and the number of buckets written."""
    merged = basis.merged
    buckets = _bucket_count(basis, bucket_bytes)
    if merged is not None and buckets == merged.buckets and _stay_recent(basis, merged):
        return basis.pointer(buckets, folder, merged.files, _write_recent(basis, folder)), 0
    keys = key_columns(basis.fields, basis.version.key)
    old: list[BucketFile] = merged.files if merged is not None else []
    kept: list[BucketFile] = []
    changes = sum(file.rows for file in basis.others)
    if merged is not None and buckets == merged.buckets:
        with progress.reading(f"{basis.table.table}: which buckets change", changes):
            found = basis.newest(spark).select(_bucket_column(keys, buckets)).distinct().collect()
        touched = {bucket for (bucket,) in found}
        old = [file for file in merged.files if file.bucket in touched]
        kept = [file for file in merged.files if file.bucket not in touched]
    written: list[BucketFile] = []
    if basis.changes:
        with progress.reading(str(basis.table.table), changes + sum(file.rows for file in old)):
            written = _write_buckets(basis.storage, basis.state(spark, old), keys, buckets, folder)
    return basis.pointer(buckets, folder, [*kept, *written]), len({file.bucket for file in written})


def _stay_recent(basis: Basis, merged: Pointer) -> bool:
    """Whether the changes are so few that writing the buckets anew would cost far more than they do."""
    size = sum(file.bytes for file in basis.recent) + sum(file.bytes for file in basis.changes)
    return basis.are_few and size <= merged.bytes * RECENT_SHARE


def _write_recent(basis: Basis, folder: str) -> list[BucketFile]:
    """Write the last row of each key that changed, as a file that is on disk on return; none if there is no row."""
    rows = pa.Table.from_batches(basis.fold_small(), pa.schema([(f.name, arrow_type(f.type)) for f in basis.columns]))
    if not rows.num_rows:
        return []
    name = f"{folder}/recent/part-0.parquet"
    with basis.storage.writer(name) as file:
        pq.write_table(rows, file, compression="zstd")
    return [BucketFile(-1, name, rows.num_rows, file.bytes)]


def _bucket_count(basis: Basis, bucket_bytes: int) -> int:
    """Return the number of buckets of the next version: a power of two that fits the size of the table.

    Changes give the size of a table only roughly, since many may affect one row. So the next merge corrects the first
    estimate, and the number changes once a table has grown or shrunk far beyond it.
    """
    merged = basis.merged
    size = merged.bytes if merged is not None else sum(file.bytes for file in basis.changes)
    wanted = 1 << max(0, (size - 1) // bucket_bytes).bit_length()
    if merged is not None and merged.buckets // 4 < wanted <= merged.buckets * 2:
        return merged.buckets
    return wanted


def _bucket_column(keys: Sequence[str], buckets: int) -> Column:
    return f.pmod(f.xxhash64(*map(col, keys)), f.lit(buckets)).cast("int")


def _write_buckets(
    storage: Storage, state: DataFrame, keys: Sequence[str], buckets: int, folder: str
) -> list[BucketFile]:
    """Write the rows of a table bucket by bucket, ordered by key, as files that are on disk on return."""
    bucket = unused_name("bucket", state.columns)
    (
        state.withColumn(bucket, _bucket_column(keys, buckets))
        .repartition(buckets, bucket)
        .sortWithinPartitions(bucket, *map(col, keys))
        .write.partitionBy(bucket)
        .option("compression", "zstd")
        .parquet(storage.url(folder))
    )
    files = []
    for name in storage.walk(folder):
        if found := re.fullmatch(r".*=(\d+)/[^./][^/]*\.parquet", name):
            with storage.arrow_source(name) as source, pq.ParquetFile(source) as parquet:
                rows = parquet.metadata.num_rows
            files.append(BucketFile(int(found[1]), name, rows, storage.size(name) or 0))
    storage.sync([file.path for file in files])
    return files


def _summary(basis: Basis, pointer: Pointer, written: int) -> str:
    came = _count_text(sum(file.rows for file in basis.changes), "row")
    what = f"{came} of changes" if basis.merged is not None else f"{came} from the beginning"
    has = f"version {pointer.number} has {_count_text(pointer.rows, 'row')}"
    buckets = _count_text(pointer.buckets, "bucket")
    if pointer.recent:
        return f"{has} in {buckets} and {sum(file.rows for file in pointer.recent):,} beside them: {what} merged"
    return f"{has}: {what} merged into {written} of {buckets}"


def _count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
