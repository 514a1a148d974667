"""Determine what a journaled statement does to rows in the lake without row events.

Any statement that is not certainly harmless is a reset, after which a snapshot reads the rows again: a reset too many
costs a snapshot, one too few leaves rows in the lake that are no longer in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from relay.ddl.columns import definition
from relay.ddl.cursor import Cursor, NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.lexer import Unreadable, tokens
from relay.ddl.readings import readings
from relay.ddl.statements import Kind, Statement
from relay.ddl.syntax import (
    AddColumn,
    AddIndex,
    AlterSequence,
    AlterTable,
    Change,
    ChangeColumn,
    Clause,
    ColumnSpec,
    CreateLike,
    CreateSchema,
    CreateSequence,
    CreateTable,
    DataType,
    DropColumn,
    DropIndex,
    DropSchema,
    DropTable,
    IndexKind,
    Options,
    Partition,
    RenameIndex,
    RenameTable,
    RenameTo,
    SetOptions,
    ShowColumn,
    TableName,
    TruncateTable,
    Unchanged,
)
from relay.ddl.types import INTEGERS
from relay.lake.documents import MarkerKind, Table, TableState
from relay.lake.types import folded

_Effects = dict[Table, MarkerKind]
_Known = Mapping[Table, TableState]

_EMPTY_ENGINES: Final = frozenset({
    "", "innodb", "myisam", "aria", "memory", "heap", "archive", "csv", "rocksdb", "tokudb", "ndb", "ndbcluster",
})  # fmt: skip
"""Engines whose tables begin without rows; tables of other engines may get their rows from elsewhere."""
_STORING_ENGINES: Final = frozenset({"", "innodb", "myisam", "aria", "rocksdb"})
"""Engines that keep all rows when a table is moved to them."""
_LOSSLESS_OPERATIONS: Final = frozenset({"add", "analyze", "check", "coalesce", "optimize", "rebuild", "reorganize"})
"""Operations on partitions that lose no row."""
_TYPES: Final = Dialect(mariadb=True, version=999_999)
"""The dialect of the types in the journal's definitions."""


def effects(
    text: str, schema: str, known: Mapping[str, TableState], dialect: Dialect | None
) -> list[tuple[Table, MarkerKind]]:
    """Return the markers that a journaled statement sets, at most one for each table.

    The list is empty if the known rows stay right.

    `schema` is the statement's default schema; bytes that are not UTF-8 are U+FFFD in both texts. `known` are the
    lake's tables (`LakeState.tables`), which must include the versions of all rows before the statement, exported or
    not. Without a `dialect`, a statement that can be read in several ways resets all known tables and those that it
    names.

    A name that differs from a known one only in case is that table on servers with lower_case_table_names, and another
    table on others: the known one is reset.
    """
    tables = {state.table: state for state in known.values()}
    explicit = dialect is not None and dialect.explicit_timestamps is True
    results: list[_Effects] = []
    for statement in readings(text, schema, dialect):
        result = _effects(statement, tables, explicit)
        if result not in results:
            results.append(result)
    if len(results) > 1:
        named = [table for result in results for table in result]
        return [(table, "reset") for table in dict.fromkeys([*tables, *named])]
    found = results[0]
    alike: _Effects = {}
    for table in found:
        if table not in tables:
            alike |= {other: "reset" for other in tables if other not in found and _folded(other) == _folded(table)}
    return list((found | alike).items())


def _effects(statement: Statement, known: _Known, explicit: bool) -> _Effects:
    """`explicit`: a TIMESTAMP without NULL or NOT NULL is certainly nullable."""
    if statement.kind in (Kind.HARMLESS, Kind.TRANSACTION):
        return {}
    if statement.opaque:
        mentioned = statement.mentioned
        named = [Table(*mentioned.subject)] if mentioned.subject else []
        concerned = [table for table in known if mentioned.may_include(TableName(table.schema, table.table))]
        return dict.fromkeys([*named, *concerned], "reset")
    found: _Effects = {}
    for change in statement.changes:
        if isinstance(change, RenameTable):
            old = Table(*change.old)
            if found.pop(old, "drop") == "drop" or old in known:  # the name existed before the statement
                found[old] = "drop"
            found[Table(*change.new)] = "reset"
        else:
            found |= _changed(change, known, explicit)
    return found


def _changed(change: Change, known: _Known, explicit: bool) -> _Effects:
    match change:
        case CreateTable() | CreateLike() | CreateSequence():
            return _created(change, known)
        case AlterTable():
            return _altered(change, known.get(Table(*change.table)), explicit)
        case AlterSequence(table):
            return {Table(*table): "reset"}
        case DropTable(table):
            return {Table(*table): "drop"}
        case TruncateTable(table):
            return {Table(*table): "truncate"}
        case DropSchema(name) | CreateSchema(name, or_replace=True):
            return _emptied(name, known)
    return {}


def _created(change: CreateTable | CreateLike | CreateSequence, known: _Known) -> _Effects:
    table = Table(*change.table)
    empty = isinstance(change, CreateLike) or (isinstance(change, CreateTable) and _is_empty(change.options))
    if change.if_not_exists and not change.or_replace:
        if table not in known:
            return {table: "reset"}  # an unknown table may have rows
        if known[table].last_marker != "drop":
            return {}
    return {table: "create" if empty else "reset"}


def _is_empty(options: Options) -> bool:
    return options.engine.lower() in _EMPTY_ENGINES and not options.sequence


def _emptied(schema: str, known: _Known) -> _Effects:
    """Return the effects of dropping all tables of a schema."""
    alike = [table for table in known if folded(table.schema) == folded(schema)]
    return {table: "drop" if table.schema == schema else "reset" for table in alike}


def _altered(change: AlterTable, state: TableState | None, explicit: bool) -> _Effects:
    table = Table(*change.table)
    found: _Effects = {table: "reset"} if change.ignore else {}
    for clause in change.clauses:
        match clause:
            case RenameTo(new) if Table(*new) != table:
                return {table: "drop", Table(*new): "reset"}
            case RenameTo():
                pass
            case Partition(operation, other) if other is not None:
                found |= {table: "reset", Table(*other): "drop" if operation == "attach" else "reset"}
            case _ if not _keeps(clause, state, explicit):
                found[table] = "reset"
    return found


def _keeps(clause: Clause, state: TableState | None, explicit: bool) -> bool:
    """Whether a clause of ALTER TABLE certainly leaves values, names and key as they are."""
    match clause:
        case AddColumn(column):
            return _is_null_at_first(column, state, explicit)
        case DropColumn(name):
            return state is not None and bool(state.versions) and folded(name) not in _key_of(state)
        case ChangeColumn(old, column):
            return old == column.name and _fits_unchanged(column, state)
        case AddIndex(spec, replaces=replaces):
            if spec.kind is IndexKind.PRIMARY:
                return False
            # A unique index may become the key of a table without one.
            return (spec.kind is IndexKind.OTHER and not replaces) or (state is not None and bool(_key_of(state)))
        case DropIndex(name):
            return folded(name) != "primary"
        case SetOptions(options):
            moved = options.versioned or options.sequence or options.elsewhere
            return options.engine.lower() in _STORING_ENGINES and not moved
        case Partition(operation):
            return operation in _LOSSLESS_OPERATIONS
        case RenameIndex() | ShowColumn() | Unchanged():
            return True
    return False


def _key_of(state: TableState) -> set[str]:
    """Return the columns of the key, folded."""
    version = state.version if state.versions else None
    return {folded(field.column) for field in version.fields if field.name in version.key} if version else set()


def _is_null_at_first(column: ColumnSpec, state: TableState | None, explicit: bool) -> bool:
    """Whether a new column is NULL in all rows, in the lake too: there, an older column of its name shows again."""
    versions = state.versions if state else []
    if any(folded(field.column) == folded(column.name) for version in versions for field in version.fields):
        return False
    nullable = column.nullable
    if nullable is None:
        nullable = column.type.name != "timestamp" or explicit
    return nullable and not column.has_default and _is_plain(column)


def _is_plain(column: ColumnSpec) -> bool:
    """Whether the column has no attribute that may fill rows or make a key."""
    special = column.on_update or column.generated or column.auto_increment or column.versioned
    return not (special or column.primary or column.unique)


def _fits_unchanged(column: ColumnSpec, state: TableState | None) -> bool:
    """Whether every value of a redefined column fits its new type unchanged.

    False unless the lake has all of the table: a snapshot may have read values of another definition.
    """
    if state is None or state.complete_from is None or state.reset > state.complete_from or not state.versions:
        return False
    version = state.version
    field = next(
        (each for each in version.fields if folded(each.column) == folded(column.name) and not each.side), None
    )
    if field is None or not _is_plain(column) or (column.nullable is False and field.name not in version.key):
        return False
    try:
        old = definition(field.column, Cursor(tokens(field.source_type, _TYPES)), _TYPES).type
    except (NotUnderstood, Unreadable):
        return False
    return _contains(old, column.type)


def _contains(old: DataType, new: DataType) -> bool:
    if old.unsigned != new.unsigned or old.zerofill or new.zerofill:
        return False
    if old.name in INTEGERS and new.name in INTEGERS:
        return INTEGERS.index(old.name) <= INTEGERS.index(new.name)
    if old.name != new.name or old.length is None or new.length is None:
        return False
    match old.name:
        case "varbinary":
            return new.length >= old.length
        case "decimal":
            scale, fraction = old.decimals or 0, new.decimals or 0
            return fraction >= scale and new.length - fraction >= old.length - scale
    return False


def _folded(table: Table) -> tuple[str, str]:
    return folded(table.schema), folded(table.table)
