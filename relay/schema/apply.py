"""What statements do to definitions: a pure function of them as they were before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.statements import Statement
from relay.ddl.syntax import (
    AlterSchema,
    AlterSequence,
    AlterTable,
    Change,
    Clause,
    CreateLike,
    CreateSchema,
    CreateSequence,
    CreateTable,
    DropSchema,
    DropTable,
    Options,
    Partition,
    RenameTable,
    RenameTo,
    TableName,
    Tablespace,
    TruncateTable,
    Unchanged,
)
from relay.schema.alter import altered
from relay.schema.create import charset_of, created, finished, made_sequence
from relay.schema.table import ABSENT, Absent, Schema, State, Table, Unknown


class Schemas(NamedTuple):
    """Definitions as they are before a statement.

    `state` gives that of a table, `schema` that of a schema, None if nothing is known of it; `tables` those in a schema
    that are known to be there, or may be.
    """

    state: Callable[[TableName], State]
    schema: Callable[[str], Schema | None]
    tables: Callable[[str], Iterable[TableName]]


class Effects(NamedTuple):
    """What a statement leaves: the tables and schemas that are not as before."""

    tables: dict[TableName, State]
    schemas: dict[str, Schema]


def effects(statement: Statement, default_schema: str, before: Schemas, dialect: Dialect) -> Effects:
    """What a definition leaves, unless it is opaque: then the tables that it mentions are not known any more."""
    work = _Work(before, default_schema, dialect)
    for change in statement.changes:
        work.apply(change)
    return Effects(work.tables, work.schemas)


def keeps_columns(statement: Statement) -> bool:
    """Whether columns, their order and the key of every table are surely as they were."""
    return not statement.opaque and all(_keeps_columns(change) for change in statement.changes)


def _keeps_columns(change: Change) -> bool:
    match change:
        case TruncateTable() | AlterSequence():
            return True
        case AlterTable(clauses=clauses):
            return all(_is_neutral(clause) for clause in clauses)
    return False


def _is_neutral(clause: Clause) -> bool:
    match clause:
        case Unchanged() | Tablespace():
            return True
        case Partition(verb):
            return verb not in ("convert", "attach")
    return False


class _Work:
    """The changes of one statement, each on top of those before it."""

    def __init__(self, before: Schemas, default_schema: str, dialect: Dialect) -> None:
        self._before = before
        self._default_schema = default_schema
        self._dialect = dialect
        self.tables: dict[TableName, State] = {}
        self.schemas: dict[str, Schema] = {}

    def apply(self, change: Change) -> None:
        match change:
            case CreateTable():
                self._create(change.table, change.or_replace, change.if_not_exists, lambda: self._created(change))
            case CreateLike():
                self._create(change.table, change.or_replace, change.if_not_exists, lambda: self._copied(change))
            case CreateSequence():
                self._create(
                    change.table, change.or_replace, change.if_not_exists,
                    lambda: made_sequence(change, self._charset(change.table.schema)),
                )  # fmt: skip
            case AlterTable():
                self._alter(change)
            case RenameTable():
                self._rename(change.old, change.new)
            case DropTable():
                self.tables[change.table] = ABSENT
            case CreateSchema():
                self._create_schema(change)
            case AlterSchema():
                options = Options(charset=change.charset, collation=change.collation)
                before = self._schema(change.schema)
                charset = self._schema_charset(options, before.charset)
                self.schemas[change.schema] = before.becoming(charset)
            case DropSchema():
                self._empty(change.schema, "")

    def _state(self, table: TableName) -> State:
        return self.tables[table] if table in self.tables else self._before.state(table)

    def _schema(self, schema: str) -> Schema:
        if schema in self.schemas:
            return self.schemas[schema]
        return self._before.schema(schema) or Schema("")

    def _charset(self, schema: str) -> str:
        found = self._schema(schema)
        if found.earlier and self._dialect.caches_charsets and schema.lower() == self._default_schema.lower():
            return ""
        return found.charset

    def _empty(self, schema: str, charset: str) -> None:
        """The schema has no tables any more, and those that it gets are seen."""
        for table in self._before.tables(schema):
            self.tables[table] = ABSENT
        self.schemas[schema] = Schema("", True, self._schema(schema).becoming("").earlier).becoming(charset)

    def _create(self, table: TableName, replaces: bool, conditional: bool, make: Callable[[], State]) -> None:
        before = self._state(table)
        if conditional and not replaces and not isinstance(before, Absent):
            if isinstance(before, Unknown):
                self.tables[table] = before
            return
        try:
            self.tables[table] = make()
        except NotUnderstood as error:
            self.tables[table] = Unknown(str(error))

    def _created(self, change: CreateTable) -> Table:
        return created(change, self._charset(change.table.schema), self._dialect)

    def _copied(self, change: CreateLike) -> State:
        like = self._state(change.like)
        if not isinstance(like, Table):
            return Unknown(f"it was made like {change.like}, which is not known")
        copy = msgspec.structs.replace(like, schema=change.table.schema, name=change.table.table)
        if copy.indexes is None:
            return copy
        return finished(copy, (msgspec.structs.replace(index, hashed=False) for index in copy.indexes), self._dialect)

    def _alter(self, change: AlterTable) -> None:
        if all(_is_neutral(clause) for clause in change.clauses):
            return
        before = self._state(change.table)
        made: State = before
        if isinstance(before, Absent):
            if change.if_exists:
                return
            made = Unknown("a statement alters it, and it was not known to be there")
        elif isinstance(before, Table):
            try:
                made = altered(before, change.clauses, self._charset(before.schema), self._dialect)
            except NotUnderstood as error:
                made = Unknown(str(error))
        else:
            made = Unknown(before.cause)
        self.tables[change.table] = made
        for clause in change.clauses:
            if isinstance(clause, RenameTo):
                self._rename(change.table, clause.table)
            elif isinstance(clause, Partition):
                self._partition(change.table, clause)

    def _partition(self, table: TableName, clause: Partition) -> None:
        if clause.table is None:
            return
        if clause.verb == "convert":
            made = self._state(table)
            if isinstance(made, Table):
                made = msgspec.structs.replace(made, schema=clause.table.schema, name=clause.table.table)
            self.tables[clause.table] = made
        elif clause.verb == "attach":
            self.tables[clause.table] = ABSENT

    def _rename(self, old: TableName, new: TableName) -> None:
        before = self._state(old)
        if isinstance(before, Absent) or old == new:  # a view has no rows, and no definition here
            return
        self.tables[old] = ABSENT
        if isinstance(before, Table):
            before = msgspec.structs.replace(before, schema=new.schema, name=new.table)
        self.tables[new] = before

    def _create_schema(self, change: CreateSchema) -> None:
        options = Options(charset=change.charset, collation=change.collation)
        charset = self._schema_charset(options, self._dialect.server_charset or "")
        if change.or_replace or not change.if_not_exists:
            self._empty(change.schema, charset)
        elif not (before := self._schema(change.schema)).charset:
            # Unless it is known to be gone, it may have been there before, with another character set.
            self.schemas[change.schema] = before.becoming(charset) if before.complete else Schema("")

    def _schema_charset(self, options: Options, otherwise: str) -> str:
        if options.charset == "default" or options.collation == "default":
            otherwise = self._dialect.server_charset or ""
        try:
            return charset_of(options, otherwise, self._dialect)
        except NotUnderstood:
            return ""
