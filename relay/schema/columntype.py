"""Column types as the server stores them, as information_schema shows them, and as table maps contain them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relay._native import decode_text
from relay.binlog.events.column_types import ESCAPES, WIDEST, Type
from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import Bytes, DataType
from relay.ddl.types import GEOMETRIES, INTEGERS

TEXTS: Final = ("tinytext", "text", "mediumtext", "longtext")
BLOBS: Final = ("tinyblob", "blob", "mediumblob", "longblob")
WITH_CHARSET: Final = frozenset({"char", "varchar", "enum", "set", *TEXTS})
UNKNOWN_CHARSET: Final = "?"
"""The character set of a column whose statement has none, in a table and a schema whose default is unknown.

If it is binary, a text is stored as the binary type of that size.
"""
_LONGEST: Final = (255, 65_535, 16_777_215, 4_294_967_295)  # bytes of a TINYTEXT, TEXT, MEDIUMTEXT and LONGTEXT
_LONGEST_VARCHAR: Final = 65_535
_WIDEST: Final = max(WIDEST.values())
_LONGEST_SHORT: Final = 32  # the most characters of a number or date
_WIDTHS: Final = {
    "tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20),
}  # fmt: skip
"""The display widths of integers, signed and unsigned."""
_NO_WIDTHS_SINCE: Final = 80_019
_BINARY: Final = {"char": "binary", "varchar": "varbinary"}
_UUID_BYTES: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
_WITHOUT_SIZE: Final = {
    "tinyint": (Type.TINY, 0), "smallint": (Type.SHORT, 0), "mediumint": (Type.INT24, 0), "int": (Type.LONG, 0),
    "bigint": (Type.LONGLONG, 0), "year": (Type.YEAR, 0), "date": (Type.DATE, 0), "float": (Type.FLOAT, 4),
    "double": (Type.DOUBLE, 8), "json": (Type.JSON, 4),
}  # fmt: skip
"""The types whose metadata in a table map is constant, with that."""
_UNITS: Final = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
"""The bytes of the shortest character, if more than one."""
_FRACTIONS: Final = {"time": Type.TIME2, "datetime": Type.DATETIME2, "timestamp": Type.TIMESTAMP2}


def stored_type(kind: DataType, charset: str, dialect: Dialect) -> DataType:
    """Return the type as the server stores it; `charset` is that of the table, empty if unknown.

    A text of an unknown character set has `UNKNOWN_CHARSET`. Raises `NotUnderstood` if more depends on it.
    """
    if kind.name in INTEGERS:
        return kind._replace(length=kind.length or width_in_digits(kind), charset="", collation="")
    match kind.name:
        case "decimal":
            kind = kind._replace(length=kind.length or 10, decimals=kind.decimals or 0)
        case "bit":
            kind = kind._replace(length=kind.length or 1)
        case "json" if dialect.mariadb:
            return DataType("longtext", charset="utf8mb4")
        case "vector":
            kind = kind._replace(length=kind.length or 2048)
        case "time" | "datetime" | "timestamp":
            kind = kind._replace(length=kind.length or None)
        case "geometrycollection" if not dialect.mariadb:
            kind = kind._replace(name="geomcollection")
        case "geomcollection" if dialect.mariadb:
            kind = kind._replace(name="geometrycollection")
        case "year":
            kind = kind._replace(length=None)
        case "binary":
            kind = kind._replace(length=1 if kind.length is None else kind.length)
        case "varbinary":
            kind = _varchar(kind._replace(name="varchar", charset="binary"), dialect)
        case _ if kind.name in BLOBS:
            kind = _blob(kind._replace(charset="binary"))
        case _ if kind.name in WITH_CHARSET:
            return _text(kind, charset, dialect)
    return kind._replace(charset="", collation="")


def width_in_digits(kind: DataType) -> int:
    """Return the default display width of an integer type."""
    return _WIDTHS[kind.name][kind.unsigned]


def _text(kind: DataType, charset: str, dialect: Dialect) -> DataType:
    own = kind.charset or charset or UNKNOWN_CHARSET
    kind = kind._replace(charset=own, collation="")
    if kind.name in ("enum", "set"):
        return kind._replace(labels=tuple(_label(label, own) for label in kind.labels))
    if kind.name == "char":
        return in_charset(kind._replace(length=1 if kind.length is None else kind.length), own)
    return _varchar(kind, dialect) if kind.name == "varchar" else _blob(kind)


def _label(label: str | Bytes, charset: str) -> str | Bytes:
    """Return a label as the server stores it: text, or bytes if they are not text."""
    if charset == UNKNOWN_CHARSET and (isinstance(label, Bytes) or not label.isascii() or label.endswith(" ")):
        raise NotUnderstood("labels depend on the table's character set, which is not known")
    if isinstance(label, str):
        return label if charset == "binary" else label.rstrip(" ")
    if charset == "binary":
        try:
            return label.data.decode()
        except UnicodeDecodeError:
            return label
    unit = _UNITS.get(charset, 1)
    try:
        return decode_text(charset, label.data.rjust(-(-len(label.data) // unit) * unit, b"\0")).rstrip(" ")
    except LookupError as error:
        raise NotUnderstood(str(error)) from error


def _varchar(kind: DataType, dialect: Dialect) -> DataType:
    if kind.length is None:
        raise NotUnderstood("a VARCHAR without a length")
    if lacks_charset(kind) and (dialect.strict or kind.length * _WIDEST <= _LONGEST_VARCHAR):
        return kind
    size = kind.length * width_of(kind.charset)
    if size > _LONGEST_VARCHAR:
        if dialect.strict:
            raise NotUnderstood("a VARCHAR that is too long")
        return _blob(kind._replace(name="text"))
    return in_charset(kind, kind.charset)


def _blob(kind: DataType) -> DataType:
    """Return the TEXT or BLOB type of the necessary size; it is a BLOB type if the character set is binary."""
    name = kind.name
    if kind.length is not None:
        size = kind.length * width_of(kind.charset)
        name = TEXTS[_number_for(size)] if size else "text"
    return in_charset(kind._replace(name=TEXTS[_number_of(name)], length=None), kind.charset)


def in_charset(kind: DataType, charset: str) -> DataType:
    """Return a text in a character set: if that is binary, the binary type of its size."""
    if charset != "binary":
        return kind._replace(charset=charset)
    name = BLOBS[_number_of(kind.name)] if kind.name in TEXTS else _BINARY[kind.name]
    return kind._replace(name=name, charset="")


def with_known_charset(kind: DataType, charset: str) -> DataType:
    """Return the type in a character set if its own is unknown."""
    if kind.charset != UNKNOWN_CHARSET:
        return kind
    return kind._replace(charset=charset) if kind.name in ("enum", "set") else in_charset(kind, charset)


def lacks_charset(kind: DataType) -> bool:
    """Whether the bytes of rows cannot be read because the character set is unknown. Those of ENUM and SET can."""
    return kind.charset == UNKNOWN_CHARSET and kind.name not in ("enum", "set")


def _number_of(name: str) -> int:
    """Return the number of a TEXT or BLOB type among those of increasing size: 0 to 3."""
    return TEXTS.index(name) if name in TEXTS else BLOBS.index(name)


def _number_for(size: int) -> int:
    """Return the number of the smallest TEXT or BLOB type that holds so many bytes."""
    return next((number for number, longest in enumerate(_LONGEST) if size <= longest), len(_LONGEST) - 1)


def width_of(charset: str) -> int:
    """Return the number of bytes of a character set's longest character. Raises `NotUnderstood` for an unknown one."""
    if charset == UNKNOWN_CHARSET:
        raise NotUnderstood("the table's character set is not known")
    return WIDEST.get(charset, 1)


def converted_type(kind: DataType, charset: str, dialect: Dialect) -> DataType:
    """Return the type after CONVERT TO CHARACTER SET: it holds at least as many characters. Raises `NotUnderstood`."""
    if kind.name not in WITH_CHARSET:
        return kind
    if kind.charset == UNKNOWN_CHARSET:
        raise NotUnderstood("the character set that a column is converted from is not known")
    changed = kind._replace(charset=charset)
    if kind.name in TEXTS:
        number = _number_of(kind.name)
        characters = _LONGEST[number] // width_of(kind.charset)
        # A conversion to fewer bytes does not shrink the type.
        wanted = max(number, _number_for(characters * width_of(charset)))
        changed = changed._replace(name=TEXTS[wanted])
    return stored_type(changed, charset, dialect)


def sized_by(old: DataType, new: DataType, charset: str) -> DataType:
    """Return the type of a column that one statement of MySQL changes to a text and converts to a character set.

    It has the size of the old column, not the one in the statement, except for LONGTEXT. `charset` is the new character
    set. Raises `NotUnderstood` if that size is uncertain.
    """
    if new.name == "longtext":
        return new
    width = width_of(old.charset or "binary")
    match old.name:
        case "char" | "varchar" | "binary" | "varbinary":
            size = old.length or 0
        case name if name in (*TEXTS, *BLOBS):
            size = _LONGEST[_number_of(name)]
        case "json":
            size = _LONGEST[-1]
        case "enum":
            size = max(len(label) for label in _texts(old.labels))
        case "set":
            size = sum(len(label) + 1 for label in _texts(old.labels)) - 1
        case name if name in INTEGERS or name in _FRACTIONS or name in ("date", "year"):
            size = _LONGEST_SHORT
        case "decimal" if (old.length or 0) < _LONGEST_SHORT:
            size = _LONGEST_SHORT
        case name:
            raise NotUnderstood(f"MySQL gives a text the size of the old {name}")
    if old.charset != charset:
        size = size // width * width_of(charset)
    return new._replace(name=TEXTS[_number_for(size)])


def _texts(labels: Iterable[str | Bytes]) -> list[str]:
    texts = [label for label in labels if isinstance(label, str)]
    if not texts:
        raise NotUnderstood("labels that are no text")
    return texts


def column_type(kind: DataType, dialect: Dialect) -> str:
    """Return the type as the server writes it in COLUMN_TYPE."""
    signs = (" unsigned" if kind.unsigned else "") + (" zerofill" if kind.zerofill else "")
    compressed = " /*M!100301 COMPRESSED*/" if kind.compressed else ""
    match kind.name:
        case "enum" | "set":
            return f"{kind.name}({','.join(map(_literal, kind.labels))})"
        case "decimal":
            return f"decimal({kind.length},{kind.decimals}){signs}"
        case "year":
            return "year(4)" if _has_widths(dialect) else "year"
        case _ if kind.name in INTEGERS and not (_has_widths(dialect) or kind.zerofill or _is_boolean(kind)):
            return kind.name + signs
    sizes = [str(size) for size in (kind.length, kind.decimals) if size is not None]
    return kind.name + (f"({','.join(sizes)})" if sizes else "") + signs + compressed


def _literal(label: str | Bytes) -> str:
    return f"'{label.translate(ESCAPES)}'" if isinstance(label, str) else f"x'{label.data.hex()}'"


def _has_widths(dialect: Dialect) -> bool:
    return dialect.mariadb or dialect.version < _NO_WIDTHS_SINCE


def _is_boolean(kind: DataType) -> bool:
    return kind.name == "tinyint" and kind.length == 1 and not kind.unsigned


def table_map_type(kind: DataType, dialect: Dialect) -> tuple[int, int]:
    """Return the type and its normalised metadata as in a table map (relay.binlog.events.table_maps).

    Temporal types are those of the newer format, even if the table has the older one. Raises `NotUnderstood`.
    """
    if lacks_charset(kind):
        raise NotUnderstood("its character set is not known")
    name, length = kind.name, kind.length or 0
    if name in _WITHOUT_SIZE:
        return _WITHOUT_SIZE[name]
    if name in _FRACTIONS:
        return _FRACTIONS[name], length
    if name in TEXTS or name in BLOBS:
        return (Type.BLOB_COMPRESSED if kind.compressed else Type.BLOB), _number_of(name) + 1
    if name in GEOMETRIES:
        return Type.GEOMETRY, 4
    if name in _UUID_BYTES:
        return Type.STRING, _UUID_BYTES[name]
    match name:
        case "decimal":
            return Type.NEWDECIMAL, length << 8 | (kind.decimals or 0)
        case "bit":
            return Type.BIT, length
        case "vector":
            return (Type.VARCHAR, 4 * length) if dialect.mariadb else (Type.VECTOR, 4)
        case "char" | "binary":
            return Type.STRING, length * width_of(kind.charset)
        case "varchar" | "varbinary":
            size = length * width_of(kind.charset)
            return (Type.VARCHAR_COMPRESSED, size + 1) if kind.compressed else (Type.VARCHAR, size)
        case "enum":
            return Type.ENUM, 1 if len(kind.labels) < 256 else 2
        case "set":
            size = (len(kind.labels) + 7) // 8
            return Type.SET, size if size <= 4 else 8
    raise NotUnderstood(f"the type {name}")
