"""Columns of a table across all versions of it, and the columns that identify a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from relay.lake.documents import Field, TableState, TableVersion
from relay.lake.types import folded, generation_schema

_LOSSLESS: Final = frozenset({
    ("string", "binary"), ("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp"), ("date", "timestamp_ntz"),
})  # fmt: skip


def generations_of(table: TableState) -> dict[int, list[TableVersion]]:
    """Return a table's versions by generation, oldest first."""
    found: dict[int, list[TableVersion]] = {}
    for version in table.versions:
        found.setdefault(version.generation, []).append(version)
    return found


def fields_of_all(table: TableState) -> list[Field]:
    """Return the fields of all versions of a table, with the newest types; side columns last."""
    found: dict[str, Field] = {}
    lossy: set[str] = set()
    for _, versions in sorted(generations_of(table).items(), reverse=True):
        for field in generation_schema(versions, table.sides):
            newer = found.setdefault(field.name, field)
            if not field.side and not holds_all(field.type, newer.type):
                lossy.add(newer.column)
    own = [field for field in found.values() if not field.side]
    sides = [field for field in found.values() if field.side]
    with_text = {field.column for field in sides if field.side == "text"}
    for field in own:
        if field.column in lossy - with_text:
            name = unused_name(f"{field.name}__text", (each.name for each in (*own, *sides)))
            sides.append(Field(name, "string", field.column, field.source_type, "text"))
    return own + sides


def key_columns(fields: Sequence[Field], key: Sequence[str]) -> list[str]:
    """Return the columns that identify a row: the key's fields, and their side columns.

    Side columns have values that do not fit.
    """
    columns = {field.column for field in fields if field.name in key and not field.side}
    return [field.name for field in fields if field.column in columns]


def holds_all(old: str, new: str) -> bool:
    """Whether the type `new` holds every value of the type `old`, so that `convert` returns no texts."""
    return old == new or (new == "string" and old != "binary") or (old, new) in _LOSSLESS


def unused_name(name: str, taken: Iterable[str]) -> str:
    """`name`, with as many `_` appended as it needs to differ from all of `taken`, as Spark compares names."""
    known = {folded(each) for each in taken}
    while folded(name) in known:
        name += "_"
    return name
