"""Many small files as one DataFrame: the driver reads them with pyarrow, and Spark gets their rows.

Spark itself opens a file in the time in which it reads some MiB, and lists each file before.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from relay.lake import scan
from relay.lake.documents import Field
from relay.lake.storage import Storage
from relay.spark.schema import arrow_schema, struct_type


def read_small(spark: SparkSession, storage: Storage, names: Sequence[str], fields: Sequence[Field]) -> DataFrame:
    """Read files by their names in the lake, with these fields. Memory holds all rows, here and in the driver's JVM."""
    import pyarrow as pa

    types = {field.name: field.type for field in fields}
    spark_schema = struct_type(fields)
    schema = arrow_schema(spark_schema)
    files = scan.Files(storage.url(), list(names), -1, None, types, {}, small=True)
    rows = pa.Table.from_batches(scan.read(files, types, schema, storage), schema)
    return spark.createDataFrame(rows.combine_chunks(), spark_schema)
