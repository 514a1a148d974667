"""Seals Arrow batches of one table, version and date as one Parquet file of the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake import paths
from relay.lake.arrow import pyarrow
from relay.lake.documents import ChangeKind, DataFile, TableVersion
from relay.lake.storage import Storage
from relay.lake.types import file_schema

ROW_GROUP_ROWS: Final = 512 * 1024
ROW_GROUP_BYTES: Final = 64 << 20  # of Arrow columns: the memory of one reader task, and the unit of skipping
_RISING: Final = ("_commit_version", "_commit_timestamp", "_seq", "_pos")


def seal(
    storage: Storage,
    version: TableVersion,
    date: str,
    kind: ChangeKind,
    batches: Sequence[pyarrow.RecordBatch],
    chunk: str = "",
) -> DataFile:
    """Write `batches`, with at least one row in all, as one file that is durable on return.

    The batches have the columns of `types.file_schema` in that order, whatever their names, with or without
    `_schema_version`; `chunk` is as in `paths.part_name`. The same rows make the same bytes, however they are divided
    into batches.
    """
    schema = file_schema(version)
    table = pyarrow.Table.from_batches([_conformed(batch, version, schema) for batch in batches])
    bounds = pyarrow.compute.min_max(table["_seq"])
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    path = paths.part_name(version.table, date, kind, first, last, version.version, chunk)
    group = max(1, min(ROW_GROUP_ROWS, ROW_GROUP_BYTES * table.num_rows // max(1, table.nbytes)))
    with storage.writer(path) as file:
        with pyarrow.parquet.ParquetWriter(file, table.schema, **_options(table.schema)) as writer:
            writer.write_table(table, row_group_size=group)
        size, digest = file.bytes, file.sha256
    return DataFile(
        path=path,
        table=version.table,
        version=version.version,
        date=date,
        kind=kind,
        first=first,
        last=last,
        rows=table.num_rows,
        bytes=size,
        sha256=digest,
        sides=[field.name for field in version.fields if field.side and table[field.name].null_count < table.num_rows],
    )


def _options(schema: pyarrow.Schema) -> dict[str, Any]:
    repeating = [field.name for field in schema if pyarrow.types.is_dictionary(field.type)]
    return {
        "compression": "zstd",
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
        "store_schema": False,  # Spark reads the Parquet types; Arrow's schema would only add the dictionaries
    }


def _conformed(batch: pyarrow.RecordBatch, version: TableVersion, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return the batch with the names and types of the file's `schema`, and with `_schema_version`."""
    columns = list(batch.columns)
    if len(columns) == len(schema) - 1:
        columns.append(pyarrow.repeat(pyarrow.scalar(version.version, pyarrow.int32()), batch.num_rows))
    if len(columns) != len(schema):
        raise RelayError(
            ErrorCode.UNEXPECTED, "write Parquet",
            f"{len(batch.columns)} columns where version {version.version} has {len(schema)}",
            position=str(version.table),
        )  # fmt: skip
    fitting = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.record_batch(fitting, names=schema.names)
