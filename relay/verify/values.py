"""Compare one value on both sides: the same, different, or as a known fault leaves it. No I/O.

The journal's values are in PollMany's msgpack form: int, float, bytes, and for everything else the text that the server
prints. The reference reader's values have mysql-replication's types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from relay.binlog.events.column_types import OLD_TEMPORAL, TEXTUAL, Type
from relay.journal.frames import Column
from relay.verify import faults
from relay.verify.sides import ReferenceColumn

SAME: Final = ""
DIFFERENT: Final = "difference"

_BITS: Final = {Type.TINY: 8, Type.SHORT: 16, Type.INT24: 24, Type.LONG: 32, Type.LONGLONG: 64}
_LIKE_BINARY: Final = ("uuid", "inet4", "inet6")
_SHORT_SECONDS: Final = 2**31
_EPOCH: Final = datetime(1970, 1, 1)
_ZERO: Final = "0000-00-00 00:00:00"


def compare_value(column: Column, known: ReferenceColumn, ours: Any, theirs: Any, raw: Callable[[], Any]) -> str:
    """Return `SAME`, `DIFFERENT`, or the name of the fault that explains the reference reader's value.

    `known` is the reference reader's knowledge of the column. For text and binary strings, `raw` returns the journal's
    value as the bytes that the server wrote.
    """
    if ours is None:
        return _verdict(theirs is None)
    if column.type in _BITS:
        return _integer(column, ours, theirs, known)
    if column.type in TEXTUAL:
        return _text(column, ours, theirs, known, raw)
    if column.type in OLD_TEMPORAL:
        return SAME if theirs is not None and _printed(theirs, 0) == ours else faults.OLD_TEMPORAL
    if column.type in (Type.ENUM, Type.SET):
        if not known.has_metadata:
            return faults.NO_LABELS if theirs is None else DIFFERENT
        if isinstance(ours, bytes):  # as in the definition
            ours = ours.decode("latin-1")
    compare = _BY_TYPE.get(column.type)
    return compare(column, ours, theirs, known) if compare else _verdict(ours == theirs)


def is_invalid_date(ours: Any) -> bool:
    """Whether the reference reader fails at this DATE: no part is zero, and the date does not exist."""
    return isinstance(ours, str) and not _exists(ours) and all(int(part) for part in ours.split("-"))


def _verdict(same: bool) -> str:
    return SAME if same else DIFFERENT


def _integer(column: Column, ours: int, theirs: Any, known: ReferenceColumn) -> str:
    if ours == theirs:
        return SAME
    wrapped = not known.has_metadata and column.unsigned and theirs == ours - (1 << _BITS[Type(column.type)])
    return faults.NO_SIGNS if wrapped else DIFFERENT


def _floating(_: Column, ours: float, theirs: Any, __: ReferenceColumn) -> str:
    return _verdict(isinstance(theirs, float) and ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs))


def _decimal(_: Column, ours: str, theirs: Any, __: ReferenceColumn) -> str:
    return _verdict(isinstance(theirs, Decimal) and Decimal(ours) == theirs)


def _bit(column: Column, ours: bytes, theirs: Any, _: ReferenceColumn) -> str:
    return _verdict(f"{int.from_bytes(ours, 'big'):0{column.meta}b}" == theirs)


def _year(_: Column, ours: int, theirs: Any, __: ReferenceColumn) -> str:
    if ours == 0 and theirs == 1900:
        return faults.ZERO_YEAR
    return _verdict(ours == theirs)


def _text(column: Column, ours: str | bytes, theirs: Any, known: ReferenceColumn, raw: Callable[[], bytes]) -> str:
    if type(ours) is type(theirs) and ours == theirs:
        return SAME
    if theirs != _decoded(raw(), known):
        return DIFFERENT
    if column.sql_type in _LIKE_BINARY:
        return faults.NO_TYPES
    if not known.has_metadata:
        return faults.NO_CHARSET
    return faults.PADDING if isinstance(ours, bytes) else faults.CHARSET


def _decoded(raw: bytes, known: ReferenceColumn) -> str | bytes:
    """Return the reference reader's result for the bytes of a string."""
    try:
        return raw.decode(known.encoding if known.has_metadata and known.encoding else "utf-8", "ignore")
    except LookupError:
        return raw


def _enum(column: Column, ours: str, theirs: Any, known: ReferenceColumn) -> str:
    if ours == theirs:
        return SAME
    return faults.LABEL_CHARSET if theirs == _label(column, ours, known) else DIFFERENT


def _set(column: Column, ours: str, theirs: Any, known: ReferenceColumn) -> str:
    if not ours:
        return faults.EMPTY_SET if theirs is None or theirs == {""} else DIFFERENT
    labels = ours.split(",")
    if theirs == set(labels):
        return SAME
    return faults.LABEL_CHARSET if theirs == {_label(column, label, known) for label in labels} else DIFFERENT


def _label(column: Column, label: str, known: ReferenceColumn) -> str | None:
    """Return the reference reader's label of the same number; None if there is none."""
    number = column.labels.index(label) if label in column.labels else len(known.labels)
    return known.labels[number] if number < len(known.labels) else None


def _date(_: Column, ours: str, theirs: Any, __: ReferenceColumn) -> str:
    if theirs is None:
        return DIFFERENT if _exists(ours) else faults.ZERO_DATE
    return _verdict(isinstance(theirs, date) and theirs.isoformat() == ours)


def _datetime(column: Column, ours: str, theirs: Any, _: ReferenceColumn) -> str:
    if theirs is None:
        return DIFFERENT if _exists(ours) else faults.ZERO_DATE
    return _verdict(isinstance(theirs, datetime) and _printed(theirs, column.meta) == ours)


def _timestamp(column: Column, ours: str, theirs: Any, _: ReferenceColumn) -> str:
    if not isinstance(theirs, datetime):
        return DIFFERENT
    if _printed(theirs, column.meta) == ours:
        return SAME
    if ours.startswith(_ZERO):
        return faults.ZERO_TIMESTAMP if theirs == _EPOCH else DIFFERENT
    late = datetime.fromisoformat(ours) - timedelta(seconds=2 * _SHORT_SECONDS)
    at = datetime.fromisoformat(ours).replace(tzinfo=UTC).timestamp()
    return faults.LATE_TIMESTAMP if at >= _SHORT_SECONDS and _printed(late, 6) == _printed(theirs, 6) else DIFFERENT


def _time(column: Column, ours: str, theirs: Any, _: ReferenceColumn) -> str:
    if not isinstance(theirs, timedelta):
        return DIFFERENT
    if _printed(theirs, column.meta) == ours:
        return SAME
    if ours.startswith("-") and column.meta and theirs == _miscounted(ours, column.meta):
        return faults.NEGATIVE_TIME
    return DIFFERENT


def _miscounted(ours: str, digits: int) -> timedelta:
    """Return the reference reader's result for a negative TIME.

    It reads whole part and fraction of a two's complement separately.
    """
    whole, _, fraction = ours[1:].partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    size = (digits + 1) // 2
    units = int(fraction.ljust(2 * size, "0"))
    packed = -(((hours << 12 | minutes << 6 | seconds) << 8 * size) | units)
    above, below = -(packed >> 8 * size), packed & (1 << 8 * size) - 1
    if below >= 1 << 8 * size - 1:
        below -= 1 << 8 * size
    if digits % 2:
        below = int(below / 10)
    return -timedelta(
        hours=above >> 12 & 0x3FF, minutes=above >> 6 & 0x3F, seconds=above & 0x3F,
        microseconds=below * 10 ** (6 - digits),
    )  # fmt: skip


class _Number(str):
    """A number with a point or an exponent in JSON, as spelled."""

    __slots__ = ()


def _json(_: Column, ours: str, theirs: Any, __: ReferenceColumn) -> str:
    opaque: list[bool] = []
    same = _same_json(json.loads(ours, parse_float=_Number), theirs, opaque)
    return DIFFERENT if not same else faults.OPAQUE_JSON if opaque else SAME


def _same_json(ours: Any, theirs: Any, opaque: list[bool]) -> bool:
    """Whether two documents are the same except for opaque values, each of which is recorded."""
    if isinstance(theirs, dict):
        named = {_string(key): value for key, value in theirs.items()}
        return isinstance(ours, dict) and ours.keys() == named.keys() and all(
            _same_json(value, named[key], opaque) for key, value in ours.items()
        )  # fmt: skip
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(
            _same_json(one, other, opaque) for one, other in zip(ours, theirs, strict=True)
        )  # fmt: skip
    if isinstance(theirs, Decimal | date | time | timedelta) or (
        isinstance(ours, str) and ours.startswith("base64:type")
    ):
        opaque.append(True)
        return not isinstance(ours, dict | list)
    if isinstance(theirs, float):
        return isinstance(ours, _Number) and float(ours) == theirs
    if isinstance(theirs, bytes | str):
        return not isinstance(ours, _Number) and ours == _string(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def _string(text: Any) -> Any:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _exists(text: str) -> bool:
    """Whether the date at the beginning of a text exists in the calendar."""
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def _printed(value: date | timedelta, digits: int) -> str:
    """Return a date, datetime or time as the server prints it, with `digits` fractional digits."""
    if isinstance(value, timedelta):
        sign, total = ("-", -value) if value < timedelta() else ("", value)
        seconds, micros = total.days * 86400 + total.seconds, total.microseconds
        text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    elif isinstance(value, datetime):
        text, micros = f"{value.year:04}{value:-%m-%d %H:%M:%S}", value.microsecond
    else:
        return value.isoformat()
    return f"{text}.{micros:06}"[: len(text) + 1 + digits] if digits else text


_BY_TYPE: Final[dict[int, Callable[[Column, Any, Any, ReferenceColumn], str]]] = {
    Type.FLOAT: _floating, Type.DOUBLE: _floating, Type.NEWDECIMAL: _decimal, Type.BIT: _bit, Type.YEAR: _year,
    Type.ENUM: _enum, Type.SET: _set, Type.DATE: _date, Type.NEWDATE: _date, Type.DATETIME2: _datetime,
    Type.TIMESTAMP2: _timestamp, Type.TIME2: _time, Type.JSON: _json,
}  # fmt: skip
