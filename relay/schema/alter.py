"""The effect of ALTER TABLE on a table: the columns, in the server's order, and the indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import (
    AddColumn,
    AddIndex,
    AddPeriod,
    AddVersioning,
    ChangeColumn,
    Clause,
    ColumnSpec,
    ConvertTo,
    DropColumn,
    DropIndex,
    DropPeriod,
    DropVersioning,
    Generated,
    IndexKind,
    IndexPart,
    Period,
    Position,
    RenameColumn,
    RenameIndex,
    SetOptions,
    ShowColumn,
)
from relay.schema.columntype import BLOBS, TEXTS, converted_type, sized_by
from relay.schema.create import add_indexes, charset_of, column_indexes, column_of, with_indexes
from relay.schema.table import Column, Index, Table, find, is_among, same_name

_GENERATED_KEY: Final = "my_row_id"


def altered_table(table: Table, clauses: Sequence[Clause], schema_charset: str, dialect: Dialect) -> Table:
    """Return the table after the clauses, except RENAME TO.

    Raises `NotUnderstood` if the result on the server is uncertain.
    """
    clauses = [clause for number, clause in enumerate(clauses) if _applies(clause, table, clauses[:number])]
    table, conversion = _options(table, clauses, schema_charset, dialect)
    charset = table.charset
    if conversion:
        if not dialect.mariadb:
            clauses = [_with_old_size(clause, table, conversion) for clause in clauses]
        clauses = [_with_charset(clause, conversion, dialect) for clause in clauses]
        converted = tuple(
            msgspec.structs.replace(column, type=converted_type(column.type, conversion, dialect))
            for column in table.columns
        )
        table = msgspec.structs.replace(table, columns=converted, charset=conversion)
    columns = _columns(table, clauses, dialect)
    indexes = _indexes(table, clauses, columns)
    periods = _periods(table, clauses)
    made = msgspec.structs.replace(table, columns=tuple(columns), periods=periods, charset=charset)
    made = _versioned(made, clauses)
    if indexes is None:
        return made
    sort = not dialect.mariadb or _indexes_change(clauses) or _loses_not_null(table, made)
    made = with_indexes(made, indexes, dialect, sort=sort)
    if dialect.mariadb and made.key != with_indexes(made, indexes, dialect).key:
        raise NotUnderstood("it is not certain which unique index counts as the key")
    return made


def _loses_not_null(before: Table, after: Table) -> bool:
    """Whether a column of a unique index becomes nullable."""
    unique = [part.name for index in before.indexes or () for part in index.parts if index.kind is IndexKind.UNIQUE]
    strict = [column for column in before.columns if column.name in unique and column.nullable is False]
    return any((now := find(after.columns, column.name)) and now.nullable is not False for column in strict)


def _indexes_change(clauses: Iterable[Clause]) -> bool:
    return bool(column_indexes(_specs(clauses))) or any(isinstance(clause, AddIndex | DropIndex) for clause in clauses)


def _applies(clause: Clause, table: Table, before: Sequence[Clause]) -> bool:
    """Whether a clause with IF EXISTS or IF NOT EXISTS applies, after the clauses `before` it."""
    match clause:
        case AddColumn(column, if_not_exists=True):
            added = (each.column.name for each in before if isinstance(each, AddColumn))
            return find(table.columns, column.name) is None and not is_among(column.name, added)
        case ChangeColumn(old, if_exists=True) | RenameColumn(old, if_exists=True) | DropColumn(old, if_exists=True):
            return find(table.columns, old) is not None
        case AddIndex(spec, if_not_exists=True):
            return not _has_index(table, spec.name or spec.parts[0].name)
        case DropIndex(name, if_exists=True) | RenameIndex(name, if_exists=True):
            return _has_index(table, name)
    return True


def _has_index(table: Table, name: str) -> bool:
    if table.indexes is None:
        raise NotUnderstood("the table's indexes are not known")
    return is_among(name, (index.name for index in table.indexes))


def _options(table: Table, clauses: Sequence[Clause], schema_charset: str, dialect: Dialect) -> tuple[Table, str]:
    """Return the table with its new options, and the character set of CONVERT TO, "" if there is none."""
    charset, conversion, engine = table.charset, "", table.engine
    named = any(isinstance(each, SetOptions) and (each.options.charset or each.options.collation) for each in clauses)
    for clause in clauses:
        if isinstance(clause, SetOptions):
            options = clause.options
            otherwise = schema_charset if options.charset == "default" else charset
            charset = charset_of(options, otherwise, dialect)
            engine = options.engine or engine
        elif isinstance(clause, ConvertTo):
            if named and not clause.charset:
                raise NotUnderstood("CONVERT TO CHARACTER SET DEFAULT is beside another character set")
            conversion = clause.charset or schema_charset
            if not conversion:
                raise NotUnderstood("the schema's character set is not known")
    # MariaDB accepts both: a character set to convert the columns to, and another one for new columns.
    charset = charset if named else conversion or charset
    return msgspec.structs.replace(table, charset=charset, engine=engine), conversion


def _columns(table: Table, clauses: Sequence[Clause], dialect: Dialect) -> list[Column]:
    """Return the columns in their new order.

    First, the existing columns get their new names and keep their positions. Then moved and added columns are put at
    their positions, one after the other, in the order of the statement.
    """
    new_names = _new_names(clauses)
    changed = {clause.old.lower(): clause for clause in clauses if isinstance(clause, ChangeColumn)}
    added = [clause.column.name for clause in clauses if isinstance(clause, AddColumn)]
    # On MariaDB, a statement can also modify a column that it adds.
    added_and_changed = [
        name for name in changed if dialect.mariadb and find(table.columns, name) is None and is_among(name, added)
    ]
    touched = [
        clause.name if isinstance(clause, DropColumn) else clause.old
        for clause in clauses
        if isinstance(clause, DropColumn | RenameColumn | ChangeColumn)
    ]
    for name in touched:
        if name.lower() not in added_and_changed and find(table.columns, name) is None:
            raise NotUnderstood(f"it has no column {name}")
        if sum(same_name(name, other) for other in touched) > 1:
            raise NotUnderstood(f"it has two clauses about the column {name}")
    columns: list[Column] = []
    for column in table.columns:
        name = new_names.get(column.name.lower(), column.name)
        if name and column.implicit != "hash":
            change = changed.get(column.name.lower())
            kept = msgspec.structs.replace(column, name=name)
            columns.append(column_of(change.column, table.charset, dialect) if change else kept)
    first = int(_has_generated_key(table))
    for clause in clauses:
        if isinstance(clause, ChangeColumn):
            if clause.position is None and clause.old.lower() not in added_and_changed:
                continue
            columns = [column for column in columns if not same_name(column.name, clause.column.name)]
        if isinstance(clause, AddColumn | ChangeColumn):
            _insert(columns, column_of(clause.column, table.charset, dialect), clause.position, first)
        elif isinstance(clause, ShowColumn):
            columns = [
                msgspec.structs.replace(column, invisible=not clause.visible)
                if same_name(column.name, clause.name)
                else column
                for column in columns
            ]
    implicit = [column for column in columns if column.implicit]
    return [column for column in columns if not column.implicit] + implicit


def _has_generated_key(table: Table) -> bool:
    """Whether MySQL generated the primary key (sql_generate_invisible_primary_key), which stays the first column."""
    first = table.columns[0]
    return first.name == _GENERATED_KEY and first.invisible and table.key == {_GENERATED_KEY}


def _insert(columns: list[Column], column: Column, position: Position | None, first: int) -> None:
    """Put a column at its position; `first` is the index for FIRST."""
    if find(columns, column.name) is not None:
        raise NotUnderstood(f"it has two columns {column.name}")
    if position is None:
        columns.append(column)
    elif not position.after:
        columns.insert(first, column)
    else:
        after = find(columns, position.after)
        if after is None:
            raise NotUnderstood(f"it has no column {position.after}")
        columns.insert(columns.index(after) + 1, column)


def _with_old_size(clause: Clause, table: Table, charset: str) -> Clause:
    """Return the clause; if it changes a column to a text, with the size of the old column, as MySQL does."""
    if not isinstance(clause, ChangeColumn):
        return clause
    kind, old = clause.column.type, find(table.columns, clause.old)
    if kind.name not in (*TEXTS, *BLOBS) or kind.length is not None or old is None:
        return clause
    if kind.name in BLOBS or kind.charset:
        raise NotUnderstood("MySQL gives a text that is changed and converted the size of the old column")
    return clause._replace(column=clause.column._replace(type=sized_by(old.type, kind, charset)))


def _with_charset(clause: Clause, charset: str, dialect: Dialect) -> Clause:
    """Return the clause, with the character set of CONVERT TO if it adds or changes a text.

    That overrides the clause's own.
    """
    if not isinstance(clause, AddColumn | ChangeColumn):
        return clause
    kind = clause.column.type
    if kind.name == "json" and dialect.mariadb:
        kind = kind._replace(name="longtext")
    elif kind.charset in ("", "binary"):
        return clause
    kind = kind._replace(charset=charset, collation="")
    return clause._replace(column=clause.column._replace(type=kind))


def _indexes(table: Table, clauses: Sequence[Clause], columns: Sequence[Column]) -> tuple[Index, ...] | None:
    specs = [clause.spec for clause in clauses if isinstance(clause, AddIndex)]
    specs = [*column_indexes(_specs(clauses)), *specs]
    gone = [clause.name for clause in clauses if isinstance(clause, DropIndex)]
    gone += [clause.spec.name for clause in clauses if isinstance(clause, AddIndex) and clause.replaces]
    if table.indexes is None:
        if specs or gone or any(isinstance(each, DropColumn | ChangeColumn | RenameColumn) for each in clauses):
            raise NotUnderstood("the table's indexes are not known")  # so the key is unknown too
        return None
    renamed = {clause.old.lower(): clause.new for clause in clauses if isinstance(clause, RenameIndex)}
    origins = {new.lower(): old for old, new in _new_names(clauses).items()}
    kept: list[Index] = []
    for index in table.indexes:
        if is_among(index.name, gone):
            continue
        parts = tuple(moved for part in index.parts if (moved := _moved_part(part, columns, origins)) is not None)
        if parts:
            name = renamed.get(index.name.lower(), index.name)
            kept.append(msgspec.structs.replace(index, name=name, parts=parts, hashed=False))
    return add_indexes(kept, specs)


def _moved_part(part: IndexPart, columns: Sequence[Column], origins: Mapping[str, str]) -> IndexPart | None:
    """Return the part of an index after the columns have changed, None if its column was dropped.

    It is the first column whose name is, or was, that of the part. So a column that is added under the name of a
    dropped one takes its place. `origins` maps new names to old ones.
    """
    if not part.name:
        return part
    for column in columns:
        if same_name(origins.get(column.name.lower(), column.name), part.name):
            return part._replace(name=column.name)
    return None


def _specs(clauses: Iterable[Clause]) -> list[ColumnSpec]:
    """Return the columns that the clauses add or change."""
    return [clause.column for clause in clauses if isinstance(clause, AddColumn | ChangeColumn)]


def _new_names(clauses: Iterable[Clause]) -> dict[str, str]:
    """Return the new names of columns, by old name; empty for a dropped column."""
    names: dict[str, str] = {}
    for clause in clauses:
        match clause:
            case DropColumn(name):
                names[name.lower()] = ""
            case RenameColumn(old, new):
                names[old.lower()] = new
            case ChangeColumn(old, column):
                names[old.lower()] = column.name
    return names


def _periods(table: Table, clauses: Sequence[Clause]) -> tuple[Period, ...]:
    gone = [clause.name for clause in clauses if isinstance(clause, DropPeriod)]
    added = [clause.period for clause in clauses if isinstance(clause, AddPeriod)]
    names = _new_names(clauses)
    kept = [
        period._replace(
            start=names.get(period.start.lower(), period.start), end=names.get(period.end.lower(), period.end)
        )
        for period in table.periods
        if not is_among(period.name, gone)
    ]
    return (*kept, *added)


def _versioned(table: Table, clauses: Sequence[Clause]) -> Table:
    for clause in clauses:
        if isinstance(clause, AddVersioning):
            table = msgspec.structs.replace(table, versioned=True)
        elif isinstance(clause, DropVersioning):
            columns = tuple(
                column for column in table.columns if column.generated not in (Generated.ROW_START, Generated.ROW_END)
            )
            table = msgspec.structs.replace(table, versioned=False, columns=columns)
    return table
