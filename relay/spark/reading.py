"""Files of the lake as DataFrames: opens a lake, finds tables by name, and builds paths for Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from relay.base.errors import ErrorCode, RelayError
from relay.lake.documents import Field, LakeState, Table, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.spark.schema import struct_type

Lake = str | os.PathLike[str] | LakeLog
"""A lake's path or URL, or its open log."""

OPTIONS: Final = {
    # No setting of the session may drop rows, or shift dates before 1582.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Options for every reading of the lake's files."""


def open_log(lake: Lake) -> LakeLog:
    """Open the log of a lake."""
    return lake if isinstance(lake, LakeLog) else LakeLog(open_storage(os.fspath(lake)))


def find_table(state: LakeState, table: str | Table) -> TableState:
    """Find a table by its name, `schema.table`.

    Raises `RelayError` (usage) if there is none, or if several have that spelling.
    """
    found = [each for each in state.tables.values() if table in (each.table, str(each.table))]
    if len(found) == 1:
        return found[0]
    if found:
        cause = f"{len(found)} tables match {table}"
        hint = "give it as relay.lake.documents.Table(schema, table)"
    else:
        cause = f"the lake has no table {table}"
        known = sorted(str(each.table) for each in state.tables.values())
        hint = f"it has {', '.join(known[:10])}{' ...' if len(known) > 10 else ''}" if known else "it is empty"
    raise RelayError(ErrorCode.USAGE, "read the lake", cause, hint=hint)


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
