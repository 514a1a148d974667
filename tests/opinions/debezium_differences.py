"""In what the values of our envelope differ from Debezium's, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

Test = Callable[[str, Any, Any], bool]
_SHAPES: Final = ("geom", "point", "linestring", "polygon", "multi")


def _no_calendar(sql: str, theirs: Any, ours: Any) -> bool:
    return sql.startswith(("date", "timestamp")) and theirs is None and not str(ours).endswith("Z")


def _same_instant(sql: str, theirs: Any, ours: Any) -> bool:
    if not sql.startswith(("datetime", "time")) or not all(str(each).endswith("Z") for each in (theirs, ours)):
        return False
    day = "1970-01-01T" if sql.startswith("time") and not sql.startswith("timestamp") else ""
    return datetime.fromisoformat(day + theirs) == datetime.fromisoformat(day + ours)


def _two_digits(sql: str, theirs: Any, ours: Any) -> bool:
    return sql.startswith("date") and isinstance(ours, str) and ours[:2] == "00" and str(theirs)[4:] == ours[4:]


def _shape(document: Any) -> Any:
    """A JSON document without its texts."""
    if isinstance(document, dict):
        return {name: _shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return [_shape(value) for value in document]
    return "" if isinstance(document, str) else document


def _json(sql: str, theirs: Any, ours: Any) -> bool:
    if sql != "json":
        return False
    document = json.loads(theirs)
    return bool(_shape(document) == _shape(json.loads(ours) if isinstance(document, dict | list) else ours))


def _wrapped(sql: str, theirs: Any, ours: Any) -> bool:
    return "bigint" in sql and "unsigned" in sql and bool(theirs == ours - 2**64)


def _close(sql: str, theirs: Any, ours: Any) -> bool:
    return sql.startswith("float") and abs(theirs - ours) <= 1e-5 * abs(ours) + 1e-45


# By the words of docs/recipes/come-from-debezium.md. The first that fits counts.
DIFFERENCES: Final[dict[str, Test]] = {
    "BIT": lambda sql, theirs, ours: sql.startswith("bit"),
    "geometry": lambda sql, theirs, ours: sql.startswith(_SHAPES) and set(theirs) >= {"wkb", "srid"},
    "VECTOR": lambda sql, theirs, ours: sql.startswith("vector") and isinstance(theirs, list),
    "BIGINT UNSIGNED": _wrapped,
    "FLOAT": _close,
    "dates that no calendar has": _no_calendar,
    "years before 100": _two_digits,
    "fractions of seconds": _same_instant,
    "TIME": lambda sql, theirs, ours: sql.startswith("time") and not ours.endswith("Z"),
    "YEAR": lambda sql, theirs, ours: sql == "year" and (theirs, ours) == (1900, 0),
    "SET": lambda sql, theirs, ours: sql.startswith("set") and sorted(theirs.split(",")) == ours.split(","),
    "labels": lambda sql, theirs, ours: (
        sql.startswith(("enum", "set")) and ("?" in theirs or "\\" in theirs or "x'" in sql)
    ),
    "JSON": _json,
    "BINARY(0)": lambda sql, theirs, ours: sql == "binary(0)",
    "character sets": lambda sql, theirs, ours: sql.startswith(("varchar", "char", "enum", "set")) or "text" in sql,
}
OF_CHARACTER_SETS: Final = "character sets"


def difference(sql: str, theirs: Any, ours: Any) -> str:
    """The word for a difference of a column of that type; "" if none is listed."""
    return next((word for word, fits in DIFFERENCES.items() if fits(sql, theirs, ours)), "")
