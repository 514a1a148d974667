"""Read files of a lake with pyarrow, with the columns and types that the caller asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from relay.lake.storage import Storage, open_storage
from relay.lake.types import META_FIELDS, arrow_type
from relay.lake.values import converted

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

BATCH_ROWS: Final = 64 * 1024
_META: Final = {field.name: field.type for field in META_FIELDS}


@dataclass
class Files:
    """The rows of `paths` with start < `_seq` <= end, or all after start without `end`. Pickled for the tasks.

    `types` are the column types of the files' generation. `texts` maps some columns to the column with the texts of
    values that the newest type cannot hold.
    """

    lake: str  # its URL: a relative path may differ in an executor
    paths: list[str]
    start: int
    end: int | None
    types: dict[str, str]
    texts: dict[str, str]


def read(files: Files, types: Mapping[str, str], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows, file by file, with the columns of `schema`. Only these columns and `_seq` are read.

    `types` are the lake's types of the columns.
    """
    storage = open_storage(files.lake)
    for path in files.paths:
        yield from read_file(storage, path, files, types, schema)


def read_file(
    storage: Storage, path: str, files: Files, types: Mapping[str, str], schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of one of the files; see `read`."""
    import pyarrow.parquet as pq

    with storage.arrow_source(path) as source, pq.ParquetFile(source) as file:
        stored = set(file.schema_arrow.names)
        columns = [name for name in dict.fromkeys([*types, "_seq"]) if name in stored]
        groups = [group for group in range(file.num_row_groups) if _overlaps(file.metadata, group, files)]
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns):
            rows = _within(batch, files)
            if rows.num_rows:
                yield _with_schema(rows, files, types, schema)


def _overlaps(metadata: pyarrow.parquet.FileMetaData, group: int, files: Files) -> bool:
    """Whether a row group may have rows in the range."""
    columns = metadata.row_group(group)
    for index in range(columns.num_columns):
        column = columns.column(index)
        if column.path_in_schema == "_seq" and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.max > files.start and (files.end is None or column.statistics.min <= files.end)
    return True


def _within(batch: pyarrow.RecordBatch, files: Files) -> pyarrow.RecordBatch:
    import pyarrow.compute as pc

    inside = pc.greater(batch["_seq"], files.start)
    if files.end is not None:
        inside = pc.and_(inside, pc.less_equal(batch["_seq"], files.end))
    return batch.filter(inside)


def _with_schema(
    rows: pyarrow.RecordBatch, files: Files, requested: Mapping[str, str], arrow_schema: pyarrow.Schema
) -> pyarrow.RecordBatch:
    """Convert rows to the requested types; texts of values that do not fit go to the `texts` columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = files.types | _META
    made: dict[str, pyarrow.Array] = {}
    lost: dict[str, pyarrow.Array] = {}
    for name, kind in requested.items():
        if name in rows.schema.names:
            stored = types.get(name, kind)  # a side column without values has no type yet
            made[name], lost[name] = converted(rows[name].cast(arrow_type(stored)), stored, kind)
    for name, texts in lost.items():
        text = files.texts.get(name, "")
        if text in requested and texts.null_count < len(texts):
            made[text] = pc.coalesce(made[text], texts) if text in made else texts
    columns = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(rows.num_rows, field.type)
        for field in arrow_schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema)
