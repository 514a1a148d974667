"""MessagePack's extension types in rows of PollMany format 3, as Python objects. No I/O.

The contents of each are the text that the server prints. A value that Python's type cannot hold stays that text: a date
without day, month or year, and one that is not in the calendar.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final


def value_of(code: int, data: memoryview | bytes) -> Any:
    """Return the object of an extension type. Raises `ValueError` for a type that does not exist, or is damaged."""
    text = str(data, "utf-8")
    if (make := _TYPES.get(code)) is None:
        raise ValueError(f"extension type {code} is unknown")
    return make(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text!r} is no number") from None


def _date(text: str) -> date | str:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def _time(text: str) -> timedelta:
    hours, minutes, seconds = text.split(":")
    size = timedelta(hours=abs(int(hours)), minutes=int(minutes), seconds=int(seconds[:2]))
    if len(seconds) > 2:
        size += timedelta(microseconds=int(seconds[3:].ljust(6, "0")))
    return -size if text[0] == "-" else size


def _datetime(text: str) -> datetime | str:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def _timestamp(text: str) -> datetime | str:
    try:
        return datetime.fromisoformat(text + "+00:00")
    except ValueError:
        return text


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()


_TYPES: Final[dict[int, Callable[[str], Any]]] = {
    1: _decimal, 2: _date, 3: _time, 4: _datetime, 5: _timestamp, 6: _set, 7: json.loads,
}  # fmt: skip
