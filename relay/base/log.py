"""The log: one record per line on standard error, as text or JSON, with the event names of relay/base/log_events.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from relay.base.errors import printable
from relay.base.log_events import EVENTS, Level


class Log(Protocol):
    """The log of one process."""

    def __call__(self, event: str, **fields: object) -> None:
        """Write one record. `event` is a name of `EVENTS`; `fields` are facts about it, never secrets."""


def logger(process: str, form: str = "text") -> Log:
    """Return the log of a process ("reader", "server-0"). `form` is `LogFormat`, text or json."""
    line = _FORMS[form]

    def log(event: str, **fields: object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        # A single write, so that lines of several processes never mix. If the log cannot be written, for example
        # because the disk is full, the relay continues.
        with suppress(OSError):
            os.write(sys.stderr.fileno(), line(now, process, event, fields))

    return log


def _level(event: str) -> Level:
    known = EVENTS.get(event)  # an unknown name is not an error here; a test checks the names
    return known.level if known else Level.INFO


def _text(now: str, process: str, event: str, fields: dict[str, object]) -> bytes:
    pairs = "".join(f" {key}={_quoted(value)}" for key, value in fields.items())
    return f"{now} {_level(event)} {process} {event}{pairs}\n".encode()


def _quoted(value: object) -> str:
    text = str(value)
    if text and all(char.isprintable() and char not in ' "=\\' for char in text):
        return text
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _json(now: str, process: str, event: str, fields: dict[str, object]) -> bytes:
    record = {"time": now, "level": _level(event), "logger": process, "event": event}
    return msgspec.json.encode(record | {key: _json_value(value) for key, value in fields.items()}) + b"\n"


def _json_value(value: object) -> object:
    """Return numbers unchanged, and everything else as text with stray bytes escaped."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


_FORMS: Final[dict[str, Callable[[str, str, str, dict[str, object]], bytes]]] = {"text": _text, "json": _json}
