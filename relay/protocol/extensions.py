"""MessagePack's extension types in rows of PollMany format 3, as Python objects. No I/O.

The contents of each are the text that the server prints. A value that Python's type cannot hold stays that text: a date
without day, month or year, and one that is not in the calendar.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Context, Inexact, InvalidOperation
from typing import Any, Final

_DECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP, _SET, _JSON = range(1, 8)
# DECIMAL has up to 65 digits. A context's method takes three quarters of the time of Decimal().
_decimal: Final = Context(prec=65, traps=[InvalidOperation, Inexact]).create_decimal
_date: Final = date.fromisoformat
_datetime: Final = datetime.fromisoformat


def value_of(code: int, data: memoryview) -> Any:
    """Return the object of an extension type. Raises `ValueError` for a type that does not exist, or is damaged."""
    text = data.tobytes().decode()  # faster than str(data, "utf-8")
    try:  # one function, because it is called for each value
        if code == _DECIMAL:
            return _decimal(text)
        if code == _DATETIME:
            return _datetime(text)
        if code == _TIMESTAMP:
            return _datetime(text + "+00:00")
        if code == _DATE:
            return _date(text)
    except ArithmeticError:
        raise ValueError(f"{text!r} is no number") from None
    except ValueError:
        return text
    if code == _TIME:
        return _time(text)
    if code == _SET:
        return frozenset(text.split(",")) if text else frozenset()
    if code == _JSON:
        return json.loads(text)
    raise ValueError(f"extension type {code} is unknown")


def _time(text: str) -> timedelta:
    hours, minutes, seconds = text.split(":")
    size = timedelta(hours=abs(int(hours)), minutes=int(minutes), seconds=int(seconds[:2]))
    if len(seconds) > 2:
        size += timedelta(microseconds=int(seconds[3:].ljust(6, "0")))
    return -size if text[0] == "-" else size
