"""Read files of a lake with pyarrow, with the columns and types that the caller asks for."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from relay.base.errors import RelayError, StopCode
from relay.lake.documents import DataFile
from relay.lake.storage import Storage, open_storage
from relay.lake.types import META_FIELDS, arrow_type
from relay.lake.values import converted

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

BATCH_ROWS: Final = 64 * 1024

SMALL_BYTES: Final = 1 << 20
"""A file below it is small: opening it takes a good part of the time."""

PIECE_BYTES: Final = 8 << 20
PIECE_FILES: Final = 256
"""The most files that are read together, which memory holds."""
_META: Final = {field.name: field.type for field in META_FIELDS}


@dataclass
class Files:
    """The rows of `paths` with start < `_seq` <= end, or all after start without `end`. Pickled for the tasks.

    `types` are the column types of the files' generation. `texts` maps some columns to the column with the texts of
    values that the newest type cannot hold. `small` files are read at once, by threads, and converted together.
    """

    lake: str  # its URL: a relative path may differ in an executor
    paths: list[str]
    start: int
    end: int | None
    types: dict[str, str]
    texts: dict[str, str]
    small: bool = False


def read(
    files: Files, types: Mapping[str, str], schema: pyarrow.Schema, storage: Storage | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows in the order of the files, with the columns of `schema`. Only these columns and `_seq` are read.

    `types` are the lake's types of the columns. `storage` is the lake's, if it is open.
    """
    storage = storage or open_storage(files.lake)
    found = _read_together if files.small else _read_each
    for batch in found(storage, files, [*types, "_seq"]):
        rows = _within(batch, files)
        if rows.num_rows:
            yield _with_schema(rows, files, types, schema)


def pieces(files: Iterable[DataFile], generations: Mapping[int, int]) -> Iterator[list[DataFile]]:
    """Yield files in their order: small neighbours of one generation together, and each larger file alone.

    `generations` are those of the table's versions.
    """
    piece: list[DataFile] = []
    size = 0
    for file in files:
        same = piece and generations[piece[0].version] == generations[file.version]
        if not (same and size + file.bytes <= PIECE_BYTES and len(piece) < PIECE_FILES and file.bytes < SMALL_BYTES):
            if piece:
                yield piece
            piece, size = [], 0
        piece.append(file)
        size += file.bytes
    if piece:
        yield piece


def _read_each(storage: Storage, files: Files, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow.parquet as pq

    for path in files.paths:
        with _named(storage, path), storage.arrow_source(path) as source, pq.ParquetFile(source) as file:
            groups = [group for group in range(file.num_row_groups) if _overlaps(file.metadata, group, files)]
            yield from file.iter_batches(BATCH_ROWS, row_groups=groups, columns=_stored(file, names))


def _read_together(storage: Storage, files: Files, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def rows_of(path: str) -> pyarrow.Table:
        # A pool of threads for each small file costs more than the file.
        with (
            _named(storage, path),
            storage.arrow_source(path) as source,
            pq.ParquetFile(source, pre_buffer=False) as file,
        ):
            return file.read(_stored(file, names), use_threads=False).replace_schema_metadata()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _, alike in itertools.groupby(pool.map(rows_of, files.paths), lambda rows: rows.schema):
            yield from pa.concat_tables(alike).combine_chunks().to_batches()


@contextmanager
def _named(storage: Storage, path: str) -> Iterator[None]:
    """Name a file that pyarrow cannot read."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise  # of the file system
        raise RelayError(StopCode.LAKE_DAMAGED, "read the lake", error, position=storage.url(path)) from error


def _stored(file: pyarrow.parquet.ParquetFile, names: Sequence[str]) -> list[str]:
    """Return those of the columns that the file has."""
    stored = set(file.schema_arrow.names)
    return [name for name in dict.fromkeys(names) if name in stored]


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

    if files.start < 0 and files.end is None:
        return batch
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
