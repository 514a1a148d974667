"""Compares the relay's output of rows with the server's."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from relay._native import RowImages
from relay.journal import frames
from tests.types.case import TableCase
from tests.types.payloads import cells

INSERT, UPDATE, DELETE = 1, 2, 4
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
DIGITS = {"float": 6, "double": 17}  # significant digits of a number's text
BINARIES = (
    "bit", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector", "geometry", "point",
    "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
)  # fmt: skip
QUESTION = "question"  # error handler: a question mark for each byte that is not UTF-8
codecs.register_error(QUESTION, lambda error: ("?" * (error.end - error.start), error.end))  # type: ignore[attr-defined]
_NULL = b"\0nothing"

Row = dict[str, bytes | None]


class Change(NamedTuple):
    """A changed row: the texts of its columns by name."""

    kind: int
    before: Row | None
    after: Row | None


class ReadColumn(NamedTuple):
    """A column of a case's table."""

    name: str
    sql: str
    key: bool


@dataclass(frozen=True, eq=False)
class Frame:
    """A ROWS frame, and the packed definition that its TABLE frame leads to."""

    definition: bytes
    rows: frames.Rows

    @cached_property
    def changes(self) -> list[tuple[Change, dict[str, Any], dict[str, Any]]]:
        """The rows as texts, each with the typed values of its two sides. Raises ValueError for unreadable ones."""
        images = RowImages(self.definition, self.rows.kind, self.rows.body)
        return [
            self._change(poll, packed)
            for poll, packed in zip(images.render("poll", null_text=_NULL), images.render("msgpack"), strict=True)
        ]

    def _change(self, poll: bytes, packed: bytes) -> tuple[Change, dict[str, Any], dict[str, Any]]:
        texts, _ = cells(poll)
        before, after = msgspec.msgpack.decode(packed)[-2:]
        told = {cell.name: cell for cell in texts}
        sides = [
            None
            if typed is None
            else {name: None if value is None else getattr(told[name], side) for name, value in typed.items()}
            for side, typed in (("before", before), ("after", after))
        ]
        return Change(self.rows.kind, *sides), before or {}, after or {}


class Table(NamedTuple):
    """A case's table on a server."""

    case: TableCase
    name: str
    columns: tuple[ReadColumn, ...]


def differences(table: Table, expected: list[Change], found: list[Frame]) -> list[str]:
    """The differences between the rows of the frames and the expected rows."""
    wrong: list[str] = []
    try:
        got = [change for frame in found for change in frame.changes]
    except ValueError as error:
        return [str(error)]
    if len(got) != len(expected):
        return [f"{len(got)} rows came, not {len(expected)}"]
    kinds = {column.name: (_kind(table, column), column.sql) for column in table.columns}
    for number, (right, (ours, *typed)) in enumerate(zip(expected, got, strict=True)):
        if right.kind != ours.kind:
            wrong.append(f"row {number}: kind {ours.kind}, not {right.kind}")
            continue
        for side, values in zip(("before", "after"), typed, strict=True):
            texts = getattr(ours, side)
            lines = itertools.chain(
                _side(table, right, texts, getattr(right, side)), _typed(kinds, texts or {}, values)
            )
            wrong += [f"row {number} {side}: {line}" for line in lines]
    if _to_lack(table) and all(_whole(table, change) for change, *_ in got):
        wrong.append("no image lacks a column")
    return wrong


def _kind(table: Table, column: ReadColumn) -> str:
    """The type of a column without its arguments. ENUM and SET with binary labels count as binary strings."""
    kind = re.split(r"[ (]", column.sql)[0]
    return "binary" if kind in ("enum", "set") and "X'" in table.case.columns else kind


def _to_lack(table: Table) -> bool:
    """Whether an image must lack a column. Without a key MariaDB writes all; with partial JSON MySQL may write all."""
    return table.case.partial and len(table.case.settings) == 1 and any(column.key for column in table.columns)


def _whole(table: Table, change: Change) -> bool:
    return all(side is None or len(side) == len(table.columns) for side in (change.before, change.after))


def _side(table: Table, change: Change, ours: Row | None, right: Row | None) -> Iterator[str]:
    """The differences between one side of a row and the expected one."""
    if ours is None or right is None:
        if ours is not right:
            yield "there, and should not be" if right is None else "not there"
        return
    partial = table.case.partial
    wanted = [name for name in right if name in ours] if partial else list(right)
    if list(ours) != wanted:
        yield f"columns {list(ours)}, not {wanted}"
        return
    if partial and (missing := _needed(table, change, right is change.before) - ours.keys()):
        yield f"lacks {', '.join(sorted(missing))}"
    for name in wanted:
        if ours[name] != right[name]:
            yield f"{name} is {_shown(ours[name], right[name])}, the server prints {_shown(right[name], ours[name])}"


def _needed(table: Table, change: Change, before: bool) -> set[str]:
    """Columns that a partial image must have: before a change the key; after it what changed, or what was given."""
    if before:
        keys = {column.name for column in table.columns if column.key}
        return keys or {column.name for column in table.columns}
    assert change.after is not None
    old = change.before or dict.fromkeys(change.after)
    return {name for name, value in change.after.items() if value != old[name]}


def _typed(kinds: dict[str, tuple[str, str]], texts: Row, values: dict[str, Any]) -> Iterator[str]:
    """The differences between typed values and their texts. `kinds`: each column's type without and with arguments."""
    for name, text in texts.items():
        value, (kind, sql) = values[name], kinds.get(name, ("binary", ""))
        if text is None:
            agree = value is None
        elif kind in INTEGERS:
            agree = value == int(text)
        elif kind in DIGITS:
            # With FLOAT(M,D) and DOUBLE(M,D) the text has fewer digits.
            agree = isinstance(value, float) and ("," in sql or _rounded(value, kind) == _rounded(float(text), kind))
        else:
            agree = value == (text if kind in BINARIES else text.decode(errors=QUESTION))
        if not agree:
            yield f"{name} typed is {value!r:.100}, and {text!r:.100} as text"


def _rounded(value: float, kind: str) -> str:
    return f"{value:.{DIGITS[kind]}g}"


def _shown(text: bytes | None, other: bytes | None) -> str:
    """The part of a text around its first difference."""
    if text is None or other is None or len(text) < 100:
        return repr(text)[:300]
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, at - 10)
    return f"{len(text)} bytes, at {start} {text[start : at + 30]!r}"
