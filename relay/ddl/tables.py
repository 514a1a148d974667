"""CREATE TABLE: columns, indexes and options."""

from __future__ import annotations

from typing import Final

from relay.ddl import types
from relay.ddl.columns import column
from relay.ddl.cursor import Cursor, NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.lexer import Kind
from relay.ddl.syntax import (
    ColumnSpec,
    CreateLike,
    CreateTable,
    IndexKind,
    IndexPart,
    IndexSpec,
    Options,
    Period,
    TableName,
)

PRIMARY: Final = "PRIMARY"
_IGNORED_OPTIONS: Final = (
    "aggregate", "auto_increment", "autoextend_size", "avg_row_length", "checksum", "comment", "compression",
    "delay_key_write", "encrypted", "encryption", "encryption_key_id", "engine_attribute",
    "index_name", "insert_method", "itef_quotes", "key_block_size", "max_rows", "min_rows", "pack_keys",
    "page_checksum", "page_compressed", "page_compression_level", "password", "row_format",
    "secondary_engine", "secondary_engine_attribute", "stats_auto_recalc", "stats_persistent", "stats_sample_pages",
    "storage", "table_checksum", "tablespace", "transactional",
)  # fmt: skip
_QUERIES: Final = ("select", "with", "values", "table")


class SelectsRows(Exception):
    """The statement fills its table from a query; only the server knows the columns."""


def create_table(cursor: Cursor, dialect: Dialect, *, or_replace: bool) -> CreateTable | CreateLike:
    """Take the statement from behind CREATE [OR REPLACE] TABLE. Raises `NotUnderstood`, `SelectsRows`."""
    if_not_exists = cursor.phrase("if not exists")
    table = cursor.table()
    if cursor.take("like"):
        return _like(table, cursor, or_replace, if_not_exists)
    columns: list[ColumnSpec] = []
    indexes: list[IndexSpec] = []
    periods: list[Period] = []
    if cursor.is_mark("("):
        if cursor.peek(1) in _QUERIES or cursor.is_mark("(", 1):
            raise SelectsRows
        inner = cursor.parentheses()
        if inner.take("like"):
            made = _like(table, inner, or_replace, if_not_exists)
            cursor.end()
            return made
        for element in inner.elements():
            if is_period(element):
                periods.append(period(element))
            elif not is_constraint(element):
                columns.append(column(element, dialect))
            elif (spec := constraint(element)) is not None:
                indexes.append(spec)
            element.end()
    options = Options()
    while not cursor.done:
        cursor.mark(",")
        if cursor.phrase("partition by"):
            while not (cursor.done or _selects(cursor)):
                cursor.skip()
        elif cursor.phrase("start transaction"):  # MySQL: rows of its SELECT follow
            pass
        elif _selects(cursor):
            raise SelectsRows
        elif cursor.is_mark(";"):
            break
        else:
            options = table_option(options, cursor, dialect)
    cursor.end()
    if not columns and not options.sequence:
        raise NotUnderstood("a table without columns")
    return CreateTable(table, tuple(columns), tuple(indexes), tuple(periods), options, or_replace, if_not_exists)


def _like(table: TableName, cursor: Cursor, or_replace: bool, if_not_exists: bool) -> CreateLike:
    like = cursor.table()
    cursor.end()
    return CreateLike(table, like, or_replace, if_not_exists)


def _selects(cursor: Cursor) -> bool:
    """Whether a query that fills the table is next."""
    ahead = 1 if cursor.peek() in ("ignore", "replace") else 0
    ahead += cursor.peek(ahead) == "as"
    while cursor.is_mark("(", ahead):
        ahead += 1
    word = cursor.peek(ahead)
    return word in _QUERIES and not (word == "with" and cursor.peek(ahead + 1) == "system")


def is_period(cursor: Cursor) -> bool:
    """Whether PERIOD FOR is next, and not a column named period."""
    return cursor.peek() == "period" and cursor.peek(1) == "for"


def period(cursor: Cursor) -> Period:
    """Take PERIOD FOR name (start, end)."""
    cursor.expect("period for")
    name = cursor.name()
    inner = cursor.parentheses()
    start = inner.name()
    if not inner.mark(","):
        raise inner.failure(", expected")
    end = inner.name()
    inner.end()
    return Period(name, start, end)


def is_constraint(cursor: Cursor) -> bool:
    """Whether an index or a constraint is next, and not a column."""
    word = cursor.peek()
    if word == "vector":
        return cursor.peek(1) in ("index", "key")
    return word in ("constraint", "primary", "unique", "key", "index", "fulltext", "spatial", "foreign", "check")


def constraint(cursor: Cursor) -> IndexSpec | None:
    """Take an index or a constraint; None for a constraint that is not an index."""
    name = ""
    if cursor.take("constraint"):
        cursor.phrase("if not exists")
        if cursor.peek() not in ("primary", "unique", "foreign", "check"):
            name = cursor.name()
    match cursor.take("primary", "unique", "key", "index", "fulltext", "spatial", "vector", "foreign", "check"):
        case "primary":
            cursor.expect("key")
            return index(IndexKind.PRIMARY, cursor)._replace(name=PRIMARY)
        case "unique":
            cursor.take("key", "index")
            found = index(IndexKind.UNIQUE, cursor)
            return found._replace(name=found.name or name)
        case "key" | "index" | "fulltext" | "spatial" | "vector" as word:
            if word not in ("key", "index"):
                cursor.take("key", "index")
            return index(IndexKind.OTHER, cursor)
        case "foreign":
            cursor.rest()
            return None
        case "check":
            cursor.parentheses()
            if not cursor.phrase("not enforced"):
                cursor.take("enforced")
            return None
    raise cursor.failure("a constraint expected")


def index(kind: IndexKind, cursor: Cursor) -> IndexSpec:
    """Take an index: its name, its columns and all its options."""
    cursor.phrase("if not exists")
    name = "" if cursor.is_mark("(") or cursor.peek() in ("using", "type") else cursor.name()
    hashed = _using(cursor)
    parts: list[IndexPart] = []
    overlaps = ""
    for element in cursor.parentheses().elements():
        if element.is_mark("("):
            element.skip()
            part = IndexPart("")
        else:
            part = IndexPart(element.name())
            if element.is_mark("("):
                part = part._replace(length=element.parentheses().number())
        if element.phrase("without overlaps"):
            overlaps = part.name
        else:
            parts.append(part._replace(descending=element.take("asc", "desc") == "desc"))
        element.end()
    while not cursor.done and not cursor.is_mark(";"):
        hashed = _using(cursor) or hashed
        if not cursor.done:
            _index_option(cursor)
    return IndexSpec(kind, name, tuple(parts), hashed, overlaps)


def _using(cursor: Cursor) -> bool:
    """Take USING and a kind of index, if they are next; return whether it is HASH."""
    return cursor.value() == "hash" if cursor.take("using", "type") else False


def _index_option(cursor: Cursor) -> None:
    if cursor.take("visible", "invisible", "ignored", "clustering"):
        if cursor.mark("="):
            cursor.value()
    elif cursor.take("wait"):
        cursor.value()
    elif cursor.phrase("with parser"):
        cursor.name()
    elif cursor.take("nowait") or cursor.phrase("not ignored"):
        pass
    elif cursor.is_name() or cursor.token().kind is Kind.TEXT:  # COMMENT, KEY_BLOCK_SIZE, options of engines
        cursor.skip()
        cursor.value()


def table_option(options: Options, cursor: Cursor, dialect: Dialect) -> Options:
    """Take one option of a table; return `options` with it. Raises `NotUnderstood`."""
    cursor.take("default")
    match cursor.take("engine", "type", "charset", "character", "char", "collate", "with", "union", "connection",
                      "data", "index", "sequence", *_IGNORED_OPTIONS):  # fmt: skip
        case "engine" | "type":
            return options._replace(engine=cursor.value())
        case "charset" | "character" | "char" as word:
            if word != "charset":
                cursor.expect("set")
            return options._replace(charset=charset_or_default(cursor))
        case "collate":
            return options._replace(collation=cursor.value())
        case "with":
            cursor.expect("system versioning")
            return options._replace(versioned=True)
        case "sequence":
            return options._replace(sequence=cursor.value() not in ("0", "no"))
        case "union":
            cursor.mark("=")
            cursor.parentheses()
            return options._replace(elsewhere=True)
        case "connection":
            cursor.value()
            return options._replace(elsewhere=True)
        case "data" | "index":
            cursor.expect("directory")
            cursor.value()
        case "storage":
            cursor.skip()
        case word if word:
            cursor.value()
        case _:
            cursor.engine_option(dialect)
            return options._replace(elsewhere=True)
    return options


def charset_or_default(cursor: Cursor) -> str:
    """Take the name of a character set, with or without `=` before it; `default` is that of the schema."""
    name = cursor.value()
    return "default" if name == "default" else types.charset_named(name)
