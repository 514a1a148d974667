"""Reads files of a lake with pyarrow, in the columns of a Spark schema. Runs in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from relay.lake.storage import open_storage
from relay.lake.types import META_FIELDS, arrow_type
from relay.spark.values import converted

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet
    from pyspark.sql.types import StructType

BATCH_ROWS: Final = 64 * 1024
_META: Final = {field.name: field.type for field in META_FIELDS}


@dataclass
class Files:
    """The rows of `paths` with start < `_seq` <= end, all after start without an end; pickled to where they are read.

    `types` are those of the files' generation by column; `texts` names for some columns the one that has the texts of
    values that the column's newest type cannot hold.
    """

    lake: str  # its URL: a path relative to the driver's folder leads elsewhere in an executor
    paths: list[str]
    start: int
    end: int | None
    types: dict[str, str]
    texts: dict[str, str]


def read(files: Files, schema: StructType) -> Iterator[pyarrow.RecordBatch]:
    """The rows, file by file, with the columns of `schema`; of the files no others are read, but for `_seq`."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import to_arrow_schema

    storage = open_storage(files.lake)
    wanted = to_arrow_schema(schema, timezone="UTC")
    asked = {field.name: field.dataType.simpleString() for field in schema}
    for path in files.paths:
        with storage.arrow_source(path) as source, pq.ParquetFile(source) as file:
            stored = set(file.schema_arrow.names)
            columns = [name for name in dict.fromkeys([*asked, "_seq"]) if name in stored]
            groups = [group for group in range(file.num_row_groups) if _overlaps(file.metadata, group, files)]
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns):
                rows = _within(batch, files)
                if rows.num_rows:
                    yield _as(rows, files, asked, wanted)


def _overlaps(metadata: pyarrow.parquet.FileMetaData, group: int, files: Files) -> bool:
    """Whether a row group may have rows in the range."""
    columns = metadata.row_group(group)
    for place in range(columns.num_columns):
        column = columns.column(place)
        if column.path_in_schema == "_seq" and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.max > files.start and (files.end is None or column.statistics.min <= files.end)
    return True


def _within(batch: pyarrow.RecordBatch, files: Files) -> pyarrow.RecordBatch:
    import pyarrow.compute as pc

    inside = pc.greater(batch["_seq"], files.start)
    if files.end is not None:
        inside = pc.and_(inside, pc.less_equal(batch["_seq"], files.end))
    return batch.filter(inside)


def _as(rows: pyarrow.RecordBatch, files: Files, asked: dict[str, str], wanted: pyarrow.Schema) -> pyarrow.RecordBatch:
    """The rows in the types that were asked for, by those of their generation, and the texts of the rest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = files.types | _META
    made: dict[str, pyarrow.Array] = {}
    lost: dict[str, pyarrow.Array] = {}
    for name, kind in asked.items():
        if name in rows.schema.names:
            stored = types.get(name, kind)  # a side column without a value has no type yet
            made[name], lost[name] = converted(rows[name].cast(arrow_type(stored)), stored, kind)
    for name, texts in lost.items():
        if (text := files.texts.get(name)) in asked and texts.null_count < len(texts):
            made[text] = pc.coalesce(made[text], texts) if text in made else texts
    columns = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(rows.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
