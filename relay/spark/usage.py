"""How many rows changed: by table, kind and hour, over the files of a lake."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from relay.errors import ErrorCode, RelayError
from relay.lake import paths
from relay.lake.documents import LakeState, Table
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.spark import plot as plots
from relay.spark.counts import KINDS, UsageRow, text
from relay.spark.reading import OPTIONS, path

_OF_CHANGE_TYPE: Final = {
    "insert": "insert",
    "update_postimage": "update",
    "delete": "delete",
    "snapshot": "snapshot",
}
_STORED: Final = t.StructType(
    [
        t.StructField("_change_type", t.StringType()),
        t.StructField("_commit_timestamp", t.TimestampType()),
        # Of the folders' names: since their type is given, nothing of them is inferred.
        t.StructField("cdc_schema", t.StringType()),
        t.StructField("cdc_table", t.StringType()),
    ]
)
_COUNTED: Final = t.StructType(
    [
        t.StructField("schema", t.StringType()),
        t.StructField("table", t.StringType()),
        t.StructField("kind", t.StringType()),
        t.StructField("hour", t.TimestampType()),
        t.StructField("rows", t.LongType()),
    ]
)
_WRITTEN: Final = pa.schema(
    {
        "schema": pa.string(),
        "table": pa.string(),
        "kind": pa.string(),
        "hour": pa.timestamp("us", "UTC"),
        "rows": pa.int64(),
    }
)


def run(spark: SparkSession, lake: str, tables: Sequence[Table], options: Mapping[str, str]) -> Iterator[str]:
    """Count, and give the table. Options: `out`, a .csv or .parquet file, and `plot`, a .png or .html file."""
    log = LakeLog(open_storage(lake))
    rows = collected(usage(spark, log.storage, log.state(), tables))
    yield text(rows)
    if out := options.get("out"):
        write(rows, Path(out))
        yield f"rows: {out}"
    if plot := options.get("plot"):
        put(Path(plot), plots.html(rows, lake) if plot.endswith(".html") else plots.png(rows))
        yield f"plot: {plot}"


def usage(spark: SparkSession, storage: Storage, state: LakeState, tables: Collection[Table]) -> DataFrame:
    """Rows by `schema`, `table`, `kind` and `hour` (timestamp), over the files of `tables`.

    Each change counts in the hour of its transaction on the source, each row of a snapshot in the hour in which it was
    read.
    """
    files = [file for table in state.tables.values() if table.table in tables for file in table.files.values()]
    if not files:
        return spark.createDataFrame([], _COUNTED)
    kind = f.lit("marker")
    for change_type, name in _OF_CHANGE_TYPE.items():
        kind = f.when(f.col("_change_type") == change_type, name).otherwise(kind)
    seconds = f.unix_seconds("_commit_timestamp")
    return (
        spark.read.schema(_STORED)
        .options(**OPTIONS, basePath=storage.url(paths.CHANGES))
        .parquet(*(path(storage, file.path) for file in files))
        .where(f.col("_change_type") != "update_preimage")
        .select(
            f.col("cdc_schema").alias("schema"),
            f.col("cdc_table").alias("table"),
            kind.alias("kind"),
            f.timestamp_seconds(seconds - seconds % 3600).alias("hour"),
        )
        .groupBy("schema", "table", "kind", "hour")
        .agg(f.count("*").alias("rows"))
    )


def collected(counts: DataFrame) -> list[UsageRow]:
    """The rows of `usage`, at the driver, by hour, table and kind: one for each of these, so never many."""
    found = (UsageRow(**row) for row in counts.toArrow().to_pylist())
    utc = (row._replace(hour=row.hour.astimezone(UTC).replace(tzinfo=None)) for row in found)
    return sorted(utc, key=lambda row: (row.hour, row.schema, row.table, KINDS.index(row.kind)))


def write(rows: Sequence[UsageRow], file: Path) -> None:
    """Write the rows as CSV, or as Parquet if the file's name ends in .parquet; hours are in UTC."""
    columns = {name: [getattr(row, name) for row in rows] for name in UsageRow._fields}
    table = pa.table(columns | {"hour": [row.hour.replace(tzinfo=UTC) for row in rows]}, schema=_WRITTEN)
    sink = pa.BufferOutputStream()
    if file.suffix == ".parquet":
        pyarrow.parquet.write_table(table, sink)
    else:
        pyarrow.csv.write_csv(table, sink)
    put(file, sink.getvalue().to_pybytes())


def put(file: Path, data: bytes) -> None:
    """Write a file whole, in place of one that was there. Raises `RelayError` (usage) where that cannot be."""
    written = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        written.write_bytes(data)
        written.rename(file)
    except OSError as error:
        hint = "name a file in a folder that is there, and may be written to"
        raise RelayError(ErrorCode.USAGE, "write the usage", error, hint=hint) from error
