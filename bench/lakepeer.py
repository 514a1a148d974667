"""The usual program with mysql-replication and pyarrow: events to lists, lists to columns, columns to Parquet.

It does what the exporter does, as well as these two libraries allow: one list of columns per batch rather than one
`pyarrow.Table.from_pylist`, whole row groups, zstd at the same level, the same columns beside the table's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.readers import library_stream
from bench.shapes import Shape
from relay.lake.writer import ROW_GROUP_ROWS

NARROW = (pa.int64(), pa.int32(), pa.decimal128(10, 2), pa.timestamp("us"), pa.string())
WIDE = (
    *(pa.int64(), pa.int32(), pa.int64(), pa.int16(), pa.int8(), pa.int64(), pa.float64(), pa.float32()),
    *(pa.decimal128(10, 2), pa.decimal128(20, 6), pa.timestamp("us"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(pa.date32(), pa.duration("us"), pa.int16(), pa.string(), pa.string(), pa.string(), pa.string()),
)
TYPES = {"narrow": NARROW, "wide": WIDE}
CHANGE = (
    ("_change_type", pa.string()), ("_commit_timestamp", pa.timestamp("s", "UTC")), ("_seq", pa.int64()),
    ("_file", pa.string()), ("_pos", pa.int64()),
)  # fmt: skip


def export(shape: Shape, rows: int, file: Path) -> float:
    """Seconds for the first `rows` rows of a shape's binlog, from the socket to a closed Parquet file."""
    begin = time.perf_counter()
    stream = library_stream(shape)
    types = TYPES[shape.name]
    names = [f"c{number}" for number in range(len(types))]
    schema = pa.schema([*zip(names, types, strict=True), *CHANGE])
    schema = pa.schema([field.with_type(pa.int64()) if field.type == pa.duration("us") else field for field in schema])
    done = 0
    with closing(stream), pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
        values: list[Iterable[Any]] = []
        events: list[tuple[int, int, int]] = []  # rows, time, position
        gathered = 0
        for event in stream:
            values += [row["values"].values() for row in event.rows]
            events.append((len(event.rows), event.timestamp, event.packet.log_pos))
            gathered += len(event.rows)
            if gathered >= ROW_GROUP_ROWS or done + gathered >= rows:
                writer.write_table(_table(schema, types, values, events, done, shape.file))
                done += gathered
                values, events, gathered = [], [], 0
            if done >= rows:
                break
    return (time.perf_counter() - begin) * rows / done


def _table(
    schema: pa.Schema,
    types: Sequence[pa.DataType],
    values: list[Iterable[Any]],
    events: list[tuple[int, int, int]],
    first: int,
    file: str,
) -> pa.Table:
    count = len(values)
    columns = [pa.array(column, kind) for column, kind in zip(zip(*values, strict=True), types, strict=True)]
    times = pa.array(chain.from_iterable(repeat(when, rows) for rows, when, _ in events), pa.timestamp("s", "UTC"))
    places = pa.array(chain.from_iterable(repeat(place, rows) for rows, _, place in events), pa.int64())
    columns += [
        pa.repeat(pa.scalar("insert"), count), times, pa.array(range(first, first + count), pa.int64()),
        pa.repeat(pa.scalar(file), count), places,
    ]  # fmt: skip
    columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)
