"""Changes as upserts and deletes by key: the rows of the option `rows` = "upserts"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from relay.base.errors import ErrorCode, RelayError
from relay.lake import scan
from relay.lake.columns import fields_of_all, key_columns, unused_name
from relay.lake.documents import Field, TableState, TableVersion
from relay.lake.reading import groupable, order_of
from relay.lake.tables import PRESENT
from relay.lake.types import META_FIELDS
from relay.spark.schema import arrow_schema, struct_type

if TYPE_CHECKING:
    import pyarrow

_KIND, _SEQ = "_change_type", "_seq"
_META: Final = {field.name: field.type for field in META_FIELDS}


def added_fields(table: TableState) -> tuple[Field, Field]:
    """Return the columns that are added to those of the changes: what a row does to its key, and its order."""
    names = [field.name for field in (*fields_of_all(table), *META_FIELDS)]
    operation, sequence = (unused_name(name, names) for name in ("_operation", "_sequence"))
    return Field(operation, "string", operation), Field(sequence, "bigint", sequence)


def key_types(table: TableState, version: TableVersion) -> dict[str, str]:
    """Return the columns that identify a row in a version, with types. Raises `RelayError` (usage) without a key."""
    if not version.key:
        hint = 'use rows = "changes"'
        cause = f"it has no primary key ({hint})"  # Spark shows only the message of an exception
        raise RelayError(ErrorCode.USAGE, 'read format("relay")', cause, position=str(table.table), hint=hint)
    fields = fields_of_all(table)
    types = {field.name: field.type for field in fields}
    return {name: types[name] for name in key_columns(fields, version.key)}


def read(
    files: scan.Files, schema: StructType, key: Mapping[str, str], added: tuple[str, str]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the upserts and deletes of files, with the columns of the schema.

    `key` has the types of the columns that identify a row, `added` the names of `added_fields`.
    """
    import pyarrow as pa

    given = {field.name: field.dataType.simpleString() for field in schema if field.name not in added}
    types = dict(key) | {name: _META[name] for name in (_SEQ, _KIND)} | given
    wanted = arrow_schema(struct_type(Field(name, kind, name) for name, kind in types.items()))
    result = arrow_schema(schema)
    for batch in whole_updates(scan.read(files, types, wanted)):
        rows = _without_kept_keys(batch, list(key))
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns |= dict(zip(added, (_operations(rows[_KIND]), order_of(rows)), strict=True))
        yield pa.RecordBatch.from_arrays([columns[name] for name in result.names], schema=result)


def emptied(gaps: Sequence[int], schema: StructType, added: tuple[str, str]) -> Iterator[pyarrow.RecordBatch]:
    """Yield a row for each gap: what is in the table after it, the rows of a snapshot say, which come behind it."""
    import pyarrow as pa

    result = arrow_schema(schema)
    marks = {_KIND: ["reset"] * len(gaps), _SEQ: list(gaps)}
    rows = pa.RecordBatch.from_pydict(marks)
    columns = marks | dict(zip(added, (_operations(rows[_KIND]), order_of(rows)), strict=True))
    nulls = [None] * len(gaps)
    yield pa.RecordBatch.from_arrays(
        [pa.array(columns.get(name, nulls)).cast(result.field(name).type) for name in result.names], schema=result
    )


def whole_updates(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield batches that do not end between the two images of an update."""
    import pyarrow as pa

    rest: list[pyarrow.RecordBatch] = []
    for batch in batches:
        whole = pa.concat_batches([*rest, batch]) if rest else batch
        last = whole.num_rows - 1
        cut = last if whole[_KIND][last].as_py() == "update_preimage" else last + 1
        rest = [whole.slice(cut)] if cut <= last else []
        if cut:
            yield whole.slice(0, cut)
    yield from rest


def _without_kept_keys(rows: pyarrow.RecordBatch, key: Iterable[str]) -> pyarrow.RecordBatch:
    """Leave out the first image of each update that keeps the key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    before = pc.equal(rows[_KIND], "update_preimage")
    if not before.true_count or rows.num_rows == 1:
        return rows
    kept = pc.and_(before[:-1], pc.equal(rows[_SEQ][:-1], rows[_SEQ][1:]))
    for name in key:
        values = groupable(rows[name])
        first, second = values[:-1], values[1:]
        same = pc.or_(pc.fill_null(pc.equal(first, second), False), pc.and_(pc.is_null(first), pc.is_null(second)))
        kept = pc.and_(kept, same)
    return rows.filter(pa.concat_arrays([pc.invert(kept), pa.array([True])]))


def _operations(kinds: pyarrow.Array) -> pyarrow.Array:
    """Return what rows of these kinds do to their key; a marker empties the table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    delete = pc.is_in(kinds, pa.array(["delete", "update_preimage"]))
    return pc.if_else(pc.is_in(kinds, pa.array(PRESENT)), "upsert", pc.if_else(delete, "delete", "truncate"))
