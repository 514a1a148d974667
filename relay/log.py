"""One line a record on standard error: time, process, event name, then key=value pairs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Protocol


class Log(Protocol):
    """Writes one record; `event` is a stable name in snake_case, `fields` are facts about it, never secrets."""

    def __call__(self, event: str, **fields: object) -> None: ...


def _quoted(value: object) -> str:
    text = str(value)
    if text and not any(c.isspace() or c in '"=' for c in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def logger(process: str) -> Log:
    """A log for the process of that name ("reader", "server-0"). A line leaves in one write, so lines never mix."""

    def log(event: str, **fields: object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        pairs = "".join(f" {key}={_quoted(value)}" for key, value in fields.items())
        sys.stderr.write(f"{now}Z {process} {event}{pairs}\n")
        sys.stderr.flush()

    return log
