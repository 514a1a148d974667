"""Column types: their numbers in table maps, and their spelling in SQL."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec


class Type(IntEnum):
    """Column types in a table map. CONTRIBUTING.md says how to add one."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


NUMERIC: Final = frozenset({
    Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG, Type.NEWDECIMAL, Type.FLOAT, Type.DOUBLE, Type.YEAR,
})  # fmt: skip
"""Types with a bit in the signedness field of a table map. The bit of YEAR is always set."""
COMPRESSED: Final = frozenset({Type.BLOB_COMPRESSED, Type.VARCHAR_COMPRESSED})
"""MariaDB's COMPRESSED columns."""
TEXTUAL: Final = frozenset({Type.VARCHAR, Type.VAR_STRING, Type.STRING, Type.BLOB}) | COMPRESSED
OLD_TEMPORAL: Final = frozenset({Type.TIME, Type.DATETIME, Type.TIMESTAMP})
"""Formats from before MySQL 5.6. In MariaDB they may have a fraction; table maps do not show it or its length."""


class MapColumn(msgspec.Struct, frozen=True):
    """A column of a table map. A field is None if the table map lacks it. `meta` is normalised."""

    type: int
    """A `Type`; ENUM and SET are distinguished from STRING."""
    meta: int
    """The parameters of the type: see `relay.binlog.events.table_maps`."""
    nullable: bool
    """Whether values may be NULL."""
    name: str | None = None
    """The column's name."""
    unsigned: bool | None = None
    """For numbers: whether they are unsigned."""
    collation: int | None = None
    """For text: number of the collation; 63 for binary strings, MariaDB's geometry and MySQL's vectors."""
    labels: tuple[bytes, ...] | None = None
    """For ENUM and SET: the labels, in the character set of `label_collation`."""
    label_collation: int | None = None
    """For ENUM and SET: number of the labels' collation."""
    primary: bool = False
    """Whether the column is in the primary key."""
    visible: bool = True
    """Whether SELECT * returns it (only MySQL reports this)."""
    geometry: int | None = None
    """For geometry: its kind, 0 for any, 1 for a point ... 7 for a collection."""
    dimensions: int | None = None
    """For MySQL's VECTOR: number of dimensions."""


WIDEST: Final = {
    "big5": 2, "cp932": 2, "eucjpms": 3, "euckr": 2, "gb18030": 4, "gb2312": 2, "gbk": 2, "sjis": 2, "ucs2": 2,
    "ujis": 3, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8": 3, "utf8mb3": 3, "utf8mb4": 4,
}  # fmt: skip
"""The most bytes of a character, for each character set in which characters may have several bytes."""
_PLAIN: Final = {
    Type.DATE: "date", Type.NEWDATE: "date", Type.YEAR: "year", Type.JSON: "json", Type.TIMESTAMP: "timestamp",
    Type.DATETIME: "datetime", Type.TIME: "time",
}  # fmt: skip
_NUMBERS: Final = {
    Type.TINY: "tinyint", Type.SHORT: "smallint", Type.INT24: "mediumint", Type.LONG: "int", Type.LONGLONG: "bigint",
    Type.FLOAT: "float", Type.DOUBLE: "double",
}  # fmt: skip
_FRACTIONS: Final = {Type.TIMESTAMP2: "timestamp", Type.DATETIME2: "datetime", Type.TIME2: "time"}
_BLOBS: Final = ("tiny", "", "medium", "long")
ESCAPES: Final = str.maketrans({"\\": "\\\\", "\0": r"\0", "'": "''", "\n": r"\n", "\r": r"\r"})
"""Escapes of servers in the labels of COLUMN_TYPE."""
GEOMETRY_KINDS: Final = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection",
)  # fmt: skip
"""The kinds of geometry by their numbers in table maps."""


def sql_type(column: MapColumn, charset: str, labels: list[str]) -> str:
    """Return the type as the server writes it in COLUMN_TYPE, as far as the table map has it."""
    kind, meta = column.type, column.meta
    unsigned = " unsigned" if column.unsigned else ""
    if kind in _PLAIN:
        return _PLAIN[Type(kind)]
    if kind in _NUMBERS:
        return _NUMBERS[Type(kind)] + unsigned
    if kind in _FRACTIONS:
        return _FRACTIONS[Type(kind)] + (f"({meta})" if meta else "")
    if kind in (Type.ENUM, Type.SET):
        quoted = ",".join(f"'{label.translate(ESCAPES)}'" for label in labels)
        return f"{Type(kind).name.lower()}({quoted})" if labels else Type(kind).name.lower()
    if kind == Type.NEWDECIMAL:
        return f"decimal({meta >> 8},{meta & 0xFF}){unsigned}"
    if kind == Type.BIT:
        return f"bit({meta})"
    if kind == Type.GEOMETRY:
        return (
            GEOMETRY_KINDS[column.geometry] if column.geometry and column.geometry < len(GEOMETRY_KINDS) else "geometry"
        )
    if kind == Type.VECTOR:
        return f"vector({column.dimensions})" if column.dimensions else "vector"
    binary = charset == "binary"
    if kind == Type.STRING:
        return f"binary({meta})" if binary else f"char({meta // WIDEST.get(charset, 1)})"
    compressed = " /*M!100301 COMPRESSED*/" if kind in COMPRESSED else ""
    if kind in (Type.VARCHAR, Type.VAR_STRING, Type.VARCHAR_COMPRESSED):
        most = meta - 1 if compressed else meta  # one byte is the head of a compressed value
        return (f"varbinary({most})" if binary else f"varchar({most // WIDEST.get(charset, 1)})") + compressed
    return _BLOBS[(meta or 1) - 1 & 3] + ("blob" if binary else "text") + compressed
