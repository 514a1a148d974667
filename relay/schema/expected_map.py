"""The table map that the source will write before a table's rows, as far as its definition tells.

With it, the definition is ready before the first row. A table map that comes out otherwise is decided by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from relay.binlog.events.column_types import GEOMETRY_KINDS, NUMERIC, TEXTUAL, Type
from relay.binlog.events.table_maps import Field, TableMap
from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import DataType, TableName
from relay.schema.columntype import table_map_type, with_known_charset
from relay.schema.matching import charset_of_text
from relay.schema.table import Table

_FLAGS: Final = 1  # a BIT column has its exact length; both servers always set it
_BINARY: Final = 63  # the collation of binary strings,
_NEWEST: Final = 255  # and that of utf8mb4, by default
_ONE_BYTE_BELOW: Final = 251  # of a length-encoded number
_WITH_COLLATION: Final = TEXTUAL | {Type.VECTOR}  # on MySQL
_SIZED_BY_TWO: Final = frozenset({Type.VARCHAR, Type.VARCHAR_COMPRESSED})
_SIZED_BY_ONE: Final = frozenset({
    Type.FLOAT, Type.DOUBLE, Type.BLOB, Type.BLOB_COMPRESSED, Type.JSON, Type.GEOMETRY, Type.VECTOR, Type.TIMESTAMP2,
    Type.DATETIME2, Type.TIME2,
})  # fmt: skip


class Collations:
    """The collations in the table maps so far: the next table of a schema has probably the same.

    Definitions contain character sets only, as rows need no more.
    """

    def __init__(self, charset_of: Mapping[int, str]) -> None:
        self._charset_of = charset_of
        self._last = {"": _NEWEST}  # by schema; "" is for schemas without a table map
        self._of: dict[tuple[str, str], int] = {}  # by schema and character set

    def learn(self, table_map: TableMap) -> None:
        """Take the collations of a table map's texts."""
        for column in table_map.columns:
            charset = charset_of_text(column, self._charset_of)
            if column.collation is not None and charset not in ("", "binary"):
                for schema in ("", table_map.schema):
                    self._last[schema] = self._of[schema, charset] = column.collation

    def charset(self, schema: str) -> str:
        """Return the character set to expect for a text in a schema."""
        return self._charset_of.get(self._last.get(schema, self._last[""]), "")

    def collation(self, schema: str, charset: str) -> int:
        """Return the collation to expect for a text of that character set in a schema."""
        if charset in ("", "binary"):
            return _BINARY
        return self._of.get((schema, charset)) or self._of.get(("", charset)) or _NEWEST


def expected_map(name: TableName, table: Table, dialect: Dialect, collations: Collations) -> bytes | None:
    """Return the body of the table map from its flags on, without FULL metadata; None if the definition lacks a part.

    `name` is as the source stores it. A character set that the definition lacks is taken from `collations`, if table maps
    show character sets.
    """
    if any(column.nullable is None for column in table.columns):
        return None
    kinds = [column.type for column in table.columns]
    shown = dialect.has_charsets_in_table_maps
    if shown:
        kinds = [with_known_charset(kind, collations.charset(name.schema)) for kind in kinds]
    try:
        types = [table_map_type(kind, dialect) for kind in kinds]
    except NotUnderstood:
        return None
    return b"".join((
        _FLAGS.to_bytes(2, "little"),
        *map(_name, name),
        _number(len(types)),
        bytes(Type.STRING if kind in (Type.ENUM, Type.SET) else kind for kind, _ in types),
        _text(b"".join(_size(kind, meta) for kind, meta in types)),
        _bits(bool(column.nullable) for column in table.columns),
        _minimal(kinds, [kind for kind, _ in types], partial(collations.collation, name.schema)) if shown else b"",
    ))  # fmt: skip


def _name(name: str) -> bytes:
    encoded = name.encode()
    return bytes([len(encoded)]) + encoded + b"\0"


def _text(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    """Return a length-encoded number."""
    return bytes([value]) if value < _ONE_BYTE_BELOW else b"\xfc" + value.to_bytes(2, "little")


def _size(kind: int, meta: int) -> bytes:
    """Return the metadata of a type; `meta` is normalised (relay.binlog.events.table_maps)."""
    match kind:
        case Type.STRING:
            return bytes([kind ^ (meta & 0x300) >> 4, meta & 0xFF])
        case Type.ENUM | Type.SET:
            return bytes([kind, meta])
        case Type.NEWDECIMAL:
            return meta.to_bytes(2, "big")
        case Type.BIT:
            return bytes([meta % 8, meta // 8])
        case _ if kind in _SIZED_BY_TWO:
            return meta.to_bytes(2, "little")
    return bytes([meta]) if kind in _SIZED_BY_ONE else b""


def _bits(flags: Iterable[bool], *, high_first: bool = False) -> bytes:
    """Return one bit for each flag, the lowest or the highest of a byte first."""
    bits = list(flags)
    octets = bytearray((len(bits) + 7) // 8)
    for i, flag in enumerate(bits):
        octets[i // 8] |= flag << (7 - i % 8 if high_first else i % 8)
    return bytes(octets)


def _minimal(kinds: Sequence[DataType], types: Sequence[int], collation_of: Callable[[str], int]) -> bytes:
    """Return MySQL's metadata with binlog_row_metadata = MINIMAL."""
    fields = []
    pairs = list(zip(kinds, types, strict=True))
    if numbers := [kind.unsigned or number == Type.YEAR for kind, number in pairs if number in NUMERIC]:
        fields.append((Field.SIGNEDNESS, _bits(numbers, high_first=True)))
    if collations := [collation_of(kind.charset) for kind, number in pairs if number in _WITH_COLLATION]:
        fields.append(_collations(collations))
    if shapes := [GEOMETRY_KINDS.index(kind.name) for kind in kinds if kind.name in GEOMETRY_KINDS]:
        fields.append((Field.GEOMETRY_TYPE, b"".join(map(_number, shapes))))
    if dimensions := [kind.length or 0 for kind in kinds if kind.name == "vector"]:
        fields.append((Field.DIMENSIONS, b"".join(map(_number, dimensions))))
    return b"".join(bytes([kind]) + _text(value) for kind, value in fields)


def _collations(collations: Sequence[int]) -> tuple[Field, bytes]:
    """Return the field with one collation for each text: that of most and the exceptions, or each of them."""
    counts = Counter(sorted(collations))
    [(default, _)] = counts.most_common(1)
    others = [(index, collation) for index, collation in enumerate(collations) if collation != default]
    if len(others) * 2 < len(collations):
        pairs = b"".join(_number(index) + _number(collation) for index, collation in others)
        return Field.DEFAULT_CHARSET, _number(default) + pairs
    return Field.COLUMN_CHARSET, b"".join(map(_number, collations))
