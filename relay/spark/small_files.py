"""Many small files as one DataFrame: the driver reads them with pyarrow, and Spark gets their rows.

Spark itself opens a file in the time in which it reads some MiB, and lists each file before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from relay.lake import scan
from relay.lake.documents import Field
from relay.lake.storage import Storage
from relay.spark.schema import arrow_schema, struct_type

if TYPE_CHECKING:
    import pyarrow


def read_small(spark: SparkSession, storage: Storage, names: Sequence[str], fields: Sequence[Field]) -> DataFrame:
    """Read files by their names in the lake, with these fields. Memory holds all rows, here and in the driver's JVM."""
    types = {field.name: field.type for field in fields}
    schema = arrow_schema(struct_type(fields))
    files = scan.Files(storage.url(), list(names), -1, None, types, {}, small=True)
    return from_arrow(spark, scan.read(files, types, schema, storage), fields)


def from_arrow(spark: SparkSession, batches: Iterable[pyarrow.RecordBatch], fields: Sequence[Field]) -> DataFrame:
    """Return Arrow's rows as a DataFrame with these fields."""
    import pyarrow as pa

    spark_schema = struct_type(fields)
    schema = arrow_schema(spark_schema)
    rows = pa.Table.from_batches([batch.select(schema.names).cast(schema) for batch in batches], schema)
    if not rows.num_rows:  # pyspark fails to convert times of no batch
        return spark.createDataFrame([], spark_schema)
    return spark.createDataFrame(rows.combine_chunks(), spark_schema)
