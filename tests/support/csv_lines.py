"""Reads lines of the log as docs/csv-log.md describes them, without the code that wrote them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, bytes | None]
_FIELD = re.compile(rb'(?:(")((?:[^"\\]|\\.)*)"|([^;"]*))(;|\Z)', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"r": b"\r", b"0": b"\0"}


class Field(NamedTuple):
    """A field of a CSV line: its bytes, and whether it was quoted."""

    text: bytes
    quoted: bool


class Number(NamedTuple):
    """A number of a JSON line, as written."""

    digits: str


def fields(line: bytes) -> list[Field]:
    """The fields of a CSV line without its end."""
    found, size = [], 0
    for quote, quoted, bare, end in _FIELD.findall(line):
        text = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], quoted) if b"\\" in quoted else quoted or bare
        found.append(Field(text, bool(quote)))
        size += 2 * len(quote) + len(quoted) + len(bare) + len(end)
        if not end:
            break
    assert size == len(line), line[size - 20 : size + 80]
    return found


def csv_lines(content: bytes) -> list[list[Field]]:
    """All lines, with their ends."""
    assert content.endswith(b"\n") or not content
    return [fields(line) for line in content.split(b"\n")[:-1]]


def json_lines(content: bytes) -> list[dict[str, Any]]:
    """All lines; numbers as written."""
    assert content.endswith(b"\n") or not content
    return [json.loads(line, parse_int=Number, parse_float=Number) for line in content.split(b"\n")[:-1]]


def binary(value: dict[str, str]) -> bytes:
    """The bytes of a base64 value."""
    [(marker, text)] = value.items()
    assert marker == "base64"
    return base64.b64decode(text, validate=True)


def content(folder: Path) -> bytes:
    """All files of a log, in the order of writing."""

    def place(path: Path) -> tuple[str, int]:
        day, *part = path.stem.split(".")
        return day, int(part[0]) if part else 1

    return b"".join(path.read_bytes() for path in sorted(folder.glob("relaylogs-*"), key=place))
