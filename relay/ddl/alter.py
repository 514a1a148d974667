"""ALTER TABLE: its clauses."""

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
    DropConstraint,
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

_PARTITIONS: Final = (
    "add", "analyze", "check", "coalesce", "discard", "drop", "exchange", "import", "optimize", "rebuild", "reorganize",
    "repair", "truncate",
)  # fmt: skip
_PHRASES: Final = (
    "force", "nowait", "enable keys", "disable keys", "with validation", "without validation", "secondary_load",
    "secondary_unload",
)  # fmt: skip


def clauses(cursor: Cursor, dialect: Dialect) -> tuple[Clause, ...]:
    """Take the clauses of ALTER TABLE, to the end. Raises `NotUnderstood`."""
    if _is_partition(cursor):
        return (_partition(cursor),)
    # PARTITION BY and REMOVE PARTITIONING may follow on other clauses without a comma.
    cursor = cursor.until("partition by", "remove partitioning")
    if cursor.done or cursor.is_mark(";"):
        return ()
    return tuple(clause for element in cursor.elements() for clause in _clauses(element, dialect))


def _is_partition(cursor: Cursor) -> bool:
    verb, thing = cursor.peek(), cursor.peek(1)
    if verb == "convert":
        return thing in ("partition", "table")
    return verb in _PARTITIONS and thing == "partition"


def _partition(cursor: Cursor) -> Partition:
    verb = cursor.take(*_PARTITIONS, "convert")
    if verb == "convert" and cursor.take("table"):
        table = cursor.table()
        cursor.rest()
        return Partition("attach", table)
    if verb not in ("exchange", "convert"):
        cursor.rest()
        return Partition(verb)
    cursor.expect("partition")
    cursor.name()
    cursor.expect("with table" if verb == "exchange" else "to table")
    table = cursor.table()
    cursor.rest()
    return Partition(verb, table)


def _clauses(cursor: Cursor, dialect: Dialect) -> Iterator[Clause]:
    """Those of one element of the list: options of a table stand side by side, columns in parentheses."""
    match cursor.take("add", "drop", "modify", "change", "alter", "rename", "convert"):
        case "add":
            yield from _add(cursor, dialect)
        case "drop":
            yield _drop(cursor)
        case "modify":
            cursor.take("column")
            exists = cursor.phrase("if exists")
            name = cursor.name()
            yield _change(name, name, cursor, dialect, exists)
        case "change":
            cursor.take("column")
            exists = cursor.phrase("if exists")
            yield _change(cursor.name(), cursor.name(), cursor, dialect, exists)
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
        index = tables.constraint(cursor)
        yield AddIndex(index) if index is not None else Unchanged("add constraint")
    else:
        cursor.take("column")
        exists = cursor.phrase("if not exists")
        if not cursor.is_mark("("):
            column = columns.column(cursor, dialect)
            yield AddColumn(column, columns.position(cursor), exists)
            return
        for element in cursor.parentheses().elements():
            if tables.is_constraint(element):
                index = tables.constraint(element)
                yield AddIndex(index) if index is not None else Unchanged("add constraint")
            else:
                yield AddColumn(columns.column(element, dialect), None, exists)
            element.end()


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
        case "index" | "key":
            exists = cursor.phrase("if exists")
            return DropIndex(cursor.name(), exists)
        case "foreign":
            cursor.expect("key")
            cursor.phrase("if exists")
            cursor.name()
            return Unchanged("drop foreign key")
        case "check":
            cursor.name()
            return Unchanged("drop check")
        case "constraint":
            exists = cursor.phrase("if exists")
            return DropConstraint(cursor.name(), exists)
    cursor.take("column")
    exists = cursor.phrase("if exists")
    name = cursor.name()
    cursor.take("restrict", "cascade")
    return DropColumn(name, exists)


def _change(old: str, new: str, cursor: Cursor, dialect: Dialect, exists: bool) -> ChangeColumn:
    column = columns.definition(new, cursor, dialect)
    return ChangeColumn(old, column, columns.position(cursor), exists)


def _alter(cursor: Cursor) -> Clause:
    """Of defaults and enforcement it does not matter what they are: no column, key or value changes."""
    if cursor.peek() in ("index", "key", "check", "constraint"):
        cursor.rest()
        return Unchanged("alter")
    cursor.take("column")
    cursor.phrase("if exists")
    name = cursor.name()
    shown = cursor.phrase("set visible")
    if shown or cursor.phrase("set invisible"):
        return ShowColumn(name, shown)
    cursor.rest()
    return Unchanged("alter")


def _rename(cursor: Cursor) -> Clause:
    match cursor.take("column", "index", "key"):
        case "column":
            exists = cursor.phrase("if exists")
            old = cursor.name()
            cursor.expect("to")
            return RenameColumn(old, cursor.name(), exists)
        case "index" | "key":
            exists = cursor.phrase("if exists")
            old = cursor.name()
            cursor.expect("to")
            return RenameIndex(old, cursor.name(), exists)
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
    collation = cursor.value() if cursor.take("collate") else ""
    return ConvertTo("" if charset == "default" else charset, collation)


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
        elif not any(cursor.phrase(each) for each in _PHRASES):
            options = tables.table_option(options, cursor, dialect)
    yield SetOptions(options) if options != Options() else Unchanged("options")
