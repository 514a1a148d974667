"""Columns in statements."""

from __future__ import annotations

from typing import Final

from relay.ddl import types
from relay.ddl.cursor import Cursor
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import ColumnSpec, DataType, Generated, Position

_WITH_VALUE: Final = (
    "comment", "column_format", "storage", "engine_attribute", "secondary_engine_attribute", "srid", "ref_system_id",
)  # fmt: skip
_ACTIONS: Final = ("restrict", "cascade", "no", "set")


def column(cursor: Cursor, dialect: Dialect) -> ColumnSpec:
    """Take a name and its definition, up to the end or to FIRST or AFTER. Raises `NotUnderstood`."""
    return definition(cursor.name(), cursor, dialect)


def definition(name: str, cursor: Cursor, dialect: Dialect) -> ColumnSpec:
    """Take the definition of the column `name`: its type and attributes. Raises `NotUnderstood`."""
    spec = ColumnSpec(name, types.data_type(cursor, dialect))
    if spec.type.name == "serial":
        bigint = DataType("bigint", unsigned=True)
        spec = spec._replace(type=bigint, nullable=False, auto_increment=True, unique=True)
    while not cursor.done and cursor.peek() not in ("first", "after"):
        spec = _attribute(spec, cursor, dialect)
    return spec


def position(cursor: Cursor) -> Position | None:
    """Take FIRST or AFTER, if it is next."""
    if cursor.take("first"):
        return Position()
    return Position(cursor.name()) if cursor.take("after") else None


def _attribute(spec: ColumnSpec, cursor: Cursor, dialect: Dialect) -> ColumnSpec:
    word = cursor.take(
        "unsigned", "signed", "zerofill", "not", "null", "default", "on", "auto_increment", "serial", "unique",
        "primary", "key", "collate", "character", "char", "charset", "ascii", "unicode", "byte", "binary", "generated",
        "as", "virtual", "stored", "persistent", "check", "constraint", "references", "invisible", "visible", "with",
        "without", "compressed", "enforced", *_WITH_VALUE,
    )  # fmt: skip
    match word:
        case "unsigned" | "zerofill":
            kind = spec.type._replace(unsigned=True, zerofill=spec.type.zerofill or word == "zerofill")
            return spec._replace(type=kind)
        case "not":
            if cursor.take("null"):
                return spec._replace(nullable=False)
            if not cursor.take("enforced", "secondary"):
                raise cursor.failure("NULL expected")
        case "null":
            return spec._replace(nullable=True)
        case "default":
            return spec._replace(has_default=not types.value(cursor))
        case "on":
            cursor.expect("update")
            types.value(cursor)
            return spec._replace(on_update=True)
        case "auto_increment":
            return spec._replace(auto_increment=True)
        case "serial":
            cursor.expect("default value")
            return spec._replace(nullable=False, auto_increment=True, unique=True)
        case "unique":
            cursor.take("key")
            return spec._replace(unique=True)
        case "primary" | "key":
            cursor.take("key")
            return spec._replace(primary=True)
        case "character" | "char" | "charset" | "ascii" | "unicode" | "byte" | "collate":
            return spec._replace(type=_text(word, spec.type, cursor, dialect))
        case "generated" | "as":
            return spec._replace(generated=_generated(word, cursor))
        case "stored" | "persistent":
            return spec._replace(generated=Generated.STORED)
        case "check":
            cursor.parentheses()
        case "constraint":
            if cursor.peek() != "check":
                cursor.name()
        case "references":
            _references(cursor)
        case "invisible":
            return spec._replace(invisible=True)
        case "with" | "without":
            cursor.expect("system versioning")
            return spec._replace(versioned=word == "with")
        case "compressed":
            if cursor.mark("="):
                cursor.value()
            return spec._replace(type=spec.type._replace(compressed=True))
        case "":
            cursor.engine_option(dialect)
        case _ if word in _WITH_VALUE:
            cursor.value()
    return spec


def _text(word: str, kind: DataType, cursor: Cursor, dialect: Dialect) -> DataType:
    """Return the column's type with the character set or collation that an attribute specifies."""
    match word:
        case "collate":
            name = cursor.value()
            charset = kind.charset or types.charset_of_collation(name, dialect)
            return kind._replace(charset=charset, collation=name)
        case "ascii":
            return kind._replace(charset="latin1")
        case "unicode":
            return kind._replace(charset="ucs2")
        case "byte":
            return kind._replace(charset="binary")
    if word != "charset":
        cursor.expect("set")
    return kind._replace(charset=types.charset_named(cursor.value()))


def _generated(word: str, cursor: Cursor) -> Generated:
    if word == "generated":
        cursor.expect("always as")
    if not cursor.take("row"):
        cursor.parentheses()
        return Generated.VIRTUAL
    if cursor.take("start"):
        return Generated.ROW_START
    cursor.expect("end")
    return Generated.ROW_END


def _references(cursor: Cursor) -> None:
    cursor.table()
    if cursor.is_mark("("):
        cursor.skip()
    if cursor.take("match"):
        cursor.skip()
    while cursor.peek() == "on" and cursor.peek(1) in ("delete", "update") and cursor.peek(2) in _ACTIONS:
        cursor.skip()
        cursor.skip()
        action = cursor.take(*_ACTIONS)
        if action == "set":
            cursor.take("null", "default")
        elif action == "no":
            cursor.expect("action")
