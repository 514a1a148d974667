"""Pages of a table in the order of its primary key: builds the SELECT that continues after a row.

The log keeps a key as texts, one for each column. They become SQL that compares as the column does: numbers as they are
(ENUM and SET by their number, which is their sort order), dates quoted, text by its bytes in hex.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from relay.base.errors import RelayError, StopCode
from relay.lake.snapshot.select import quoted
from relay.schema.table import Column


class KeyPart(NamedTuple):
    """A column of the primary key; `descending` as in the index."""

    column: Column
    descending: bool = False


_NUMBERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "enum", "set"})
_FLOATS: Final = frozenset({"float", "double"})
_QUOTED: Final = frozenset({"date", "time", "datetime", "timestamp", "uuid", "inet4", "inet6"})
_SHAPES: Final = (
    (_NUMBERS, r"-?\d+"),
    (frozenset({"decimal"}), r"-?\d+(\.\d+)?"),
    (_FLOATS, r"-?\d+(\.\d+)?(e[+-]?\d+)?"),
    (_QUOTED, r"[-0-9a-f:. ]+"),
)
_HEX: Final = r"([0-9a-f]{2})*"


def expression(part: KeyPart) -> str:
    """Return the SQL expression whose value `text` converts."""
    name, kind = quoted(part.column.name), part.column.type.name
    if kind in _NUMBERS or kind == "decimal":
        return f"{name} + 0"
    return f"{name} * 1e0" if kind in _FLOATS else name


def text(part: KeyPart, value: bytes) -> str:
    """Convert a value of `expression` to the text that the log keeps."""
    return value.decode() if _shape(part) is not _HEX else value.hex()


def page(
    source: str, expressions: Sequence[str], key: Sequence[KeyPart], after: Sequence[str] | None, rows: int
) -> str:
    """Return the SELECT for the next `rows` rows after the key `after`.

    Raises `RelayError` (lake_damaged) for an invalid key.
    """
    names = [quoted(part.column.name) for part in key]
    order = ", ".join(f"{name} DESC" if part.descending else name for name, part in zip(names, key, strict=True))
    where = f" WHERE {_behind(key, after)}" if after is not None else ""
    return f"SELECT {', '.join(expressions)} FROM {source} FORCE INDEX (PRIMARY){where} ORDER BY {order} LIMIT {rows}"


def _behind(key: Sequence[KeyPart], after: Sequence[str]) -> str:
    """Return the condition (a, b) > (x, y), as servers use an index for it: a >= x AND (a > x OR (a = x AND b > y))."""
    if len(key) != len(after):
        raise _damaged(f"the saved key has {len(after)} columns, the table's {len(key)}")
    values = [_literal(part, kept) for part, kept in zip(key, after, strict=True)]
    condition = ""
    for part, value in reversed(list(zip(key, values, strict=True))):
        name, beyond = quoted(part.column.name), "<" if part.descending else ">"
        further = f"{name} {beyond} {value}"
        condition = f"({further} OR ({name} = {value} AND {condition}))" if condition else further
    if len(key) > 1:
        condition = f"{quoted(key[0].column.name)} {'<' if key[0].descending else '>'}= {values[0]} AND {condition}"
    return condition


def _literal(part: KeyPart, kept: str) -> str:
    shape, kind = _shape(part), part.column.type.name
    if re.fullmatch(shape, kept) is None:  # only valid values may get into a statement
        raise _damaged(f"{kept!r:.100} is not a value of the key column {part.column.name}, {kind}")
    if shape is _HEX:
        return f"_{part.column.type.charset or 'binary'} X'{kept}'"
    if kind in _QUOTED:
        return f"'{kept}'"
    return f"{kept}e0" if kind in _FLOATS and "e" not in kept else kept


def _shape(part: KeyPart) -> str:
    return next((shape for kinds, shape in _SHAPES if part.column.type.name in kinds), _HEX)


def _damaged(cause: str) -> RelayError:
    return RelayError(StopCode.LAKE_DAMAGED, "continue a snapshot", cause)
