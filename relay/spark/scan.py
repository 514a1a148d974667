"""Reads files of a lake with pyarrow, in the columns of a Spark schema. Runs in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from relay.lake.storage import open_storage

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet
    from pyspark.sql.types import StructType

BATCH_ROWS: Final = 64 * 1024


def read(
    lake: str, paths: Sequence[str], start: int, end: int | None, schema: StructType
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of `paths` with start < `_seq` <= end, file by file, with the columns of `schema` and no others."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import to_arrow_schema

    storage = open_storage(lake)
    wanted = to_arrow_schema(schema, timezone="UTC")
    for path in paths:
        with storage.arrow_source(path) as source, pq.ParquetFile(source) as file:
            present = [name for name in dict.fromkeys([*wanted.names, "_seq"]) if name in file.schema_arrow.names]
            groups = [group for group in range(file.num_row_groups) if _overlaps(file.metadata, group, start, end)]
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=present):
                rows = _within(batch, start, end)
                if rows.num_rows:
                    yield _as(rows, wanted)


def _overlaps(metadata: pyarrow.parquet.FileMetaData, group: int, start: int, end: int | None) -> bool:
    """Whether a row group may have rows in the range."""
    columns = metadata.row_group(group)
    for place in range(columns.num_columns):
        column = columns.column(place)
        if column.path_in_schema == "_seq" and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.max > start and (end is None or column.statistics.min <= end)
    return True


def _within(batch: pyarrow.RecordBatch, start: int, end: int | None) -> pyarrow.RecordBatch:
    import pyarrow.compute as pc

    inside = pc.greater(batch["_seq"], start)
    if end is not None:
        inside = pc.and_(inside, pc.less_equal(batch["_seq"], end))
    return batch.filter(inside)


def _as(rows: pyarrow.RecordBatch, wanted: pyarrow.Schema) -> pyarrow.RecordBatch:
    import pyarrow as pa

    columns = [
        rows[field.name].cast(field.type) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
