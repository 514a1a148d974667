"""Definitions from information_schema, for sources whose table maps carry no names.

What the source answers is how the table stands at the moment of the question. The binlog's end, asked for right after,
is a position B at or behind that moment. A row at X was written under that definition if the stream between X and B
holds no statement that may concern the table; so a definition is proven once the stream has passed B. Count and types
alone prove nothing: a column renamed or moved keeps both.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from pymysql.connections import Connection

from relay.binlog.columntypes import NUMERIC, OLD_TEMPORAL, TEXTUAL, MapColumn, Type
from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts, binlog_position
from relay.binlog.place import Place
from relay.binlog.tablemap import TableMap
from relay.journal.frames import Column, Definition


class SchemaColumn(msgspec.Struct, frozen=True):
    """A row of information_schema.COLUMNS."""

    name: str
    data_type: str
    column_type: str
    charset: str
    nullable: bool
    primary: bool


class Answer(msgspec.Struct, frozen=True):
    """How a table stands, and a position that the binlog had reached when it was asked, or later."""

    columns: tuple[SchemaColumn, ...]
    until: Place
    versioned: bool = False  # MariaDB: WITH SYSTEM VERSIONING, so that rows may have two columns more than are listed


def ask(connection: Connection[Any], server: ServerFacts, schema: str, table: str) -> Answer:
    """Ask for a table's columns. Raises `SourceLost` or `RelayError` (source_denied)."""
    columns, versioned = listed(connection, server, schema, table)
    end = binlog_position(connection, server)
    return Answer(columns, Place(end.file, end.position), versioned)


def listed(
    connection: Connection[Any], server: ServerFacts, schema: str, table: str
) -> tuple[tuple[SchemaColumn, ...], bool]:
    """A table's columns, none if it is not there or not to be seen, and whether it is versioned as in `Answer`."""
    rows = query(
        connection,
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, COLUMN_KEY"
        f" FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {connection.escape(schema)}"
        f" AND TABLE_NAME = {connection.escape(table)} ORDER BY ORDINAL_POSITION",
        f"ask for the columns of {schema}.{table}",
    )
    columns = tuple(
        SchemaColumn(
            str(name), str(data).lower(), str(column), str(charset or ""), str(null) == "YES", str(key) == "PRI"
        )
        for name, data, column, charset, null, key in rows
    )
    versioned = server.mariadb and query(
        connection,
        f"SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {connection.escape(schema)}"
        f" AND TABLE_NAME = {connection.escape(table)} AND TABLE_TYPE = 'SYSTEM VERSIONED'",
        f"ask for the type of {schema}.{table}",
    )
    settled = server.mariadb or _settled(connection, schema, table)
    return columns if settled else (), bool(versioned)


def _settled(connection: Connection[Any], schema: str, table: str) -> bool:
    """Wait until whatever redefines the table has ended; False if the account may not.

    MySQL's information_schema waits for nobody, and shows what became of a table whose engine has no transactions
    before the statement is in the binlog. A statement that opens the table waits for its metadata lock, which is held
    until then; MariaDB's information_schema is one.
    """
    name = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))
    gone = {number: [(table, "")] for number in (_NO_SUCH_SCHEMA, _NO_SUCH_TABLE, _BROKEN_VIEW)}
    return bool(query(connection, f"SHOW CREATE TABLE {name}", f"open {schema}.{table}", {**gone, _DENIED: []}))


def matched(table_map: TableMap, answer: Answer) -> Definition | str:
    """The definition, with its numbers still 0, or why these columns cannot be those of the table map."""
    columns = answer.columns
    if not columns:
        return "the source has no such table, or the account may not see it"
    if answer.versioned and len(columns) + len(_PERIOD) == len(table_map.columns):
        # Where the table has a key, the end of a row's time is part of it.
        begin, end = _PERIOD
        columns += (begin, msgspec.structs.replace(end, primary=any(column.primary for column in columns)))
    if len(columns) != len(table_map.columns):
        return f"it has {len(columns)} columns, its rows {len(table_map.columns)}"
    for number, (said, seen) in enumerate(zip(columns, table_map.columns, strict=True), 1):
        if seen.type not in _TYPES.get(said.data_type, frozenset()):
            return f"column {number}, {said.name}, is {said.data_type}, but of type {seen.type} in its rows"
        if seen.name is not None and seen.name != said.name:
            return f"column {number} is {said.name}, but {seen.name} in its rows"
        if seen.type in OLD_TEMPORAL and "(" in said.column_type and _OLD_FORMAT not in said.column_type:
            return f"column {number}, {said.name}, is {said.column_type}, but of an older format in its rows"
    pairs = zip(columns, table_map.columns, strict=True)
    return Definition(table_map.schema, table_map.table, 0, 0, 0, True, [_column(said, seen) for said, seen in pairs])


_NO_SUCH_SCHEMA: Final = 1049
_DENIED: Final = 1142
_NO_SUCH_TABLE: Final = 1146
_BROKEN_VIEW: Final = 1356
_PERIOD: Final = tuple(
    SchemaColumn(name, "timestamp", "timestamp(6)", "", False, False) for name in ("row_start", "row_end")
)
"""The columns that a versioned table has without their being declared."""
_TEXTS: Final = (
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "json",
    "xmltype",
)
_SHAPES: Final = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
)  # fmt: skip
_TYPES: Final[dict[str, frozenset[int]]] = {
    "tinyint": frozenset({Type.TINY}), "smallint": frozenset({Type.SHORT}), "mediumint": frozenset({Type.INT24}),
    "int": frozenset({Type.LONG}), "bigint": frozenset({Type.LONGLONG}), "decimal": frozenset({Type.NEWDECIMAL}),
    "float": frozenset({Type.FLOAT}), "double": frozenset({Type.DOUBLE}), "bit": frozenset({Type.BIT}),
    "year": frozenset({Type.YEAR}), "date": frozenset({Type.DATE, Type.NEWDATE}),
    "time": frozenset({Type.TIME, Type.TIME2}), "datetime": frozenset({Type.DATETIME, Type.DATETIME2}),
    "timestamp": frozenset({Type.TIMESTAMP, Type.TIMESTAMP2}), "char": frozenset({Type.STRING}),
    "binary": frozenset({Type.STRING}), "uuid": frozenset({Type.STRING}), "inet4": frozenset({Type.STRING}),
    "inet6": frozenset({Type.STRING}),
    "varchar": frozenset({Type.VARCHAR, Type.VAR_STRING, Type.VARCHAR_COMPRESSED}),
    "varbinary": frozenset({Type.VARCHAR, Type.VAR_STRING, Type.VARCHAR_COMPRESSED}),
    "enum": frozenset({Type.ENUM}), "set": frozenset({Type.SET}), "vector": frozenset({Type.VECTOR, Type.VARCHAR}),
    **dict.fromkeys(_TEXTS, frozenset({Type.BLOB, Type.JSON, Type.BLOB_COMPRESSED})),
    **dict.fromkeys(_SHAPES, frozenset({Type.GEOMETRY})),
}  # fmt: skip


def _column(said: SchemaColumn, seen: MapColumn) -> Column:
    return Column(
        name=said.name,
        name_id=0,
        type=seen.type,
        meta=_digits(said) if seen.type in OLD_TEMPORAL else seen.meta,
        unsigned=seen.type in NUMERIC and " unsigned" in said.column_type,
        nullable=seen.nullable,
        primary=said.primary,
        charset=(said.charset or "binary") if seen.type in TEXTUAL else "",
        labels=labels(said.column_type) if seen.type in (Type.ENUM, Type.SET) else [],
        sql_type=said.column_type.removesuffix(_OLD_FORMAT),
    )


_OLD_FORMAT: Final = " /* mariadb-5.3 */"
"""What MariaDB adds to the type of a temporal column in the format of before 10.1."""


def _digits(said: SchemaColumn) -> int:
    """Of the fraction of a TIME, DATETIME or TIMESTAMP."""
    found = re.search(r"\((\d)\)", said.column_type)
    return int(found[1]) if found else 0


def uncertain_labels(answer: Answer) -> list[str]:
    """Columns whose labels may be others: the source tells them in utf8mb3, and not what is beyond that, or no text."""
    return [column.name for column in answer.columns if column.data_type in ("enum", "set") and _loses_labels(column)]


def _loses_labels(column: SchemaColumn) -> bool:
    if column.charset in ("", "binary"):
        return True
    return column.charset in _BEYOND_UTF8MB3 and any("?" in label for label in labels(column.column_type))


_BEYOND_UTF8MB3: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_LABEL: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "0": "\0", "Z": "\x1a", "t": "\t", "b": "\b"}


def labels(column_type: str) -> list[str]:
    """The labels of `enum('a','it''s')` or `set(...)`, as the server writes it in COLUMN_TYPE."""
    return [re.sub(r"''|\\(.)", _unescaped, label, flags=re.DOTALL) for label in _LABEL.findall(column_type)]


def _unescaped(match: re.Match[str]) -> str:
    return "'" if match[1] is None else _ESCAPES.get(match[1], match[1])
