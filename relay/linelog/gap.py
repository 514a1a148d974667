"""Make the line that says that lines before it are missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def gap_line(form: str, timestamp: int, east: int, reason: str) -> bytes:
    """Return `HH:MM:SS;;;G;reason;"..."`, or the same as JSON. The time is in a zone `east` seconds east of UTC."""
    at = datetime.fromtimestamp(timestamp, UTC).astimezone(timezone(timedelta(seconds=east)))
    if form == "json":
        record = {"time": at.isoformat(), "kind": "gap", "reason": reason}
        return msgspec.json.encode(record) + b"\n"
    return f'{at:%H:%M:%S};;;G;reason;"{reason.translate(_ESCAPES)}"\n'.encode(errors="replace")
