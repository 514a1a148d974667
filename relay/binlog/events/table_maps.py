"""Parse TABLE_MAP events, which describe a table: by types alone (MariaDB's default) or in full (FULL).

`MapColumn.meta` is normalised for row decoders. It is, for each type: FLOAT and DOUBLE bytes; VARCHAR, VAR_STRING and
STRING the most bytes; ENUM and SET packed bytes; BLOB, JSON, GEOMETRY and VECTOR the number of length bytes; NEWDECIMAL
precision << 8 | scale; BIT bits; TIMESTAMP2, DATETIME2 and TIME2 digits of the fraction; 0 for all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from relay._native import Cursor, decode_text
from relay.base.errors import RelayError, StopCode
from relay.binlog.events.column_types import NUMERIC, OLD_TEMPORAL, TEXTUAL, MapColumn, Type, sql_type
from relay.binlog.events.damage import reading
from relay.journal.frames import Column, Definition

_ONE_BYTE: Final = frozenset({
    Type.FLOAT, Type.DOUBLE, Type.BLOB, Type.TINY_BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB, Type.JSON, Type.GEOMETRY,
    Type.VECTOR,
    Type.TIMESTAMP2, Type.DATETIME2, Type.TIME2, Type.BLOB_COMPRESSED,
})  # fmt: skip
_TWO_BYTES: Final = frozenset({
    Type.VARCHAR, Type.VAR_STRING, Type.STRING, Type.ENUM, Type.SET, Type.NEWDECIMAL, Type.BIT, Type.VARCHAR_COMPRESSED,
})  # fmt: skip
_NO_BYTES: Final = frozenset({
    Type.TINY, Type.SHORT, Type.LONG, Type.TIMESTAMP, Type.LONGLONG, Type.INT24, Type.DATE, Type.TIME, Type.DATETIME,
    Type.YEAR,
    Type.NEWDATE,
})  # fmt: skip
READABLE: Final = _ONE_BYTE | _TWO_BYTES | _NO_BYTES
"""The types that the relay can read. CONTRIBUTING.md lists what a new one needs besides an entry in these sets."""
_UNREADABLE: Final[dict[int, str]] = {
    Type.DECIMAL: "DECIMAL in the format before MySQL 5.0", Type.NULL: "NULL", Type.TYPED_ARRAY: "typed array",
}  # fmt: skip


class TableMap(msgspec.Struct, frozen=True):
    """A parsed TABLE_MAP event."""

    table_id: int
    schema: str
    table: str
    columns: tuple[MapColumn, ...]
    primary_key: tuple[tuple[int, int], ...] = ()
    """Its columns in key order: the column's index from 0 on, and the length of its prefix in characters (0: all)."""

    @property
    def full(self) -> bool:
        """Whether it has names, as with binlog_row_metadata = FULL."""
        return all(column.name is not None for column in self.columns)

    @property
    def name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.table}"


_READ: Final = "read a table map"
_NAMES_AT: Final = 8  # after table id and flags


def table_name(body: bytes | memoryview, position: str = "") -> tuple[str, str]:
    """Return schema and table of a TABLE_MAP event; its columns are not parsed. Raises `RelayError` (unknown_event)."""
    names: list[str] = []
    with reading(_READ, "it", position):
        cursor = Cursor(body)
        cursor.take(_NAMES_AT)
        names += _name(cursor), _name(cursor)
    return names[0], names[1]


def parse(body: bytes | memoryview, position: str = "", *, mariadb: bool = False) -> TableMap:
    """Parse the body of a TABLE_MAP event, which is between header and checksum; `position` is for errors.

    `mariadb`: whether MariaDB wrote it. The servers differ in which columns have a character set.

    Raises `RelayError`: unsupported_column for a type with an unknown length, unknown_event for a malformed event.
    """
    with reading(_READ, "it", position):
        cursor = Cursor(body)
        table_id = int.from_bytes(cursor.take(_NAMES_AT)[:6], "little")
        schema, table = _name(cursor), _name(cursor)
        types = cursor.take(cursor.length())
        metas = _metadata(Cursor(cursor.text()), types, f"{schema}.{table}", position)
        nullable = cursor.take((len(types) + 7) // 8)
        columns: list[dict[str, object]] = [
            {"type": real, "meta": meta, "nullable": bool(nullable[i // 8] >> i % 8 & 1)}
            for i, (real, meta) in enumerate(metas)
        ]
        primary_key = _optional(cursor, columns, mariadb)
    described = tuple(MapColumn(**column) for column in columns)  # type: ignore[arg-type]
    return TableMap(table_id, schema, table, described, primary_key)


def fits(table_map: TableMap, definition: Definition) -> bool:
    """Whether a definition has the columns of the table map: their number, types and, if known, names."""
    return _shapes(table_map.columns) == _shapes(definition.columns) and all(
        seen.name in (None, known.name) for seen, known in zip(table_map.columns, definition.columns, strict=True)
    )


def _shapes(columns: Iterable[MapColumn | Column]) -> list[tuple[int, int]]:
    return [(column.type, 0 if column.type in OLD_TEMPORAL else column.meta) for column in columns]


def _name(cursor: Cursor) -> str:
    name = cursor.take(cursor.integer(1)).decode()
    cursor.take(1)
    return name


def _metadata(cursor: Cursor, types: bytes, table: str, position: str) -> list[tuple[int, int]]:
    """Return the type, with ENUM and SET distinguished from STRING, and the normalised metadata of each column."""
    result = []
    for number, kind in enumerate(types, 1):
        if kind in _ONE_BYTE:
            result.append((kind, cursor.integer(1)))
        elif kind in _TWO_BYTES:
            result.append(_two_bytes(kind, cursor.take(2)))
        elif kind in _NO_BYTES:
            result.append((kind, 0))
        else:
            raise _unsupported(table, f"@{number}", _UNREADABLE.get(kind, "a newer one"), kind, position)
    return result


def _two_bytes(kind: int, data: bytes) -> tuple[int, int]:
    low, high = data
    if kind == Type.STRING:
        # Lengths above 255 borrow two bits of the type, inverted.
        if low & 0x30 != 0x30:
            return low | 0x30, high | ((low & 0x30) ^ 0x30) << 4
        return low, high
    if kind in (Type.ENUM, Type.SET):
        return kind, high
    if kind == Type.NEWDECIMAL:
        return kind, low << 8 | high
    if kind == Type.BIT:
        return kind, high * 8 + low
    return kind, high << 8 | low


def _unsupported(table: str, column: str, what: str, kind: int, position: str, hint: str = "") -> RelayError:
    return RelayError(
        StopCode.UNSUPPORTED_COLUMN,
        _READ,
        f"column {column} of {table} has a type that the relay cannot read: {what} ({kind})",
        position=position,
        hint=hint,
    )


class Field(IntEnum):
    """Kinds of optional metadata."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_LABELS = 5
    ENUM_LABELS = 6
    GEOMETRY_TYPE = 7
    PRIMARY_KEY = 8
    PRIMARY_KEY_PREFIX = 9
    LABEL_DEFAULT_CHARSET = 10
    LABEL_CHARSET = 11
    VISIBILITY = 12
    DIMENSIONS = 13


def _optional(cursor: Cursor, columns: list[dict[str, object]], mariadb: bool) -> tuple[tuple[int, int], ...]:
    """Read the optional metadata into `columns`, and return the primary key. Rows do not need unknown kinds."""
    key: list[tuple[int, int]] = []
    # Geometry on MariaDB and vectors on MySQL have a collation too, and count in the list of collations.
    with_charset = TEXTUAL | {Type.GEOMETRY} if mariadb else TEXTUAL | {Type.VECTOR}

    def of(*types: int) -> list[dict[str, object]]:
        return [column for column in columns if column["type"] in types]

    while cursor:
        kind = cursor.integer(1)
        field = Cursor(cursor.text())
        match kind:
            case Field.SIGNEDNESS:
                _flags(field, of(*NUMERIC), "unsigned")
            case Field.DEFAULT_CHARSET:
                _default_collations(field, of(*with_charset), "collation")
            case Field.COLUMN_CHARSET:
                _each(field, of(*with_charset), "collation")
            case Field.COLUMN_NAME:
                for column in columns:
                    column["name"] = field.text().decode()
            case Field.SET_LABELS | Field.ENUM_LABELS:
                for column in of(Type.SET if kind == Field.SET_LABELS else Type.ENUM):
                    column["labels"] = tuple(field.text() for _ in range(field.length()))
            case Field.GEOMETRY_TYPE:
                _each(field, of(Type.GEOMETRY), "geometry")
            case Field.PRIMARY_KEY | Field.PRIMARY_KEY_PREFIX:
                while field:
                    key.append((field.length(), field.length() if kind == Field.PRIMARY_KEY_PREFIX else 0))
                    columns[key[-1][0]]["primary"] = True
            case Field.LABEL_DEFAULT_CHARSET:
                _default_collations(field, of(Type.ENUM, Type.SET), "label_collation")
            case Field.LABEL_CHARSET:
                _each(field, of(Type.ENUM, Type.SET), "label_collation")
            case Field.VISIBILITY:
                _flags(field, columns, "visible")
            case Field.DIMENSIONS:
                _each(field, of(Type.VECTOR), "dimensions")
    return tuple(key)


def _flags(field: Cursor, columns: list[dict[str, object]], key: str) -> None:
    bits = field.take(len(field))
    for i, column in enumerate(columns):
        column[key] = bool(bits[i // 8] << i % 8 & 0x80)


def _each(field: Cursor, columns: list[dict[str, object]], key: str) -> None:
    for column in columns:
        column[key] = field.length()


def _default_collations(field: Cursor, columns: list[dict[str, object]], key: str) -> None:
    default = field.length()
    for column in columns:
        column[key] = default
    while field:
        column = columns[field.length()]  # an index among the columns with a charset
        column[key] = field.length()


def definition(table_map: TableMap, charset_of: Mapping[int, str], position: str = "") -> Definition:
    """Return the definition from a table map with names: proven, with ids and version 0.

    `charset_of` maps numbers of collations to names of character sets. Raises `RelayError` (unsupported_column).
    """
    columns = []
    for column in table_map.columns:
        name = column.name or ""
        try:
            charset = _charset(column, charset_of)
            if column.labels is not None:
                charset, labels = _labels(column.labels, _label_charset(column, charset_of))
            else:
                labels = []
        except LookupError as error:
            raise _unsupported(table_map.name, name, str(error), column.type, position) from error
        columns.append(_column(column, name, charset, labels, column.primary))
    return Definition(table_map.schema, table_map.table, 0, 0, 0, True, columns)


def provisional(table_map: TableMap, charset_of: Mapping[int, str]) -> Definition:
    """Return the unproven definition from a table map: names are positions (`@1`).

    Text of unknown charset is raw bytes.
    """
    columns = []
    for number, column in enumerate(table_map.columns, 1):
        charset = charset_of.get(column.collation or 0, "binary") if column.type in TEXTUAL else ""
        columns.append(_column(column, f"@{number}", charset, [], primary=False))
    return Definition(table_map.schema, table_map.table, 0, 0, 0, False, columns)


def _column(column: MapColumn, name: str, charset: str, labels: list[str], primary: bool) -> Column:
    return Column(
        name=name,
        name_id=0,
        type=column.type,
        meta=column.meta,
        unsigned=bool(column.unsigned),
        nullable=column.nullable,
        primary=primary,
        charset=charset,
        labels=labels,
        sql_type=sql_type(column, charset, labels),
    )


def _charset(column: MapColumn, charset_of: Mapping[int, str]) -> str:
    if column.type not in TEXTUAL:
        return ""
    if column.collation is None:
        raise LookupError("its collation is missing")
    return _collation(column.collation, charset_of)


def _labels(labels: Sequence[bytes], charset: str) -> tuple[str, list[str]]:
    """Return the charset of the column, and the labels.

    The charset is "" if the labels are text. It is "binary" if one of them is not text: then each byte of a label is a
    character, U+0000 to U+00FF.
    """
    if charset != "binary":
        return "", [decode_text(charset, label) for label in labels]
    try:
        return "", [label.decode() for label in labels]
    except UnicodeDecodeError:
        return charset, [label.decode("latin-1") for label in labels]


def _label_charset(column: MapColumn, charset_of: Mapping[int, str]) -> str:
    return "utf8mb4" if column.label_collation is None else _collation(column.label_collation, charset_of)


_BINARY_COLLATION: Final = 63


def _collation(number: int, charset_of: Mapping[int, str]) -> str:
    if number == _BINARY_COLLATION:
        return "binary"
    if number not in charset_of:
        raise LookupError(f"the source does not list collation {number}")
    return charset_of[number]
