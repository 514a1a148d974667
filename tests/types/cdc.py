"""Compares the rows that CDC clients get, in both value forms, with the server's output."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from relay._native import JournalWriter
from relay.journal.frames import Column, Definition
from tests.support.cdc_rows import read
from tests.types.compare import DELETE, INSERT, QUESTION, Row
from tests.types.run import Outcome

_INTEGERS = {1: 4, 2: 4, 9: 4, 3: 4, 8: 8}  # TINY, SHORT, INT24, LONG, LONGLONG: bytes of MaxScale's type
_FLOAT, _DOUBLE, _DECIMAL, _BIT, _ENUM, _SET, _GEOMETRY, _VECTOR, _JSON = 4, 5, 246, 16, 247, 248, 255, 242, 245
_YEAR, _STRING, _BLOBS = 13, 254, {249, 250, 251, 252, 140}
_DATES, _TIMES = {7, 10, 12, 14, 17, 18}, {11, 19}
_ADDRESSES = ("uuid", "inet4", "inet6")
_UTF8 = ("utf8", "utf8mb3", "utf8mb4", "binary")
_MOST = 2**63 - 1
_SKIPPED = object()  # a value that the server's output does not determine


def cdc_differences(outcomes: list[Outcome], folder: Path, form: str, values: str) -> Iterator[str]:
    """The differences between the rows of each table's stream and what the server prints."""
    writer = JournalWriter(folder, 1 << 24)
    number = itertools.count(1)
    for outcome in outcomes:
        for frame in outcome.frames:
            rows = frame.rows
            writer.rows(writer.define(frame.definition), rows.kind, 100, 1, rows.rows, rows.body)
            writer.commit(100, 1, f"0-1-{next(number)}")
    until = writer.flush()
    for outcome in outcomes:
        expected = [
            (definition, kind, side, typed or {})
            for right, (definition, ours, *both) in zip(outcome.expected, _changes(outcome), strict=True)
            for kind, side, typed in _images(right.kind, (right.before, right.after), both, ours)
        ]
        if not expected:
            continue
        definition = expected[0][0]
        found = read(folder, until, form=form, values=values, schema=definition.schema, table=definition.table).rows
        assert len(found) == len(expected)
        for row, (definition, kind, side, typed) in zip(found, expected, strict=True):
            got = list(row.items())
            if row["event_type"] != kind:
                yield f"{definition.table}: {row['event_type']}, not {kind}"
            for column, (_, found_value) in zip(definition.columns, got[6:], strict=True):
                text = side[column.name]
                # JSON has the fewest digits that identify a FLOAT.
                value = _narrowed(found_value) if column.type == _FLOAT and text is not None else found_value
                made = _exact if values == "exact" else _maxscale
                wanted = None if text is None else made(column, text, typed[column.name], form)
                if wanted is not _SKIPPED and (value != wanted or type(value) is not type(wanted)):
                    where = f"{definition.table}.{column.name} {column.sql_type} {text!r:.60}"
                    yield f"{where}: {value!r:.80}, not {wanted!r:.80}"


def _changes(outcome: Outcome) -> Iterator[tuple[Any, ...]]:
    for frame in outcome.frames:
        definition = msgspec.msgpack.decode(frame.definition, type=Definition)
        for change, before, after in frame.changes:
            yield definition, change, before, after


def _images(
    kind: int, sides: tuple[Row | None, Row | None], typed: Any, ours: Any
) -> Iterator[tuple[str, Row, dict[str, Any]]]:
    before, after = sides
    names = ("insert", "insert") if kind == INSERT else ("delete", "delete")
    if kind not in (INSERT, DELETE):
        names = ("update_before", "update_after")
    for name, side, values in zip(names, (before, after), typed, strict=True):
        if side is not None:
            yield name, side, values


def _exact(column: Column, text: bytes, typed: Any, form: str) -> Any:
    if column.type in _INTEGERS:
        return _wide(int(text))
    if column.type == _BIT:
        return _wide(int.from_bytes(text, "big"))
    if column.type in (_FLOAT, _DOUBLE):
        return typed
    if column.type == _DECIMAL:
        return f"{Decimal(text.decode()):f}"
    if _is_bytes(column):
        return text if form == "avro" else text.hex()
    return text.decode(errors=QUESTION)


def _maxscale(column: Column, text: bytes, typed: Any, form: str) -> Any:
    if column.type in _INTEGERS:
        bits = 8 * _INTEGERS[column.type]
        number = int(text)
        return number - (1 << bits) if number >= 1 << bits - 1 else number
    if column.type in (_FLOAT, _DOUBLE):
        return typed
    if column.type == _DECIMAL:
        return float(text)
    if column.type == _BIT:
        return ""
    if column.type in (_ENUM, _SET):
        return _index(column, text) if column.labels and (text or b"" not in _labels(column)) else _SKIPPED
    if column.type == _YEAR:
        return "1900" if text == b"0000" else text.decode()
    if column.type in _DATES | _TIMES:
        return _instant(column, text.decode())
    if column.type == _JSON or column.sql_type in _ADDRESSES:
        return text.decode(errors=QUESTION)
    if column.type in (_GEOMETRY, _VECTOR):
        return text if form == "avro" else text.hex()
    if column.charset not in _UTF8:
        return _SKIPPED
    if column.type == _STRING and _is_bytes(column):
        text = text.rstrip(b"\0")
    elif column.type in _BLOBS:
        text = text or b"\0"
    else:
        text = text.split(b"\0")[0]
        return _text_or_hex(text)
    return text if form == "avro" else _text_or_hex(text)


def _wide(number: int) -> int | str:
    return number if number <= _MOST else str(number)


def _narrowed(number: float) -> float:
    narrowed: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return narrowed


def _is_bytes(column: Column) -> bool:
    if column.type in (_GEOMETRY, _VECTOR):
        return True
    return column.charset == "binary" and column.sql_type not in _ADDRESSES and column.type != _JSON


def _index(column: Column, text: bytes) -> str:
    labels = _labels(column)
    if column.type == _ENUM:
        number = labels.index(text) + 1 if text in labels else 0
    else:
        number = sum(1 << labels.index(label) for label in text.split(b",") if text)
    return number.to_bytes(column.meta, "little").hex().upper()


def _labels(column: Column) -> list[bytes]:
    return [label.encode("latin-1" if column.charset == "binary" else "utf-8") for label in column.labels]


def _instant(column: Column, text: str) -> str:
    if column.type in _DATES:
        year, rest = text.split("-", 1)
        text = f"{int(year)}-{rest}"
    digits = len(text.partition(".")[2])
    return text + "0" * (6 - digits) if digits else text


def _text_or_hex(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.hex()
