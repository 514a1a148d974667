"""Compares the log's lines with the server's output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from relay._native import JournalWriter, LineReader
from relay.journal.frames import Definition
from tests.support.csv_lines import Field, Number, binary, csv_lines, json_lines
from tests.types.compare import QUESTION, Row
from tests.types.run import Outcome

_KINDS = {1: ("I", "insert"), 2: ("U", "update"), 4: ("D", "delete")}
_BARE = {1, 2, 3, 4, 5, 8, 9}  # TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24
_INSTANTS = {7, 12, 17, 18}  # DATETIME and TIMESTAMP, old and new
_EXACT = 2**53 - 1


def log_differences(outcomes: list[Outcome], folder: Path, form: str) -> Iterator[str]:
    """The differences between the lines of all rows and what the server prints."""
    writer = JournalWriter(folder, 1 << 24)
    expected = []
    for outcome in outcomes:
        ours = [(frame, *change) for frame in outcome.frames for change in frame.changes]
        for frame in outcome.frames:
            rows = frame.rows
            writer.rows(writer.define(frame.definition), rows.kind, 100, 0, rows.rows, rows.body)
            writer.commit(100, 0)
        for right, (frame, change, before, after) in zip(outcome.expected, ours, strict=True):
            # An image may lack columns. The others must be as the server prints them.
            sides = [
                None if mine is None else {name: theirs[name] if theirs else None for name in mine}
                for mine, theirs in ((change.before, right.before), (change.after, right.after))
            ]
            expected.append((frame.definition, right.kind, sides, (before, after)))
    reader = LineReader(
        folder, form=form, wanted=lambda schema, table: True, zone=lambda at: (0, 0, 1), positional=True
    )
    assert reader.read(writer.flush(), 1 << 40, 1 << 20, 1 << 20).why == "end"
    content = reader.take()
    lines: list[Any] = csv_lines(content) if form == "csv" else json_lines(content)
    assert len(lines) == len(expected)
    for line, (packed, kind, sides, typed) in zip(lines, expected, strict=True):
        definition = msgspec.msgpack.decode(packed, type=Definition)
        wanted: Any = _csv(definition, kind, sides) if form == "csv" else _json(definition, kind, sides, typed)
        if line != wanted:
            told = _told(line, wanted) if form == "json" else list(zip(line, wanted, strict=False))
            yield f"{definition.table}: {[pair for pair in told if pair[0] != pair[1]]!r:.400}"


def _csv(definition: Definition, kind: int, sides: list[Row | None]) -> list[Field]:
    there = [side for side in sides if side is not None]
    made = [_bare(text) for text in (b"00:00:00", definition.schema, definition.table, _KINDS[kind][0])]
    for column in definition.columns:
        if any(column.name in side for side in there):
            made += [_bare(column.name), *(_csv_value(column.type, side, column.name) for side in there)]
    return made


def _bare(text: str | bytes) -> Field:
    name = text.encode() if isinstance(text, str) else text
    return Field(name, any(special in name for special in b';"\\\n\r\0'))


def _csv_value(kind: int, side: Row, name: str) -> Field:
    if name not in side:
        return Field(b"", False)
    text = side[name]
    if kind in _BARE:
        return Field(b"NULL" if text is None else text, False)
    if text is None:
        return Field(b"", False)
    if kind in _INSTANTS and not text.strip(b"0-: ."):
        return Field(b"0", False)
    return Field(text, True)


def _json(definition: Definition, kind: int, sides: list[Row | None], typed: tuple[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "time": "1970-01-01T00:00:00+00:00", "kind": _KINDS[kind][1], "schema": definition.schema,
        "table": definition.table, "file": "", "position": Number("100"), "gtid": None,
    }  # fmt: skip
    for side, texts, values in zip(("before", "after"), sides, typed, strict=True):
        if texts is not None:
            made[side] = {name: _json_value(text, values[name]) for name, text in texts.items()}
    return made


class _Bytes(bytes):
    """Equal to the base64 of itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and binary(other) == bytes(self)

    __hash__ = bytes.__hash__


class _Real(float):
    """Equal to a text of digits with the same value."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and float(other.digits) == float(self)

    __hash__ = float.__hash__


def _json_value(text: bytes | None, typed: Any) -> Any:
    if text is None:
        return None
    if isinstance(typed, int):
        return Number(str(typed)) if abs(typed) <= _EXACT else str(int(text))
    if isinstance(typed, float):
        return _Real(text)
    return _Bytes(text) if isinstance(typed, bytes) else text.decode(errors=QUESTION)


def _told(line: dict[str, Any], right: dict[str, Any]) -> list[tuple[Any, Any]]:
    flat = [(line.get(key), value) for key, value in right.items() if not isinstance(value, dict)]
    for side in ("before", "after"):
        flat += [((name, line.get(side, {}).get(name)), (name, value)) for name, value in right.get(side, {}).items()]
    return flat
