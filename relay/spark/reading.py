"""Files of the lake as DataFrames, and their paths for Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from relay.lake.documents import Field
from relay.lake.scan import SMALL_BYTES
from relay.lake.storage import Storage
from relay.spark.schema import struct_type
from relay.spark.small_files import read_small

OPTIONS: Final = {
    # No setting of the session may drop rows, or shift dates before 1582.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Options for every reading of the lake's files."""


_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTING_TASKS: Final = 32

MANY: Final = 64
"""So many files of less than SMALL_BYTES are read by the driver, up to these limits."""

MOST_BYTES: Final = 32 << 20
MOST_VALUES: Final = 8 << 20  # some 200 MB in the driver's JVM, which has 1 GB by default


class LakeFile(Protocol):
    """A file by its name in the lake, with its sizes."""

    @property
    def path(self) -> str:
        """The name."""

    @property
    def bytes(self) -> int:
        """The size."""

    @property
    def rows(self) -> int:
        """Its rows."""


F = TypeVar("F", bound=LakeFile)


def read_files(spark: SparkSession, storage: Storage, files: Iterable[LakeFile], fields: Sequence[Field]) -> DataFrame:
    """Read files of the lake with these fields; a field that a file lacks is NULL in its rows.

    Spark gets a list of files instead of folders: so it infers nothing from folders, and reads only files that a
    document names.
    """
    schema = struct_type(fields)
    here, others = split_small(files, len(schema))
    parts = [read_small(spark, storage, [file.path for file in here], fields)] if here else []
    if others:
        parts.append(read_parquet(spark, storage, [file.path for file in others], schema))
    return reduce(DataFrame.unionAll, parts) if parts else spark.createDataFrame([], schema)


def are_few(files: Iterable[LakeFile], columns: int) -> bool:
    """Whether the driver can read all of the files."""
    return not _within_limits(files, columns, MOST_BYTES + 1)[1]


def split_small(files: Iterable[F], columns: int) -> tuple[list[F], list[F]]:
    """Return small files that the driver reads, since there are many, and all others."""
    small, others = _within_limits(files, columns, SMALL_BYTES)
    return (small, others) if len(small) >= MANY else ([], small + others)


def _within_limits(files: Iterable[F], columns: int, below: int) -> tuple[list[F], list[F]]:
    """Return the files of less than `below` bytes that the driver can read at once, and all others."""
    small: list[F] = []
    others: list[F] = []
    size = values = 0
    for file in files:
        more = size + file.bytes, values + file.rows * columns
        if file.bytes < below and more[0] <= MOST_BYTES and more[1] <= MOST_VALUES:
            size, values = more
            small.append(file)
        else:
            others.append(file)
    return small, others


def read_parquet(
    spark: SparkSession, storage: Storage, names: Iterable[str], schema: StructType, **options: str
) -> DataFrame:
    """Read files with Spark's own reader, which has tasks list them first: some tasks, not one for each file."""
    before = spark.conf.get(_LISTING)
    spark.conf.set(_LISTING, str(min(int(before or _LISTING_TASKS), _LISTING_TASKS)))
    try:
        paths = [spark_path(storage, name) for name in names]
        return spark.read.schema(schema).options(**OPTIONS, **options).parquet(*paths)
    finally:
        spark.conf.set(_LISTING, before)


def spark_path(storage: Storage, name: str) -> str:
    """Return the path of a file for Spark, with escapes, since Spark treats paths as patterns."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", storage.url(name))
