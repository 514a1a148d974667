"""Column types in statements, by the server's names."""

from __future__ import annotations

from typing import Final

from relay.ddl.cursor import Cursor, NotUnderstood
from relay.ddl.dialect import Dialect, SqlMode
from relay.ddl.lexer import Kind
from relay.ddl.syntax import Bytes, DataType

CHARSETS: Final = frozenset({
    "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932",
    "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r",
    "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis",
    "utf16", "utf16le", "utf32", "utf8mb3", "utf8mb4",
})  # fmt: skip
"""All character sets of both servers, by MySQL's names."""
INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
GEOMETRIES: Final = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection",
    "geometrycollection",
})  # fmt: skip
_SYNONYMS: Final = {
    "tinyint": "tinyint", "int1": "tinyint", "smallint": "smallint", "int2": "smallint", "mediumint": "mediumint",
    "int3": "mediumint", "middleint": "mediumint", "int": "int", "integer": "int", "int4": "int", "bigint": "bigint",
    "int8": "bigint", "dec": "decimal", "decimal": "decimal", "numeric": "decimal", "fixed": "decimal", "bit": "bit",
    "date": "date", "time": "time", "datetime": "datetime", "timestamp": "timestamp", "year": "year",
    "varbinary": "varbinary", "binary": "binary", "varchar": "varchar", "varcharacter": "varchar",
    "tinytext": "tinytext", "text": "text", "mediumtext": "mediumtext", "longtext": "longtext", "tinyblob": "tinyblob",
    "blob": "blob", "mediumblob": "mediumblob", "longblob": "longblob", "json": "json", "vector": "vector",
    "float4": "float", "float8": "double",
    **{name: name for name in GEOMETRIES},
}  # fmt: skip
_MARIADB: Final = frozenset({"uuid", "inet4", "inet6"})
_ORACLE: Final = {"varchar2": "varchar", "raw": "varbinary", "clob": "longtext", "blob": "longblob", "date": "datetime"}
_LONGEST_SINGLE: Final = 24
"""The most bits of a FLOAT(n) that is not a DOUBLE."""


def charset_named(name: str) -> str:
    """MySQL's name of a character set. Raises `NotUnderstood`."""
    found = name.lower()
    found = "utf8mb3" if found == "utf8" else found
    if found not in CHARSETS:
        raise NotUnderstood(f"character set {name} is not known here")
    return found


def charset_of_collation(name: str, dialect: Dialect) -> str:
    """Return the character set of a collation, empty for MariaDB's collations of several sets.

    Raises `NotUnderstood`.
    """
    prefix = name.lower().partition("_")[0]
    if dialect.mariadb and prefix == "uca1400":
        return ""
    return charset_named(prefix)


def data_type(cursor: Cursor, dialect: Dialect) -> DataType:
    """Take a type with what is in its parentheses. Raises `NotUnderstood`."""
    oracle = dialect.oracle
    if cursor.is_mark(".", 1):
        schema = cursor.name().lower()
        cursor.mark(".")
        if schema == "oracle_schema":
            oracle = True
        elif schema == "maxdb_schema":
            cursor.expect("timestamp")
            return _sized("datetime", cursor)
        elif schema == "mariadb_schema":
            oracle = False
        else:
            raise cursor.failure(f"schema {schema} is not known here")
    # The names of types from MariaDB's plugins may be quoted.
    word = cursor.peek() or cursor.token().text.lower()
    if oracle and word in _ORACLE:
        cursor.name()
        return _sized(_ORACLE[word], cursor)
    if oracle and word == "number":
        cursor.name()
        return _sized("decimal", cursor) if cursor.is_mark("(") else DataType("double")
    if word in _SYNONYMS:
        cursor.name()
        if word == "timestamp" and dialect.has(SqlMode.MAXDB) and dialect.mariadb:
            word = "datetime"
        return _sized(_SYNONYMS[word], cursor)
    if dialect.mariadb and word in _MARIADB:
        cursor.name()
        return DataType(word)
    return _irregular(cursor, dialect)


def _irregular(cursor: Cursor, dialect: Dialect) -> DataType:
    """Take a type that may have several words, or that is not a name with sizes."""
    match cursor.take(
        "bool", "boolean", "serial", "float", "double", "real", "enum", "set", "char", "character", "national", "nchar",
        "nvarchar", "long",
    ):  # fmt: skip
        case "bool" | "boolean":
            return DataType("tinyint", 1)
        case "serial":
            return DataType("serial")
        case "float":
            return _float(cursor)
        case "double":
            cursor.take("precision")
            return _sized("double", cursor)
        case "real":
            return _sized("float" if dialect.has(SqlMode.REAL_AS_FLOAT) else "double", cursor)
        case "enum" | "set" as name:
            return DataType(name, labels=_labels(cursor))
        case "char" | "character":
            if cursor.take("varying"):
                return _sized("varchar", cursor)
            kind = _sized("char", cursor)
            return kind._replace(name="binary") if cursor.take("byte") else kind
        case "national":
            varying = cursor.take("varchar", "varcharacter")
            if not varying:
                if not cursor.take("char"):
                    cursor.expect("character")
                varying = cursor.take("varying")
            return _national("varchar" if varying else "char", cursor)
        case "nchar":
            return _national("varchar" if cursor.take("varchar", "varcharacter", "varying") else "char", cursor)
        case "nvarchar":
            return _national("varchar", cursor)
        case "long":
            if cursor.take("varbinary"):
                return DataType("mediumblob")
            if cursor.take("char", "character"):
                cursor.expect("varying")
            else:
                cursor.take("varchar", "varcharacter")
            return DataType("mediumtext")
    raise cursor.failure(f"the type {cursor.token().text!r} is not known here")


def _national(name: str, cursor: Cursor) -> DataType:
    return _sized(name, cursor)._replace(charset="utf8mb3")


def _float(cursor: Cursor) -> DataType:
    kind = _sized("float", cursor)
    if kind.length is None or kind.decimals is not None:
        return kind
    return DataType("float" if kind.length <= _LONGEST_SINGLE else "double")


def _sized(name: str, cursor: Cursor) -> DataType:
    """Return the type of that name; take its sizes if they are next."""
    if not cursor.is_mark("("):
        return DataType(name)
    inner = cursor.parentheses()
    length = inner.number()
    decimals = inner.number() if inner.mark(",") else None
    inner.end()
    return DataType(name, length, decimals)


def _labels(cursor: Cursor) -> tuple[str | Bytes, ...]:
    inner = cursor.parentheses()
    labels = [inner.text_or_bytes()]
    while inner.mark(","):
        labels.append(inner.text_or_bytes())
    inner.end()
    if any(isinstance(label, str) and "\ufffd" in label for label in labels):
        raise cursor.failure("labels that cannot be read")
    return tuple(labels)


def value(cursor: Cursor) -> bool:
    """Take the expression of a DEFAULT: a literal, a function or parentheses. Return whether it is NULL."""
    if cursor.take("null"):
        return True
    if cursor.is_mark("("):
        cursor.skip()
        return False
    if cursor.mark("-") or cursor.mark("+"):
        cursor.value()
        return False
    if cursor.take("case"):
        while not cursor.take("end"):
            cursor.skip()
        return False
    if cursor.phrase("next value for") or cursor.phrase("previous value for"):
        cursor.table()
        return False
    token = cursor.token()
    if token.kind in (Kind.MARK, Kind.END):
        raise cursor.failure("a value expected")
    cursor.skip()
    is_prefix = token.word.startswith("_") or token.word in ("date", "time", "timestamp")
    if is_prefix and cursor.token().kind in (Kind.TEXT, Kind.BITS):
        cursor.skip()
        return False
    while cursor.token().kind is Kind.TEXT and token.kind is Kind.TEXT:  # adjacent literals are one
        cursor.skip()
    while cursor.mark("."):
        cursor.name()
    if token.kind in (Kind.WORD, Kind.NAME) and cursor.is_mark("("):
        cursor.skip()
    return False
