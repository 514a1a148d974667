"""Make the row that represents a marker among a table's changes: a statement that deletes rows without row events."""

from __future__ import annotations

from typing import Any, NamedTuple

from relay.lake.arrow import pyarrow


class Where(NamedTuple):
    """The position of a statement: its number, and the values for the other columns of its row."""

    seq: int
    timestamp: int  # Unix seconds
    file: str
    offset: int
    gtid: str


def marker_row(schema: pyarrow.Schema, kind: str, where: Where, version: int | None = None) -> pyarrow.RecordBatch:
    """Return a row of `schema` without the table's values; `version` is its `_schema_version`, if `schema` has it."""
    lake: dict[str, Any] = {
        "_change_type": kind,
        "_commit_version": where.seq,
        "_commit_timestamp": where.timestamp * 1_000_000,
        "_seq": where.seq,
        "_file": where.file,
        "_pos": where.offset,
        "_gtid": where.gtid or None,
        "_schema_version": version,
    }
    return pyarrow.record_batch([_array_of(lake.get(field.name), field.type) for field in schema], schema=schema)


def _array_of(value: object, kind: pyarrow.DataType) -> pyarrow.Array:
    if not pyarrow.types.is_dictionary(kind):
        return pyarrow.array([value], kind)
    numbers = pyarrow.array([None if value is None else 0], kind.index_type)
    return pyarrow.DictionaryArray.from_arrays(
        numbers, pyarrow.array([] if value is None else [value], kind.value_type)
    )
