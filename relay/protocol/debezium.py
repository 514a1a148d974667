"""Rows in Debezium's envelope, as JSON documents: before, after, source, op, ts_ms. No I/O.

Values are as Debezium's connector for MySQL writes them with decimal.handling.mode = string, time.precision.mode =
isostring, and binary.handling.mode = base64. docs/recipes/come-from-debezium.md lists what differs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

_DAY: Final = timedelta(days=1)


def envelope(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, source: Mapping[str, Any], ts_ms: int
) -> dict[str, Any]:
    """Return the document of a row with Python's values. `ts_ms` is the time now, in milliseconds since 1970."""
    return {
        "before": None if before is None else {name: _plain(value) for name, value in before.items()},
        "after": None if after is None else {name: _plain(value) for name, value in after.items()},
        "source": {"connector": "binlog-relay", "snapshot": "false", **source},
        "transaction": None,
        "op": "c" if before is None else "d" if after is None else "u",
        "ts_ms": ts_ms,
    }


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case datetime():
            return f"{value.replace(tzinfo=None).isoformat('T', _digits(value.microsecond))}Z"
        case date():
            return f"{value.isoformat()}Z"
        case timedelta():
            return _time(value)
        case frozenset():
            return ",".join(sorted(value))
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case _:
            return value


def _time(value: timedelta) -> str:
    """Return a time of day with Z, and what is none as the server prints it."""
    if timedelta() <= value < _DAY:
        moment = (datetime(1970, 1, 1, tzinfo=UTC) + value).time()
        return f"{moment.isoformat(_digits(moment.microsecond))}Z"
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    text = f"{'-' if value < timedelta() else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{micros:06}" if micros else text


def _digits(micros: int) -> str:
    return "seconds" if not micros else "microseconds" if micros % 1000 else "milliseconds"
