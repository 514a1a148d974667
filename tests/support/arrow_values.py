"""Converts a value of the other formats, or of a SELECT, to the value of a column of format 2."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def as_column(kind: pa.DataType, value: Any) -> Any:
    """Converts `value`, as in format 1 or as the server prints it, to the Python value of a column of that type.

    Raises `ValueError` for a date that no calendar has.
    """
    if value is None or pa.types.is_binary(kind):
        return value
    if pa.types.is_list(kind) and pa.types.is_binary(kind.value_type):
        return value.split(b",") if value else []
    text = value.decode() if isinstance(value, bytes) else str(value)
    if pa.types.is_string(kind):
        return text
    if pa.types.is_list(kind):
        return text.split(",") if text else []
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(text).replace(tzinfo=UTC if kind.tz else None)
    if ":" in text:
        return _microseconds(text)
    return int(text)


def _microseconds(time: str) -> int:
    found = re.fullmatch(r"(-?)(\d+):(\d+):(\d+)(?:\.(\d+))?", time)
    assert found, time
    sign, hours, minutes, seconds, fraction = found.groups("0")
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return (-1 if sign == "-" else 1) * (whole * 10**6 + int(fraction.ljust(6, "0")))
