"""Data files of an open table: written with statistics, and read again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.lake.arrow import pyarrow
from relay.lake.delta.actions import Add
from relay.lake.documents import Field
from relay.lake.storage import Storage
from relay.lake.types import arrow_type
from relay.lake.values import converted

ROW_GROUP_ROWS: Final = 128 * 1024
_ORDERED: Final = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
"""The lake's types of columns with a least and a greatest value in the statistics."""

_MOST_TEXT: Final = 64  # characters of a text in the statistics

Value = int | str


class Statistics(msgspec.Struct, frozen=True, rename="camel"):
    """The statistics of a data file: the number of its rows, deleted ones included, and bounds of its values."""

    num_records: int
    min_values: dict[str, Value] = {}
    max_values: dict[str, Value] = {}
    null_count: dict[str, int] = {}
    tight_bounds: bool = True


def schema_of(fields: Sequence[Field]) -> pyarrow.Schema:
    """Return the Arrow schema of the data files."""
    return pyarrow.schema([(field.name, arrow_type(field.type)) for field in fields])


def write(storage: Storage, folder: str, rows: pyarrow.Table, fields: Sequence[Field], key: str) -> Add:
    """Write rows as one durable file with an unused name. `key` is the column by which they are mostly selected."""
    name = f"part-{uuid.uuid4()}.parquet"
    texts = [field.name for field in fields if field.type == "string"]
    with storage.writer(f"{folder}/{name}") as file:
        with pyarrow.parquet.ParquetWriter(
            file, rows.schema, compression="zstd", use_dictionary=texts, store_schema=False, write_statistics=True
        ) as writer:
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        size = file.bytes
    stats = msgspec.json.encode(statistics(rows, fields, key)).decode()
    return Add(name, size, int(time.time() * 1000), stats, True)


def statistics(rows: pyarrow.Table, fields: Sequence[Field], key: str) -> Statistics:
    """Return the statistics of rows: bounds of integers and dates, and of the key if it is a short text."""
    least: dict[str, Value] = {}
    greatest: dict[str, Value] = {}
    nulls: dict[str, int] = {}
    for field in fields:
        if field.type in _ORDERED or (field.name == key and field.type == "string"):
            bounds = bounds_of(rows[field.name])
            nulls[field.name] = rows[field.name].null_count
            if bounds is not None:
                least[field.name], greatest[field.name] = bounds
    return Statistics(rows.num_rows, least, greatest, nulls)


def bounds_of(column: pyarrow.ChunkedArray) -> tuple[Value, Value] | None:
    """Return the least and the greatest value as in the statistics; None if the statistics have none."""
    kind = column.type
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_date(kind) or pyarrow.types.is_string(kind)):
        return None
    found: dict[str, Any] = pyarrow.compute.min_max(column).as_py()
    low, high = found["min"], found["max"]
    if low is None:
        return None
    if isinstance(low, str):
        return (low, high) if max(len(low), len(high)) <= _MOST_TEXT else None
    return (low, high) if isinstance(low, int) else (low.isoformat(), high.isoformat())


def statistics_of(add: Add) -> Statistics:
    """Return the statistics that the log has of a file."""
    return msgspec.json.decode(add.stats, type=Statistics)


def read(storage: Storage, folder: str, add: Add, fields: Sequence[Field]) -> pyarrow.Table:
    """Return all rows of a file, deleted ones included, with these fields; NULL for columns that it lacks.

    Raises RelayError (lake_damaged) if the file is missing or cannot be read.
    """
    names = [field.name for field in fields]
    name = f"{folder}/{add.path}"
    try:
        with storage.arrow_source(name) as source, pyarrow.parquet.ParquetFile(source) as file:
            stored = [name for name in names if name in file.schema_arrow.names]
            rows = file.read(columns=stored)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise RelayError(
            StopCode.LAKE_DAMAGED, "read an open table", error, position=storage.url(name),
            hint=f"delete the folder {storage.url(folder)}: the relay makes the table again",
        ) from error  # fmt: skip
    schema = schema_of(fields)
    columns = [
        rows[field.name].cast(field.type) if field.name in stored else pyarrow.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pyarrow.table(columns, schema=schema)


def conformed(rows: pyarrow.Table, old: Sequence[Field], new: Sequence[Field]) -> pyarrow.Table:
    """Return rows with the fields `old` as rows with the fields `new`, values converted to the new types."""
    types = {field.name: field.type for field in old}
    schema = schema_of(new)
    columns = []
    for field in new:
        if field.name not in types:
            columns.append(pyarrow.nulls(rows.num_rows, schema.field(field.name).type))
        elif types[field.name] == field.type:
            columns.append(rows[field.name])
        else:
            columns.append(converted(rows[field.name].combine_chunks(), types[field.name], field.type)[0])
    return pyarrow.table(columns, schema=schema)
