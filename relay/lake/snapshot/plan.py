"""What is fetched of a table: its columns as they stand, the version that their rows are written in, and its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pymysql.connections import Connection

from relay.binlog.columntypes import Type
from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts
from relay.binlog.schema import SchemaColumn, labels, listed
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column, Definition
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.snapshot.keys import KeyPart
from relay.lake.snapshot.select import GEOMETRIES, Selected, can_become, quoted, selected
from relay.lake.types import arrow_type, evolve, fields_of

_SYSTEM: Final = ("mysql", "information_schema", "performance_schema", "sys")
_TYPES: Final = {
    "tinyint": Type.TINY, "smallint": Type.SHORT, "mediumint": Type.INT24, "int": Type.LONG, "bigint": Type.LONGLONG,
    "decimal": Type.NEWDECIMAL, "float": Type.FLOAT, "double": Type.DOUBLE, "bit": Type.BIT, "year": Type.YEAR,
    "date": Type.DATE, "time": Type.TIME2, "datetime": Type.DATETIME2, "timestamp": Type.TIMESTAMP2,
    "char": Type.STRING, "binary": Type.STRING, "uuid": Type.STRING, "inet4": Type.STRING, "inet6": Type.STRING,
    "varchar": Type.VARCHAR, "varbinary": Type.VARCHAR, "enum": Type.ENUM, "set": Type.SET, "json": Type.JSON,
    "vector": Type.VECTOR, **dict.fromkeys(GEOMETRIES, Type.GEOMETRY),
}  # fmt: skip
_PERIOD: Final = [
    SchemaColumn(name, "timestamp", "timestamp(6)", "", False, False) for name in ("row_start", "row_end")
]
"""Columns of MariaDB's system-versioned tables that are in their rows, if no others are declared, and never listed."""


class Plan(NamedTuple):
    """How a table is fetched.

    `selects` has an entry a column, in the binlog's order; `version` is that of the rows' files. `key` is empty if the
    table has none, and if it is on a part of a column: then rows cannot be asked for in its order. `source` is the
    table as SQL, all its rows of the past too where it keeps them, as the binlog does.
    """

    table: Table
    version: TableVersion
    selects: Sequence[Selected]
    key: Sequence[KeyPart]
    source: str

    @property
    def key_names(self) -> list[str]:
        """The key as `Snapshot.key` has it."""
        return [part.column.name + (" DESC" if part.descending else "") for part in self.key]

    def arrays(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The arrays of the version's fields out of the results of `selects`, each of binary.

        Raises `pyarrow.ArrowInvalid` if a value is none of its column's type.
        """
        values: list[pa.Array] = []
        beside: dict[str, pa.Array | None] = {}
        own = [field for field in self.version.fields if not field.side]
        for field, select, column in zip(own, self.selects, columns, strict=True):
            value, side = select.convert(column)
            values.append(value)
            beside[field.column] = side
        for field in self.version.fields[len(own) :]:
            kind, side = arrow_type(field.type), beside[field.column]
            values.append(pa.nulls(len(values[0]), kind) if side is None else side.cast(kind))
        return values


def tables(connection: Connection[Any], wanted: Callable[[str, str], bool]) -> list[Table]:
    """The tables of the source that the account may see, by name, but for the server's own."""
    rows = query(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN {_SYSTEM}"
        " ORDER BY TABLE_SCHEMA, TABLE_NAME",
        "list the tables",
    )
    return [Table(str(schema), str(table)) for schema, table in rows if wanted(str(schema), str(table))]


def plan(
    connection: Connection[Any],
    server: ServerFacts,
    table: Table,
    versions: Sequence[TableVersion],
    keeps: Callable[[str], bool],
) -> Plan:
    """How to fetch a table as it stands, columns that `keeps` refuses left out; `versions` are those that the lake has.

    Raises `RelayError` (source_denied) if the account may not read the table or it is gone, `SourceLost`.
    """
    listing, versioned = listed(connection, server, table.schema, table.table)
    if not listing:
        raise not_to_be_read(table)
    hidden = _PERIOD if versioned and not _declares_period(connection, table) else []
    columns = [*listing, *hidden]
    key = _key(connection, table, columns)
    if key and hidden:  # rows of the past are told apart by when they ended
        key.append(KeyPart(hidden[-1], False))
    primary = {column.name for column in columns if column.primary} | {part.column.name for part in key}
    if not all(map(keeps, primary)):  # what remains of a key does not tell rows apart
        primary, key = set(), []
    columns = [column for column in columns if keeps(column.name)]
    version = _version(table, columns, primary, versions)
    own = [field for field in version.fields if not field.side]
    return Plan(
        table,
        version,
        [selected(column, field) for column, field in zip(columns, own, strict=True)],
        key,
        f"{quoted(table.schema)}.{quoted(table.table)}" + (" FOR SYSTEM_TIME ALL" if versioned else ""),
    )


def not_to_be_read(table: Table) -> RelayError:
    """The error for a table without columns."""
    return RelayError(
        StopCode.SOURCE_DENIED,
        "snapshot",
        "the table is gone, or the account may not read it",
        position=str(table),
        hint=f"GRANT SELECT ON {quoted(table.schema)}.{quoted(table.table)} to the account; `relay check` names it",
    )


def _declares_period(connection: Connection[Any], table: Table) -> bool:
    return bool(
        query(
            connection,
            f"SELECT 1 FROM information_schema.COLUMNS WHERE {_named(connection, table)}"
            " AND GENERATION_EXPRESSION IN ('ROW START', 'ROW END')",
            f"ask for the period of {table}",
        )
    )


def _named(connection: Connection[Any], table: Table) -> str:
    return f"TABLE_SCHEMA = {connection.escape(table.schema)} AND TABLE_NAME = {connection.escape(table.table)}"


def _key(connection: Connection[Any], table: Table, columns: Iterable[SchemaColumn]) -> list[KeyPart]:
    """The primary key; nothing if a part of it is the beginning of a column only."""
    by_name = {column.name: column for column in columns}
    rows = query(
        connection,
        f"SELECT COLUMN_NAME, COLLATION, SUB_PART FROM information_schema.STATISTICS WHERE {_named(connection, table)}"
        " AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
        f"ask for the key of {table}",
    )
    if any(part is not None or name not in by_name for name, _, part in rows):
        return []
    return [KeyPart(by_name[name], order == "D") for name, order, _ in rows]


def _version(
    table: Table, columns: Sequence[SchemaColumn], primary: Container[str], versions: Sequence[TableVersion]
) -> TableVersion:
    """The newest version, if rows of these columns can be written in it; else the one that follows it."""
    if versions:
        own = [field for field in versions[-1].fields if not field.side]
        if [field.column for field in own] == [column.name for column in columns] and all(
            _fits(column, field) for column, field in zip(columns, own, strict=True)
        ):
            return versions[-1]
    definition = Definition(
        table.schema, table.table, 0, 0, 0, True, [_column(column, column.name in primary) for column in columns]
    )
    return evolve(versions, table, *fields_of(definition))


def _fits(column: SchemaColumn, field: Field) -> bool:
    """Whether the field is what the column's own would be: labels and lengths may be told in another way."""
    [own, *_], _ = fields_of(Definition("", "", 0, 0, 0, True, [_column(column, False)]))
    return field.type == own.type or (column.data_type in ("enum", "set") and can_become(column, field.type))


def _of_bytes(column: SchemaColumn) -> bool:
    """Whether labels of an ENUM or SET are no text: MariaDB tells them with `?`, MySQL as x'ff'."""
    return column.charset in ("", "binary") and bool(re.search(r"\?|[(,]x'", column.column_type))


def _column(column: SchemaColumn, primary: bool) -> Column:
    """As a table map has it, as far as types of the lake depend on it."""
    kind = _TYPES.get(column.data_type, Type.BLOB)
    digits = [int(digit) for digit in re.findall(r"\d+", column.column_type.partition(")")[0])]
    labelled = kind in (Type.ENUM, Type.SET)
    meta = 0
    if kind == Type.NEWDECIMAL:
        meta = digits[0] << 8 | digits[1]
    elif kind == Type.BIT:
        meta = digits[0]
    return Column(
        name=column.name,
        name_id=0,
        type=kind,
        meta=meta,
        unsigned=" unsigned" in column.column_type,
        nullable=column.nullable,
        primary=primary,
        charset=("binary" if _of_bytes(column) else "") if labelled else column.charset or "binary",
        labels=labels(column.column_type) if labelled else [],
        sql_type=column.column_type,
    )
