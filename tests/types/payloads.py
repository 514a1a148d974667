"""Parses the classic payloads of a row."""

from __future__ import annotations

from typing import NamedTuple


class Cell(NamedTuple):
    """One column of a classic payload."""

    name: str
    before: bytes
    after: bytes


def string(payload: bytes, at: int) -> tuple[bytes, int]:
    """The string at `at` without its terminator, and the offset after it."""
    length = int.from_bytes(payload[at : at + 4], "little")
    assert payload[at + 3 + length] == 0
    return payload[at + 4 : at + 3 + length], at + 4 + length


def cells(payload: bytes, version: int = 1) -> tuple[list[Cell], bytes]:
    """The columns of a Poll or PollV2 payload, and the offset after them."""
    at = 13 if version == 1 else 21
    _, at = string(payload, at)
    _, at = string(payload, at if version == 1 else at + 4)
    count, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
    columns = []
    for _ in range(count):
        name, at = string(payload, at if version == 1 else at + 4)
        before, at = string(payload, at)
        after, at = string(payload, at)
        columns.append(Cell(name.decode(), before, after))
    return columns, payload[at:]
