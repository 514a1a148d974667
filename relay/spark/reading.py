"""Files of the lake as DataFrames, and their paths for Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from relay.lake.documents import Field
from relay.lake.storage import Storage
from relay.spark.schema import struct_type

OPTIONS: Final = {
    # No setting of the session may drop rows, or shift dates before 1582.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Options for every reading of the lake's files."""


def read_files(spark: SparkSession, storage: Storage, names: Iterable[str], fields: Sequence[Field]) -> DataFrame:
    """Read files by their names in the lake, with these fields; a field that a file lacks is NULL in its rows.

    Spark gets a list of files instead of folders: so it infers nothing from folders, and reads only files that a
    document names.
    """
    schema = struct_type(fields)
    found = [spark_path(storage, name) for name in names]
    if not found:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).options(**OPTIONS).parquet(*found)


def spark_path(storage: Storage, name: str) -> str:
    """Return the path of a file for Spark, with escapes, since Spark treats paths as patterns."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", storage.url(name))
