"""Bounds and encodings of the cursor that reads event bodies."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from relay._native import Cursor

_NUMBERS = (0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFF, 0x3FFF, 0x4000, 0xFFFF, 0x10000, 1 << 24, (1 << 56) - 1, 1 << 56,
            (1 << 64) - 1)  # fmt: skip


def _varlen(number: int) -> bytes:
    """Encode as mysql::serialization does: a one for each further byte, a zero, the number."""
    size = next(size for size in range(1, 10) if number < 1 << 7 * size or size == 9)
    if size == 9:
        return b"\xff" + number.to_bytes(8, "little")
    return (number << size | (1 << (size - 1)) - 1).to_bytes(size, "little")


@pytest.mark.parametrize("number", _NUMBERS)
def test_numbers_of_mysql_serialization_are_read_as_they_were_written(number: int) -> None:
    cursor = Cursor(_varlen(number) + b"next")
    assert cursor.varlen() == number
    assert cursor.rest() == b"next"
    negative = ~(number >> 1)
    assert Cursor(_varlen(number | 1)).signed_varlen() == negative
    assert Cursor(_varlen(number & ~1)).signed_varlen() == number >> 1


@pytest.mark.parametrize(
    ("head", "number"),
    [(b"\xfa", 250), (b"\xfc\x01\x02", 0x201), (b"\xfd\x01\x02\x03", 0x30201), (b"\xfe" + b"\xff" * 8, (1 << 64) - 1)],
)
def test_a_length_has_one_to_nine_bytes(head: bytes, number: int) -> None:
    cursor = Cursor(head)
    assert cursor.length() == number
    assert len(cursor) == 0


def test_fields_follow_each_other() -> None:
    cursor = Cursor(b"\x01\x02\x03\x04ab\0\x02cd\x03efg" + b"\xfc\x03\x00hij")
    assert cursor.fields(struct.Struct("<BH")) == (1, 0x302)
    assert cursor.integer(1) == 4
    assert cursor.terminated() == b"ab"
    assert cursor.short_text() == b"cd"
    assert cursor.text() == b"efg"
    assert cursor.text() == b"hij"
    assert not cursor
    assert cursor.rest() == cursor.take(0) == b""


_BEYOND: list[tuple[bytes, Callable[[Cursor], Any]]] = [
    (b"abc", lambda cursor: cursor.take(4)),
    (b"abc", lambda cursor: cursor.take(-1)),
    (b"abc", lambda cursor: cursor.take((1 << 64) - 1)),
    (b"abc", lambda cursor: cursor.integer(4)),
    (b"a" * 9, lambda cursor: cursor.integer(9)),
    (b"abc", lambda cursor: cursor.integer(-1)),
    (b"abc", lambda cursor: cursor.fields(struct.Struct("<I"))),
    (b"", Cursor.length),
    (b"\xfb", Cursor.length),
    (b"\xff12345678", Cursor.length),
    (b"\xfe1234567", Cursor.length),
    (b"\xfe" + b"\xff" * 8, Cursor.text),
    (b"\x04abc", Cursor.short_text),
    (b"abc", Cursor.terminated),
    (b"\xff1234567", Cursor.varlen),
    (b"\x01", Cursor.signed_varlen),
]


@pytest.mark.parametrize(("data", "read"), _BEYOND)
def test_reading_beyond_the_end_is_an_error_and_moves_nothing_out_of_bounds(
    data: bytes, read: Callable[[Cursor], Any]
) -> None:
    cursor = Cursor(data)
    with pytest.raises(ValueError):
        read(cursor)
    assert 0 <= cursor.at <= len(data)
    cursor.at = len(data) + 1
    with pytest.raises(ValueError, match="expected"):
        cursor.integer(1)
    cursor.at = -1
    with pytest.raises(ValueError, match="expected"):
        cursor.integer(1)
