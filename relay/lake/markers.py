"""The row that a marker is among a table's changes: a statement that took rows without row events."""

from __future__ import annotations

from typing import Any, NamedTuple

from relay.lake.arrow import pyarrow


class Where(NamedTuple):
    """The place of a statement: its number and, for the columns of its row, the rest."""

    seq: int
    timestamp: int  # Unix seconds
    file: str
    offset: int
    gtid: str


def marker_row(schema: pyarrow.Schema, kind: str, where: Where, version: int | None = None) -> pyarrow.RecordBatch:
    """One row of `schema` without values of the table; `version` is for `_schema_version`, where there is one."""
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
    return pyarrow.record_batch([_single(lake.get(field.name), field.type) for field in schema], schema=schema)


def _single(value: object, kind: pyarrow.DataType) -> pyarrow.Array:
    if not pyarrow.types.is_dictionary(kind):
        return pyarrow.array([value], kind)
    numbers = pyarrow.array([None if value is None else 0], kind.index_type)
    return pyarrow.DictionaryArray.from_arrays(
        numbers, pyarrow.array([] if value is None else [value], kind.value_type)
    )
