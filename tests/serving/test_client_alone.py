"""The client's own wheel: it has the modules that it needs, and runs in a Python without any package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol import msgpack
from tests.support.client_alone import gets_the_same_rows

EXTENSIONS = st.builds(msgspec.msgpack.Ext, st.integers(1, 127), st.binary(min_size=17))  # shorter: other codes
VALUES = (
    EXTENSIONS | st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
FIELDS = st.none() | st.dictionaries(st.text(), VALUES)


class Row(msgspec.Struct, array_like=True):
    """With a value of every kind that a row has."""

    sequence: int
    after: Any


class PlainRow(msgpack.Struct, array_like=True):
    """The same without msgspec."""

    sequence: int
    after: Any


def extension(code: int, data: bytes | memoryview) -> tuple[int, bytes]:
    """What stands for a value of an extension type."""
    return code, bytes(data)


PLAIN = msgpack.Decoder(list[PlainRow], ext_hook=extension)


def test_a_bare_python_gets_the_rows_that_any_other_gets(tmp_path: Path) -> None:
    gets_the_same_rows([sys.executable], tmp_path)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), FIELDS)))
def test_rows_are_decoded_as_by_msgspec(rows: list[tuple[int, Any]]) -> None:
    data = msgspec.msgpack.encode(rows)
    decoded = PLAIN.decode(data)
    right = msgspec.msgpack.Decoder(list[Row], ext_hook=extension).decode(data)
    assert [(row.sequence, row.after) for row in decoded] == [(row.sequence, row.after) for row in right]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), FIELDS), min_size=1), st.data())
def test_damaged_rows_are_an_error_or_other_rows(rows: list[tuple[int, Any]], data: st.DataObject) -> None:
    good = msgspec.msgpack.encode(rows)
    at = data.draw(st.integers(0, len(good) - 1))
    for damaged in (good[:at], good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]):
        try:
            PLAIN.decode(damaged)
        except msgpack.DecodeError:
            continue
        assert len(damaged) == len(good), "what is cut off is an error"


def test_more_bytes_than_rows_are_an_error() -> None:
    with pytest.raises(msgpack.DecodeError, match="1 bytes follow"):
        PLAIN.decode(b"\x90\xc0")
