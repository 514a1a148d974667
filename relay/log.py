"""The log: one record a line on standard error, as text or JSON, with the event names of relay/logevents.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from relay.errors import printable
from relay.logevents import EVENTS, Level


class Log(Protocol):
    """Writes one record; `event` is a name of `EVENTS`, `fields` are facts about it, never secrets."""

    def __call__(self, event: str, **fields: object) -> None: ...


def logger(process: str, form: str = "text") -> Log:
    """A log for the process of that name ("reader", "server-0"); `form` is `LogFormat`, text or json."""
    line = _FORMS[form]

    def log(event: str, **fields: object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        # In one write, so that lines of several processes never mix. A log that cannot be written, on a full disk for
        # one, is no reason to end what works.
        with suppress(OSError):
            os.write(sys.stderr.fileno(), line(now, process, event, fields))

    return log


def _level(event: str) -> Level:
    known = EVENTS.get(event)  # a test holds the table to the source; a log that raises would be worse than a name
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
    return msgspec.json.encode(record | {key: _plain(value) for key, value in fields.items()}) + b"\n"


def _plain(value: object) -> object:
    """Numbers stay numbers; all else is text, of which stray bytes are escaped."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


_FORMS: Final[dict[str, Callable[[str, str, str, dict[str, object]], bytes]]] = {"text": _text, "json": _json}
