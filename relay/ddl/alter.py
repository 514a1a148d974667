"""The clauses of ALTER TABLE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.ddl import columns, tables
from relay.ddl.cursor import Cursor
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import (
    AddColumn,
    AddIndex,
    AddPeriod,
    AddVersioning,
    ChangeColumn,
    Clause,
    ConvertTo,
    DropColumn,
    DropIndex,
    DropPeriod,
    DropVersioning,
    Options,
    Partition,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetOptions,
    ShowColumn,
    Tablespace,
    Unchanged,
)

_PARTITION_VERBS: Final = (
    "add", "analyze", "check", "coalesce", "discard", "drop", "exchange", "import", "optimize", "rebuild", "reorganize",
    "repair", "truncate",
)  # fmt: skip
_IGNORED: Final = (
    "force", "nowait", "enable keys", "disable keys", "with validation", "without validation", "secondary_load",
    "secondary_unload",
)  # fmt: skip


def clauses(cursor: Cursor, dialect: Dialect) -> tuple[Clause, ...]:
    """Take the clauses of ALTER TABLE, to the end. Raises `NotUnderstood`."""
    if _is_partition(cursor):
        return (_partition(cursor),)
    # PARTITION BY and REMOVE PARTITIONING may follow other clauses without a comma.
    cursor = cursor.until("partition by", "remove partitioning")
    if cursor.done or cursor.is_mark(";"):
        return ()
    return tuple(clause for element in cursor.elements() for clause in _clauses(element, dialect))


def _is_partition(cursor: Cursor) -> bool:
    """Whether the only clause is one about partitions."""
    verb, thing = cursor.peek(), cursor.peek(1)
    if verb == "convert":
        return thing in ("partition", "table")
    return verb in _PARTITION_VERBS and thing == "partition"


def _partition(cursor: Cursor) -> Partition:
    verb = cursor.take(*_PARTITION_VERBS, "convert")
    if verb == "convert" and cursor.take("table"):
        attached = cursor.table()
        cursor.rest()
        return Partition("attach", attached)
    table = None
    if verb in ("exchange", "convert"):
        cursor.expect("partition")
        cursor.name()
        cursor.expect("with table" if verb == "exchange" else "to table")
        table = cursor.table()
    cursor.rest()
    return Partition(verb, table)


def _clauses(cursor: Cursor, dialect: Dialect) -> Iterator[Clause]:
    """Yield the clauses of one list element. Table options need no comma, and ADD may have columns in parentheses."""
    match cursor.take("add", "drop", "modify", "change", "alter", "rename", "convert"):
        case "add":
            yield from _add(cursor, dialect)
        case "drop":
            yield _drop(cursor)
        case "modify" | "change" as verb:
            cursor.take("column")
            exists = cursor.phrase("if exists")
            old = cursor.name()
            column = columns.definition(cursor.name() if verb == "change" else old, cursor, dialect)
            yield ChangeColumn(old, column, columns.position(cursor), exists)
        case "alter":
            yield _alter(cursor)
        case "rename":
            yield _rename(cursor)
        case "convert":
            yield _convert(cursor)
            if not cursor.done:  # options may follow without a comma
                yield from _options(cursor, dialect)
        case _:
            yield from _options(cursor, dialect)
    cursor.end()


def _add(cursor: Cursor, dialect: Dialect) -> Iterator[Clause]:
    if cursor.peek() == "system" and cursor.peek(1) == "versioning":
        cursor.expect("system versioning")
        yield AddVersioning()
    elif tables.is_period(cursor):
        yield AddPeriod(tables.period(cursor))
    elif tables.is_constraint(cursor):
        yield _add_constraint(cursor)
    else:
        cursor.take("column")
        exists = cursor.phrase("if not exists")
        if not cursor.is_mark("("):
            column = columns.column(cursor, dialect)
            yield AddColumn(column, columns.position(cursor), exists)
            return
        for element in cursor.parentheses().elements():
            if tables.is_constraint(element):
                yield _add_constraint(element)
            else:
                yield AddColumn(columns.column(element, dialect), None, exists)
            element.end()


def _add_constraint(cursor: Cursor) -> Clause:
    index = tables.constraint(cursor)
    return AddIndex(index) if index is not None else Unchanged()


def _drop(cursor: Cursor) -> Clause:
    if cursor.phrase("system versioning"):
        return DropVersioning()
    if tables.is_period(cursor):
        cursor.expect("period for")
        return DropPeriod(cursor.name())
    match cursor.take("primary", "index", "key", "foreign", "check", "constraint"):
        case "primary":
            cursor.expect("key")
            return DropIndex(tables.PRIMARY)
        case "index" | "key" | "constraint":
            exists = cursor.phrase("if exists")
            return DropIndex(cursor.name(), exists)
        case "foreign":
            cursor.expect("key")
            cursor.phrase("if exists")
            cursor.name()
            return Unchanged()
        case "check":
            cursor.name()
            return Unchanged()
    cursor.take("column")
    exists = cursor.phrase("if exists")
    name = cursor.name()
    cursor.take("restrict", "cascade")
    return DropColumn(name, exists)


def _alter(cursor: Cursor) -> Clause:
    """Return a clause ALTER of ALTER TABLE.

    Defaults and enforcement are ignored: they change no column, key or value.
    """
    if cursor.peek() in ("index", "key", "check", "constraint"):
        cursor.rest()
        return Unchanged()
    cursor.take("column")
    cursor.phrase("if exists")
    name = cursor.name()
    visible = cursor.phrase("set visible")
    if visible or cursor.phrase("set invisible"):
        return ShowColumn(name, visible)
    cursor.rest()
    return Unchanged()


def _rename(cursor: Cursor) -> Clause:
    if kind := cursor.take("column", "index", "key"):
        exists = cursor.phrase("if exists")
        old = cursor.name()
        cursor.expect("to")
        new = cursor.name()
        return RenameColumn(old, new, exists) if kind == "column" else RenameIndex(old, new, exists)
    if not cursor.take("to", "as"):
        cursor.mark("=")
    return RenameTo(cursor.table())


def _convert(cursor: Cursor) -> ConvertTo:
    cursor.expect("to")
    if not cursor.take("charset"):
        if not cursor.take("character"):
            cursor.expect("char")
        cursor.expect("set")
    charset = tables.charset_or_default(cursor)
    if cursor.take("collate"):
        cursor.value()
    return ConvertTo("" if charset == "default" else charset)


def _options(cursor: Cursor, dialect: Dialect) -> Iterator[Clause]:
    options = Options()
    if cursor.done:
        raise cursor.failure("a clause expected")
    while not cursor.done and not cursor.is_mark(";"):
        if cursor.take("algorithm", "lock", "wait"):
            cursor.value()
        elif cursor.phrase("order by"):
            cursor.rest()
        elif cursor.phrase("discard tablespace") or cursor.phrase("import tablespace"):
            yield Tablespace()
        elif not any(cursor.phrase(each) for each in _IGNORED):
            options = tables.table_option(options, cursor, dialect)
    yield SetOptions(options) if options != Options() else Unchanged()
