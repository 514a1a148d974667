"""Count changed rows by table, kind and hour, over the files of a lake."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from relay.base.errors import ErrorCode, RelayError
from relay.lake import paths
from relay.lake.documents import DataFile, LakeState, Table
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.spark import plot as plots
from relay.spark.counts import KINDS, UsageRow, text
from relay.spark.plot import HOUR, MINUTE
from relay.spark.progress import Progress
from relay.spark.reading import read_parquet
from relay.spark.schema import spark_type

_KIND_OF_CHANGE_TYPE: Final = {
    "insert": "insert", "update_postimage": "update", "delete": "delete", "snapshot": "snapshot",
}  # fmt: skip


def _struct_type(**types: str) -> t.StructType:
    return t.StructType([t.StructField(name, spark_type(kind)) for name, kind in types.items()])


# The last two are names of folders: with a given type, Spark does not infer one.
_STORED: Final = _struct_type(
    _change_type="string", _commit_timestamp="timestamp", cdc_schema="string", cdc_table="string"
)
_COUNTED: Final = _struct_type(schema="string", table="string", kind="string", begin="timestamp", rows="bigint")
_WRITTEN: Final = pa.schema({
    "schema": pa.string(), "table": pa.string(), "kind": pa.string(), "hour": pa.timestamp("us", "UTC"),
    "rows": pa.int64(),
})  # fmt: skip


def run(
    spark: SparkSession, lake: str, tables: Sequence[Table], options: Mapping[str, str], progress: Progress
) -> Iterator[str]:
    """Count, and yield the table. Options: `out`, a .csv or .parquet file, and `plot`, a .png or .html file."""
    log = LakeLog(open_storage(lake))
    state = log.state()

    def counted(period: timedelta) -> list[UsageRow]:
        with progress.reading(f"by {plots.NAMES[period]}", sum(file.rows for file in _files(state, tables))):
            return collected(usage(spark, log.storage, state, tables, period))

    rows = counted(HOUR)
    yield text(rows)
    if out := options.get("out"):
        write(rows, Path(out))
        yield f"rows: {out}"
    if plot := options.get("plot"):
        drawn, period = rows, HOUR
        if plots.span(rows, HOUR) <= plots.SHORT:
            drawn, period = counted(MINUTE), MINUTE
        html = plot.endswith(".html")
        replace_file(Path(plot), plots.html(drawn, period, rows, lake) if html else plots.png(drawn, period))
        yield f"plot: {plot}"


def usage(
    spark: SparkSession, storage: Storage, state: LakeState, tables: Collection[Table], period: timedelta = HOUR
) -> DataFrame:
    """Rows by `schema`, `table`, `kind` and `begin` of the period (timestamp), over the files of `tables`.

    A change counts at the time of its transaction on the source, a snapshot row at the time at which it was read.
    """
    files = _files(state, tables)
    if not files:
        return spark.createDataFrame([], _COUNTED)
    kind = f.lit("marker")
    for change_type, name in _KIND_OF_CHANGE_TYPE.items():
        kind = f.when(f.col("_change_type") == change_type, name).otherwise(kind)
    seconds, length = f.unix_seconds("_commit_timestamp"), int(period.total_seconds())
    return (
        read_parquet(spark, storage, (file.path for file in files), _STORED, basePath=storage.url(paths.CHANGES))
        .where(f.col("_change_type") != "update_preimage")
        .select(
            f.col("cdc_schema").alias("schema"),
            f.col("cdc_table").alias("table"),
            kind.alias("kind"),
            f.timestamp_seconds(seconds - seconds % length).alias("begin"),
        )
        .groupBy("schema", "table", "kind", "begin")
        .agg(f.count("*").alias("rows"))
    )


def _files(state: LakeState, tables: Collection[Table]) -> list[DataFile]:
    return [file for table in state.tables.values() if table.table in tables for file in table.files.values()]


def collected(counts: DataFrame) -> list[UsageRow]:
    """Collect the rows of `usage` by time, table and kind. They are few: one for each of these."""
    found = (UsageRow(**row) for row in counts.toArrow().to_pylist())
    utc = (row._replace(begin=row.begin.astimezone(UTC).replace(tzinfo=None)) for row in found)
    return sorted(utc, key=lambda row: (row.begin, row.schema, row.table, KINDS.index(row.kind)))


def write(rows: Sequence[UsageRow], file: Path) -> None:
    """Write the rows as CSV, or as Parquet if the file's name ends in .parquet; hours are in UTC."""
    hours = [row.begin.replace(tzinfo=UTC) for row in rows]
    names = [name for name in _WRITTEN.names if name != "hour"]
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    table = pa.table(columns | {"hour": hours}, schema=_WRITTEN)
    sink = pa.BufferOutputStream()
    if file.suffix == ".parquet":
        pyarrow.parquet.write_table(table, sink)
    else:
        pyarrow.csv.write_csv(table, sink)
    replace_file(file, sink.getvalue().to_pybytes())


def replace_file(file: Path, data: bytes) -> None:
    """Write or replace a file as a whole. Raises `RelayError` (usage) on failure."""
    written = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        written.write_bytes(data)
        written.rename(file)
    except OSError as error:
        hint = "give a file in an existing, writable folder"
        raise RelayError(ErrorCode.USAGE, "write the usage", error, hint=hint) from error
