"""The codec of a checkpoint's parts: data files of a lake as rows of Parquet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from relay.lake.arrow import pyarrow
from relay.lake.documents import DataFile, Table

_PLAIN: Final = ("path", "version", "date", "kind", "first", "last", "rows", "bytes", "sha256", "sides")


def encoded(files: Sequence[DataFile]) -> bytes:
    """Return a Parquet file with one row for each file: `schema`, `table`, then the other fields of a DataFile."""
    columns: dict[str, list[Any]] = {name: [getattr(file, name) for file in files] for name in _PLAIN}
    columns["schema"] = [file.table.schema for file in files]
    columns["table"] = [file.table.table for file in files]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        pyarrow.table(columns, schema=_schema()), sink, compression="zstd",
        use_dictionary=["schema", "table", "date", "kind", "sides.list.element"],
        column_encoding={"path": "DELTA_BYTE_ARRAY"},
        store_schema=False,
    )  # fmt: skip
    return bytes(sink.getvalue())


def decoded(data: bytes) -> list[DataFile]:
    """Reverse `encoded`."""
    # Arrow's threads may abort a process that ends right behind (github.com/apache/arrow, issue 34314).
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), pre_buffer=False)
    rows = file.read(use_threads=False)
    plain = {name: rows[name].to_pylist() for name in rows.column_names if name != "sides"}
    plain["sides"] = _lists(rows["sides"])
    tables: dict[tuple[str, str], Table] = {}  # one object for each table, not for each file
    named = [
        tables.get(name) or tables.setdefault(name, Table(*name))
        for name in zip(plain["schema"], plain["table"], strict=True)
    ]
    return list(map(_file, named, *(plain[name] for name in _PLAIN)))


def _file(table: Table, path: str, *rest: Any) -> DataFile:
    return DataFile(path, table, *rest)


def _lists(column: pyarrow.ChunkedArray) -> list[list[str]]:
    """Return the lists of a column; equal ones are one object: the garbage collector would visit 100,000."""
    known: dict[tuple[str, ...], list[str]] = {}
    lists = []
    for chunk in column.chunks:
        values = chunk.values.to_pylist()
        for first, end in itertools.pairwise(chunk.offsets.to_pylist()):
            one = values[first:end]
            lists.append(known.setdefault(tuple(one), one))
    return lists


def _schema() -> pyarrow.Schema:
    text, number = pyarrow.string(), pyarrow.int64()
    return pyarrow.schema({
        "schema": text, "table": text, "path": text, "version": pyarrow.int32(), "date": text, "kind": text,
        "first": number, "last": number, "rows": number, "bytes": number, "sha256": text,
        "sides": pyarrow.list_(text),
    })  # fmt: skip
