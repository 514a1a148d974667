"""Convert the server's text to the typed columns that rows from the binlog have. No I/O.

Each function takes one column of a result in the text protocol, an Arrow array of binary, and returns an array of the
same length. Some return a second one for the side column, which keeps what the type cannot hold.
"""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from relay._native import utf8_of

Pair = tuple[pa.Array, pa.Array]

_UTF8: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_SRID_BYTES: Final = 4
_NO_CALENDAR: Final = "^0000|-00"
"""Dates that no calendar has, except days like the thirtieth of February."""


def numbers(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert numbers of any type. Raises `pyarrow.ArrowInvalid` for text that is not a number."""
    text = values.cast(pa.string())
    if pa.types.is_float32(kind):  # printed as a double
        return text.cast(pa.float64()).cast(kind)
    return text.cast(kind)


def booleans(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """BIT(1)."""
    return pc.not_equal(values, pa.scalar(b"\0", values.type)).cast(kind)


def moments(values: pa.Array, kind: pa.DataType) -> Pair:
    """DATE, DATETIME and TIMESTAMP; and the text of dates that no calendar has, whose value is NULL."""
    text = values.cast(pa.string())
    odd = pc.match_substring_regex(text, _NO_CALENDAR)
    typed = _dated(pc.if_else(odd, None, text), kind)
    return typed, pc.if_else(pc.and_not(text.is_valid(), typed.is_valid()), text, None)


def _dated(text: pa.Array, kind: pa.DataType) -> pa.Array:
    naive = pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
    try:
        return text.cast(naive).cast(kind)
    except pa.ArrowInvalid:  # a day that its month does not have, possible with ALLOW_INVALID_DATES
        known = pa.array([None if value is None or not _is_date(value) else value for value in text.to_pylist()])
        return known.cast(pa.string()).cast(naive).cast(kind)


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def durations(values: pa.Array, digits: int) -> pa.Array:
    """TIME with `digits` fractional digits, in microseconds: from -838:59:59.999999 to 838:59:59.999999."""
    text = values.cast(pa.string())
    negative = pc.starts_with(text, "-")
    text = pc.utf8_ltrim(text, characters="-")
    fraction = digits + 1 if digits else 0

    def part(start: int, stop: int | None) -> pa.Array:
        return pc.utf8_slice_codeunits(text, start, stop).cast(pa.int64())

    seconds = pc.add(
        pc.multiply(part(0, -6 - fraction), 3600),
        pc.add(pc.multiply(part(-5 - fraction, -3 - fraction), 60), part(-2 - fraction, -fraction or None)),
    )
    micros = pc.multiply(seconds, 1_000_000)
    if digits:
        micros = pc.add(micros, pc.multiply(part(-digits, None), 10 ** (6 - digits)))
    return pc.if_else(negative, pc.negate(micros), micros)


def texts(values: pa.Array, charset: str) -> Pair:
    """Text in a character set; and the bytes of texts that are invalid in it.

    In those, each invalid byte becomes a question mark, as in rows from the binlog.
    """
    if charset in _UTF8:
        try:
            return values.cast(pa.string()), pa.nulls(len(values), pa.binary())
        except pa.ArrowInvalid:
            pass  # convert each distinct value
    known = {value: utf8_of(charset, value) for value in values.unique().to_pylist() if value is not None}
    listed = values.to_pylist()
    text = pa.array([None if value is None else known[value][0] for value in listed], pa.string())
    wrong = [None if value is None or known[value][1] else value for value in listed]
    return text, pa.array(wrong, pa.binary())


def labels(values: pa.Array, charset: str, kind: pa.DataType) -> Pair:
    """ENUM with an empty label, and its side column.

    The first byte of a value is 0 if it has no label, else 1. Without a label the value is NULL and its side column has
    the printed text, which is empty.
    """
    encoded = values.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    own = pa.array([value[1:] if value.startswith(b"1") else None for value in known], pa.binary())
    own = own if pa.types.is_binary(kind) else texts(own, charset)[0]
    beside = pa.array([None if value.startswith(b"1") else "" for value in known], pa.string())
    return own.take(encoded.indices), beside.take(encoded.indices)


def sets(values: pa.Array, charset: str, kind: pa.DataType) -> pa.Array:
    """SET as lists of labels; without labels the list is empty."""
    return pc.if_else(pc.equal(values, pa.scalar(b"", values.type)), pa.scalar([], kind), _split(values, charset, kind))


def marked_sets(values: pa.Array, charset: str, kind: pa.DataType) -> pa.Array:
    """SET with an empty label: the first byte of a value is 0 if it has no label, else 1."""
    encoded = values.dictionary_encode()
    none = pc.equal(encoded.dictionary, pa.scalar(b"0", values.type))
    known = pa.array([value[1:] for value in encoded.dictionary.to_pylist()], pa.binary())
    return pc.if_else(none, pa.scalar([], kind), _split(known, charset, kind)).take(encoded.indices)


def _split(values: pa.Array, charset: str, kind: pa.DataType) -> pa.Array:
    text = values if pa.types.is_binary(kind.value_type) else texts(values, charset)[0]
    comma: str | bytes = b"," if pa.types.is_binary(kind.value_type) else ","
    return pc.split_pattern(text, comma).cast(kind)


def shapes(values: pa.Array) -> Pair:
    """GEOMETRY as WKB; and its SRID. Servers in non-strict mode produce empty values, which have neither."""
    listed = values.to_pylist()
    wkb = [value[_SRID_BYTES:] if value and len(value) >= _SRID_BYTES else value for value in listed]
    srid = [
        int.from_bytes(value[:_SRID_BYTES], "little", signed=True) if value and len(value) >= _SRID_BYTES else None
        for value in listed
    ]
    return pa.array(wkb, pa.binary()), pa.array(srid, pa.int32())
