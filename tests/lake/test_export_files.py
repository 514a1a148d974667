"""A sealed file of the lake: plain Parquet types, the numbers in its DataFile, the same bytes for the same rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from relay.errors import RelayError
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.storage import Storage
from relay.lake.types import file_schema
from relay.lake.writer import ROW_GROUP_ROWS, seal

TABLE = Table("shop", "orders=1")
VERSION = TableVersion(
    TABLE,
    generation=1,
    version=3,
    fields=[
        Field("id", "int", "id", "int"),
        Field("kind", "string", "kind", "enum('a','b')"),
        Field("price", "decimal(20,0)", "price", "bigint unsigned"),
        Field("at", "timestamp_ntz", "at", "datetime(6)"),
        Field("tags", "array<string>", "tags", "set('x','y')"),
        Field("at__text", "string", "at", "datetime(6)", "text"),
    ],
    key=["id"],
)


def batch(first: int, rows: int, odd: Sequence[int] = ()) -> pyarrow.RecordBatch:
    """Inserts numbered from `first`, as the reader gives them: without `_schema_version`; `odd` ones have a side."""
    schema = file_schema(VERSION).remove(len(file_schema(VERSION)) - 1)
    numbers = range(first, first + rows)
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    values: dict[str, list[Any]] = {
        "id": list(numbers),
        "kind": ["ab"[number % 2] for number in numbers],
        "price": [2**64 - 1 - number for number in numbers],
        "at": [None if number in odd else datetime(2026, 11, 20) for number in numbers],
        "tags": [["x"] for _ in numbers],
        "at__text": ["2026-00-00" if number in odd else None for number in numbers],
        "_change_type": ["insert"] * rows,
        "_commit_version": [first + rows - 1] * rows,
        "_commit_timestamp": [at] * rows,
        "_seq": list(numbers),
        "_file": ["binlog.000001"] * rows,
        "_pos": [4] * rows,
        "_gtid": [None] * rows,
    }
    return pyarrow.record_batch([_array(values[field.name], field.type) for field in schema], schema=schema)


def _array(values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    if pyarrow.types.is_dictionary(kind):
        return pyarrow.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pyarrow.array(values, kind)


def test_a_sealed_file_holds_the_rows_in_plain_types(storage: Storage, tmp_path: Path) -> None:
    file = seal(storage, VERSION, "2026-11-20", "changes", [batch(5, 3), batch(8, 2)], "ab12")
    path = tmp_path / "lake" / file.path
    assert file.path.startswith("changes/cdc_schema=shop/cdc_table=orders%3D1/cdc_date=2026-11-20/")
    assert (file.first, file.last, file.rows, file.version, file.kind) == (5, 9, 5, 3, "changes")
    assert file.bytes == path.stat().st_size
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    read = pyarrow.parquet.ParquetFile(path).read()
    assert read["id"].to_pylist() == [5, 6, 7, 8, 9]
    assert read["price"].to_pylist()[0] == 2**64 - 6
    assert read["_schema_version"].to_pylist() == [3] * 5
    assert read.schema.metadata is None, "nothing of Arrow's own is stored"
    assert [str(kind) for kind in read.schema.types] == [
        "int32", "string", "decimal128(20, 0)", "timestamp[us]", "list<element: string>", "string",
        "string", "int64", "timestamp[us, tz=UTC]", "int64", "string", "int64", "string", "int32",
    ]  # fmt: skip
    assert read.schema.names == file_schema(VERSION).names


def test_a_file_names_the_side_columns_in_which_something_is(storage: Storage) -> None:
    assert seal(storage, VERSION, "2026-11-20", "changes", [batch(1, 3)]).sides == []
    assert seal(storage, VERSION, "2026-11-20", "changes", [batch(4, 3, odd=[5])]).sides == ["at__text"]


def test_the_same_rows_make_the_same_bytes_however_they_came(storage: Storage) -> None:
    rows = batch(1, 900)
    whole = seal(storage, VERSION, "2026-11-20", "changes", [rows])
    parts = [rows.slice(0, 100), rows.slice(100, 799), rows.slice(899)]
    assert seal(storage, VERSION, "2026-11-20", "changes", parts) == whole


def test_row_groups_have_a_size_that_a_reader_can_skip_by(storage: Storage, tmp_path: Path) -> None:
    rows = ROW_GROUP_ROWS + 10
    schema = file_schema(VERSION)
    columns = [batch(1, 1).column(0).take([0] * rows) if name == "id" else None for name in schema.names]
    counted = {"_seq": pyarrow.array(range(1, rows + 1), pyarrow.int64())}
    filled = [
        counted.get(field.name, column if column is not None else pyarrow.nulls(rows, field.type))
        for field, column in zip(schema, columns, strict=True)
    ]
    file = seal(storage, VERSION, "2026-11-20", "changes", [pyarrow.record_batch(filled, schema=schema)])
    metadata = pyarrow.parquet.ParquetFile(tmp_path / "lake" / file.path).metadata
    assert metadata.num_row_groups == 2
    sequences = metadata.row_group(1).column(schema.get_field_index("_seq")).statistics
    assert (sequences.min, sequences.max) == (ROW_GROUP_ROWS + 1, rows)


def test_columns_that_are_not_the_versions_are_refused(storage: Storage) -> None:
    with pytest.raises(RelayError) as refused:
        seal(storage, VERSION, "2026-11-20", "changes", [batch(1, 1).remove_column(0).remove_column(0)])
    assert refused.value.position == "shop.orders=1"
