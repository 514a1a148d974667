"""Compute the effects of statements on definitions, from the statement and the definitions before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.statements import Statement, fold
from relay.ddl.syntax import (
    AlterSchema,
    AlterSequence,
    AlterTable,
    Change,
    Clause,
    ConvertTo,
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
from relay.schema.alter import altered_table
from relay.schema.columntype import UNKNOWN_CHARSET, with_known_charset
from relay.schema.create import charset_of, created_table, sequence_table, with_indexes
from relay.schema.table import ABSENT, Absent, Schema, State, Table, Unknown


class Schemas(NamedTuple):
    """Functions that look up definitions before a statement.

    `state` returns that of a table, `schema` that of a schema, None if unknown. `tables` returns the tables of a schema
    that exist, or may exist. `assumed` returns the character set to assume for a schema, empty for none.
    """

    state: Callable[[TableName], State]
    schema: Callable[[str], Schema | None]
    tables: Callable[[str], Iterable[TableName]]
    assumed: Callable[[str], str]


class Effects(NamedTuple):
    """The effects of a statement: the tables and schemas that change."""

    tables: dict[TableName, State]
    schemas: dict[str, Schema]


def effects(statement: Statement, default_schema: str, before: Schemas, dialect: Dialect) -> Effects:
    """Return the effects of a statement that is not opaque.

    An opaque one makes the tables that it mentions unknown.
    """
    application = _Application(before, default_schema, dialect)
    for change in statement.changes:
        application.apply(change)
    return Effects(application.tables, application.schemas)


def keeps_columns(statement: Statement) -> bool:
    """Whether the columns, their order and the key of every table certainly stay the same."""
    return not statement.opaque and all(
        all(_is_neutral(clause) for clause in change.clauses)
        if isinstance(change, AlterTable)
        else isinstance(change, TruncateTable | AlterSequence)
        for change in statement.changes
    )


def schemas_set_by(statement: Statement) -> set[str] | None:
    """Return the folded names of the schemas whose character set a statement may set; None for any schema."""
    if statement.opaque:
        return None if statement.mentioned.everything else set(statement.mentioned.schemas)
    found = set[str]()
    for change in statement.changes:
        match change:
            case AlterSchema(schema, options) if options.charset or options.collation:
                found.add(fold(schema))
            case DropSchema(schema):
                found.add(fold(schema))
            case CreateSchema() if change.or_replace or not change.if_not_exists:
                found.add(fold(change.schema))
    return found


def _is_neutral(clause: Clause) -> bool:
    if isinstance(clause, Partition):
        return clause.verb not in ("convert", "attach")
    return isinstance(clause, Unchanged | Tablespace)


class _Application:
    """Apply the changes of one statement, each on top of those before it."""

    def __init__(self, before: Schemas, default_schema: str, dialect: Dialect) -> None:
        self._before = before
        self._default_schema = default_schema
        self._dialect = dialect
        self.tables: dict[TableName, State] = {}
        self.schemas: dict[str, Schema] = {}

    def apply(self, change: Change) -> None:
        match change:
            case CreateTable() | CreateLike() | CreateSequence():
                self._create(change)
            case AlterTable():
                self._alter(change)
            case RenameTable():
                self._rename(change.old, change.new)
            case DropTable():
                self.tables[change.table] = ABSENT
            case CreateSchema():
                self._create_schema(change)
            case AlterSchema():
                before = self._schema(change.schema)
                charset = self._schema_charset(change.options, before.charset)
                if charset and not before.charset:  # sessions may still use the one that it had
                    before = msgspec.structs.replace(before, charset=UNKNOWN_CHARSET)
                self.schemas[change.schema] = before.with_charset(charset)
            case DropSchema():
                self._empty(change.schema, "")

    def _state(self, table: TableName) -> State:
        return self.tables[table] if table in self.tables else self._before.state(table)

    def _schema(self, schema: str) -> Schema:
        return self.schemas.get(schema) or self._before.schema(schema) or Schema("")

    def _charset(self, schema: str) -> str:
        """Return the character set of a schema, empty if unknown: this session may use an earlier one."""
        found = self._schema(schema)
        if found.earlier and self._dialect.caches_charsets and schema.lower() == self._default_schema.lower():
            return ""
        return found.charset

    def _empty(self, schema: str, charset: str) -> None:
        """Empty a schema: from now on, all of its tables are known."""
        for table in self._before.tables(schema):
            self.tables[table] = ABSENT
        earlier = self._schema(schema).with_charset("").earlier
        self.schemas[schema] = Schema("", True, earlier).with_charset(charset)

    def _create(self, change: CreateTable | CreateLike | CreateSequence) -> None:
        before = self._state(change.table)
        if change.if_not_exists and not change.or_replace and not isinstance(before, Absent):
            if isinstance(before, Unknown):
                self.tables[change.table] = before
            return
        try:
            self.tables[change.table] = self._created(change)
        except NotUnderstood as error:
            self.tables[change.table] = Unknown(str(error))

    def _created(self, change: CreateTable | CreateLike | CreateSequence) -> State:
        if isinstance(change, CreateTable):
            return self._by_default(
                change.table.schema, lambda default, _: created_table(change, default, self._dialect)
            )
        if isinstance(change, CreateSequence):
            return sequence_table(change.table, change.type, self._charset(change.table.schema))
        like = self._state(change.like)
        if not isinstance(like, Table):
            return Unknown(f"it was made like {change.like}, which is not known")
        copy = msgspec.structs.replace(like, schema=change.table.schema, name=change.table.table)
        if copy.indexes is None:
            return copy
        indexes = (msgspec.structs.replace(index, hashed=False) for index in copy.indexes)
        return with_indexes(copy, indexes, self._dialect)

    def _alter(self, change: AlterTable) -> None:
        if all(_is_neutral(clause) for clause in change.clauses):
            return
        before = self._state(change.table)
        made: State = before
        if isinstance(before, Absent):
            if change.if_exists:
                return
            made = Unknown("a statement alters it, and it was not known to exist")
        elif isinstance(before, Table):
            try:
                made = self._altered(before, change)
            except NotUnderstood as error:
                made = Unknown(str(error))
        self.tables[change.table] = made
        for clause in change.clauses:
            match clause:
                case RenameTo(new):
                    self._rename(change.table, new)
                case Partition("convert", TableName() as other):
                    self.tables[other] = _renamed(self._state(change.table), other)
                case Partition("attach", TableName() as other):
                    self.tables[other] = ABSENT

    def _altered(self, table: Table, change: AlterTable) -> Table:
        converts = any(isinstance(clause, ConvertTo) and not clause.charset for clause in change.clauses)
        # MySQL converts to the default of the session's schema, not of the table's.
        schema = self._default_schema if converts and not self._dialect.mariadb else table.schema
        if not schema:
            return altered_table(table, change.clauses, self._dialect.server_charset or "", self._dialect)

        def make(default: str, assumed: str) -> Table:
            return altered_table(_filled(table, assumed), change.clauses, default, self._dialect)

        return self._by_default(schema, make)

    def _by_default(self, schema: str, make: Callable[[str, str], Table]) -> Table:
        """Return what `make` makes of the schema's character set: the known one, or the assumed one if it matters.

        The second argument of `make` is the assumed one, or empty. Raises `NotUnderstood`.
        """
        known = self._charset(schema)
        assumed = "" if known else self._before.assumed(schema)
        if not assumed:
            return make(known, "")
        try:
            made = make("", "")
        except NotUnderstood:
            made = None
        if made is not None and self._dialect.has_charsets_in_table_maps:
            return made
        filled = make(assumed, assumed)
        if filled == made:
            return filled
        return msgspec.structs.replace(filled, assumed=tuple(sorted({*filled.assumed, schema})))

    def _rename(self, old: TableName, new: TableName) -> None:
        before = self._state(old)
        if isinstance(before, Absent) or old == new:  # a view has no rows, and no definition here
            return
        self.tables[old] = ABSENT
        self.tables[new] = _renamed(before, new)

    def _create_schema(self, change: CreateSchema) -> None:
        charset = self._schema_charset(change.options, self._dialect.server_charset or "")
        if change.or_replace or not change.if_not_exists:
            self._empty(change.schema, charset)
        elif not (before := self._schema(change.schema)).charset:
            # Unless it is known not to exist, it may have existed before, with another character set.
            perhaps = msgspec.structs.replace(before, perhaps=before.perhaps or charset)
            self.schemas[change.schema] = before.with_charset(charset) if before.complete else perhaps

    def _schema_charset(self, options: Options, otherwise: str) -> str:
        if options.charset == "default" or options.collation == "default":
            otherwise = self._dialect.server_charset or ""
        try:
            return charset_of(options, otherwise, self._dialect)
        except NotUnderstood:
            return ""


def _filled(table: Table, assumed: str) -> Table:
    """Return the table with the assumed character set in columns that have an unknown one; "" assumes nothing."""
    if not assumed:
        return table
    columns = tuple(
        msgspec.structs.replace(column, type=with_known_charset(column.type, assumed)) for column in table.columns
    )
    return msgspec.structs.replace(table, columns=columns)


def _renamed(state: State, new: TableName) -> State:
    """Return the state under another name."""
    return msgspec.structs.replace(state, schema=new.schema, name=new.table) if isinstance(state, Table) else state
