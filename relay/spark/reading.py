"""Files of the lake as DataFrames: opening a lake, tables by their names, and paths as Spark wants them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from relay.errors import ErrorCode, RelayError
from relay.lake.documents import Field, LakeState, Table, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.spark.schema import struct_type

Lake = str | os.PathLike[str] | LakeLog
"""A lake's path or URL, or one that was opened."""

OPTIONS: Final = {
    # What the session may say must not make rows vanish, or move dates before 1582.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""What every reading of the lake's files needs."""


def opened(lake: Lake) -> LakeLog:
    """The log of a lake."""
    return lake if isinstance(lake, LakeLog) else LakeLog(open_storage(os.fspath(lake)))


def find(state: LakeState, table: str | Table) -> TableState:
    """A table by its name, `schema.table`. Raises `RelayError` (usage) if there is none, or several are written so."""
    found = [each for each in state.tables.values() if table in (each.table, str(each.table))]
    if len(found) == 1:
        return found[0]
    if found:
        cause = f"{len(found)} tables are written {table}"
        hint = "name it as relay.lake.documents.Table(schema, table)"
    else:
        cause = f"the lake has no table {table}"
        known = sorted(str(each.table) for each in state.tables.values())
        hint = f"it has {', '.join(known[:10])}{' ...' if len(known) > 10 else ''}" if known else "it is empty"
    raise RelayError(ErrorCode.USAGE, "read the lake", cause, hint=hint)


def read(spark: SparkSession, storage: Storage, names: Iterable[str], fields: Sequence[Field]) -> DataFrame:
    """Files by their names in the lake, with these fields; one that a file lacks is NULL in its rows.

    Each file is named, none is looked for: so nothing is inferred from folders, and nothing counts that no document
    names.
    """
    schema = struct_type(fields)
    found = [path(storage, name) for name in names]
    if not found:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).options(**OPTIONS).parquet(*found)


def path(storage: Storage, name: str) -> str:
    """What Spark reads a file by. It takes paths for patterns; what would be one is escaped."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", storage.url(name))
