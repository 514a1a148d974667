"""Brings rows of a table into one form from two sources: what SELECT prints, and what the lake has."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from examples.dbserver import DatabaseServer
from relay.lake.documents import Field
from tests.support.random_tables import SESSION, quoted

Row = tuple[Any, ...]
Rows = Counter[Row]
SHOWN = 3  # rows shown of a difference


def selected(server: DatabaseServer, schema: str, table: str, fields: Sequence[Field]) -> Iterator[Row]:
    """What SELECT prints of a table, as values of those fields: typed values, and the contents of side columns."""
    connection = server.connect(database=schema, use_unicode=False, conv={})
    with connection, connection.cursor() as cursor:
        for statement in SESSION:
            cursor.execute(statement)
        cursor.execute(
            "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
        )
        types = {name.decode(): sql.decode() for name, sql in cursor.fetchall()}
        wanted = {field.column for field in fields}
        assert wanted == types.keys(), f"{table}: the lake has {sorted(wanted)}, the source {sorted(types)}"
        cursor.execute(f"SELECT {', '.join(expression(*each) for each in types.items())} FROM {quoted(table)}")
        places = {name: at for at, name in enumerate(types)}
        makers = [(places[field.column], maker(field, types[field.column])) for field in fields]
        for row in cursor:
            yield tuple(None if row[at] is None else make(row[at]) for at, make in makers)


def has_empty_label(sql: str) -> bool:
    """Whether a column of this type is an ENUM that prints an empty label and number 0 alike."""
    return sql.lower().startswith("enum(") and re.search("[(,]''[,)]", sql) is not None


def expression(column: str, sql: str) -> str:
    """The expression to select of a column. It includes a label's number where labels alone are ambiguous."""
    return f"CONCAT({quoted(column)} + 0, ':', {quoted(column)})" if has_empty_label(sql) else quoted(column)


def maker(field: Field, sql: str) -> Callable[[bytes], Any]:
    """Returns the conversion from SELECT's text of a column of type `sql` to the expected value of a lake's field."""
    if has_empty_label(sql):
        beside, none = field.side == "text", b"0:"
        return lambda text: ("" if beside else None) if text == none else None if beside else text[2:].decode()
    match field.side:
        case "text":
            return _text_beside
        case "raw":
            return lambda text: None
        case "srid":
            return lambda text: int.from_bytes(text[:4], "little")
    kind = re.split(r"[ (]", sql)[0]
    match field.type:
        case "boolean":
            return lambda text: text == b"\x01"
        case "tinyint" | "smallint" | "int" | "bigint":
            return _microseconds if kind == "time" else int
        case "float" | "double":
            form = number_form(field)
            return lambda text: form(float(text))
        case "date" | "timestamp" | "timestamp_ntz":
            return _moment
        case "string":
            return bytes.decode
        case "binary":
            return (lambda text: text[4:]) if kind in GEOMETRIES else bytes
        case "array<string>":
            return lambda text: tuple(text.decode().split(",")) if text else ()
        case "array<binary>":
            return lambda text: tuple(text.split(b",")) if text else ()
        case decimal if decimal.startswith("decimal("):
            return lambda text: Decimal(text.decode())
        case other:
            raise AssertionError(f"the lake has no type {other!r} (of {sql})")


GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
)  # fmt: skip


def number_form(field: Field) -> Callable[[float], str]:
    """The comparable form of a FLOAT or DOUBLE: with as many digits as the server prints."""
    if digits := re.search(r"\(\d+,(\d+)\)", field.source_type):
        return lambda value: f"{value:.{digits[1]}f}"
    return (lambda value: f"{value:.6g}") if field.type == "float" else repr


def in_lake(columns: dict[str, list[Any]], fields: Sequence[Field], rows: int) -> Iterator[Row]:
    """Rows of the lake, from columns converted to Python values by Arrow; a side column may be absent."""
    absent: list[Any] = [None] * rows
    made = []
    for field in fields:
        assert field.side or field.name in columns, f"no column {field.name}; there are {', '.join(columns)}"
        form = _form(field)
        values = columns.get(field.name, absent)
        made.append([None if value is None else form(value) for value in values])
    return zip(*made, strict=True)


def _form(field: Field) -> Callable[[Any], Any]:
    if field.type in ("float", "double"):
        return number_form(field)
    if field.type.startswith("array"):
        return tuple
    if field.type == "timestamp":
        return lambda value: value.replace(tzinfo=None)
    return lambda value: value


def checksum(rows: Iterable[Row]) -> tuple[int, str]:
    """The number of rows, and a sum over the texts of their values that does not depend on their order."""
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(hashlib.blake2b(repr([str(value) for value in row]).encode(), digest_size=16).digest())
    return count, f"{total % (1 << 128):032x}"


def bag(rows: Iterable[tuple[int, str, Row]]) -> Rows:
    """The contents of a table without a key after changes since its last marker: `_seq`, change type and row, in order.

    Its snapshot is all rows at one `_seq` and includes all changes up to that.
    """
    changes = list(rows)
    begin = max((seq for seq, kind, _ in changes if kind == "snapshot"), default=-1)
    left: Rows = Counter()
    for seq, kind, row in changes:
        if seq > begin or (seq == begin and kind == "snapshot"):
            left[row] += 1 if kind in ("insert", "update_postimage", "snapshot") else -1
    return +left


def difference(source: Rows, lake: Rows, fields: Sequence[Field]) -> str:
    """The rows that are in one and not in the other, as text; empty if they are equal."""
    if source == lake:
        return ""
    missing, more = list((source - lake).elements()), list((lake - source).elements())
    text = f"{len(missing)} rows of {source.total()} are not in the lake, {len(more)} of {lake.total()} only there"
    if missing and more:
        # The two rows that have most in common are probably the same row.
        near = max(more, key=lambda row: sum(a == b for a, b in zip(missing[0], row, strict=True)))
        unlike = [
            f"{field.name} ({field.type}, {field.source_type}): {a!r:.200} in the source, {b!r:.200} in the lake"
            for field, a, b in zip(fields, missing[0], near, strict=True)
            if a != b
        ]
        return f"{text}; of the nearest two: {'; '.join(unlike)}"
    return f"{text}; the first: {[repr(row)[:600] for row in (missing or more)[:SHOWN]]}"


def _moment(text: bytes) -> date | datetime | None:
    """None for dates that no calendar has: zero and partial dates."""
    try:
        return date.fromisoformat(text.decode()) if len(text) == 10 else datetime.fromisoformat(text.decode())
    except ValueError:
        return None


def _text_beside(text: bytes) -> str | None:
    return text.decode() if _moment(text) is None else None


def _microseconds(text: bytes) -> int:
    """The microseconds of a TIME."""
    sign = -1 if text.startswith(b"-") else 1
    hours, minutes, seconds = text.lstrip(b"-").decode().split(":")
    whole, _, fraction = seconds.partition(".")
    return sign * (((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**6 + int(fraction.ljust(6, "0")))
