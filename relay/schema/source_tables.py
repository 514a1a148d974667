"""Query the source for the current definitions of its tables.

SHOW CREATE TABLE waits for the table's metadata lock, which every statement that defines the table holds until it is in
the binlog and in force. The binlog position is read before and after the query. So the reply includes all statements
before the first position and none after the second. It may include statements between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.events.position import BinlogPosition
from relay.ddl import Dialect, parse_statement
from relay.ddl.columns import definition
from relay.ddl.cursor import Cursor, NotUnderstood
from relay.ddl.dialect import version_of
from relay.ddl.lexer import Unreadable, tokens
from relay.ddl.statements import Kind
from relay.ddl.syntax import CreateTable, TableName
from relay.schema.create import column_of, created_table
from relay.schema.facts import ANY, Reply
from relay.schema.table import ABSENT, Schema, State, Table, Unknown
from relay.source.connect import query
from relay.source.facts import ServerFacts, binlog_position

AT_A_TIME: Final = 200
"""The number of tables that are queried between two reads of the binlog position."""
DENIED: Final = "the account is not allowed to see it"
_SYSTEM: Final = ("mysql", "information_schema", "performance_schema", "sys")
_GONE: Final = (1049, 1146)  # no such schema, no such table
_DENIED: Final = (1044, 1142, 1143)
_NO_TABLE: Final = (1347, 1356)  # a view, and one that is broken
_SHOWN_INCOMPLETELY: Final = frozenset({"binary", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
"""Character sets of which the source shows some characters, or bytes, as question marks."""


def dialect_of(server: ServerFacts) -> Dialect:
    """Return the dialect of definitions that the server shows over a connection after `prepare`."""
    return Dialect(*version_of(server.version), sql_mode=0, explicit_timestamps=True)


def prepare(connection: Connection[Any], server: ServerFacts) -> None:
    """Make the server show definitions in the form that `query_state` reads. Raises `SourceLost`, `RelayError`."""
    operation = "prepare to read definitions"
    query(connection, "SET SESSION sql_mode = '', sql_quote_show_create = 1", operation)
    if not server.mariadb and server.release >= (8, 0, 30):
        query(connection, "SET SESSION show_gipk_in_create_table_and_information_schema = ON", operation)


def lower_case(connection: Connection[Any]) -> int:
    """Return the server's lower_case_table_names."""
    ((found,),) = query(connection, "SELECT @@GLOBAL.lower_case_table_names", "read how names are compared")
    return int(found)


def query_all(
    connection: Connection[Any],
    server: ServerFacts,
    wants: Callable[[str, str], bool],
    progress: Callable[[int, int], None],
    binlog: Connection[Any] | None = None,
) -> Iterator[list[Reply]]:
    """Query all wanted tables and all schemas; yield some replies at a time.

    The last reply, about `ANY`, ends after all others. If it is complete, schemas without a reply did not exist when
    the schemas were listed. `progress` is called with the number of tables queried and their total; `binlog` is as in
    `query_tables`. Raises `SourceLost`, `RelayError`.
    """
    asked = _binlog_position(binlog or connection, server)
    charsets, tables = _schemas(connection), _tables(connection)
    until = _binlog_position(binlog or connection, server)
    names = [table for table in tables if wants(*table)]
    left_out = {table.schema for table in tables if not wants(*table)}
    is_complete = _sees_all(connection, server)
    yield [
        Reply(TableName(schema, ""), Schema(charset, is_complete and schema not in left_out), asked, until)
        for schema, charset in charsets.items()
    ]
    for start in range(0, len(names), AT_A_TIME):
        yield query_tables(connection, server, names[start : start + AT_A_TIME], binlog)
        progress(min(start + AT_A_TIME, len(names)), len(names))
    yield [Reply(ANY, Schema("", is_complete), asked, _binlog_position(binlog or connection, server))]


def query_tables(
    connection: Connection[Any],
    server: ServerFacts,
    tables: Sequence[TableName],
    binlog: Connection[Any] | None = None,
) -> list[Reply]:
    """Query some tables. Binlog positions are read over `binlog` if given. Raises `SourceLost`, `RelayError`."""
    asked = _binlog_position(binlog or connection, server)
    found = [(table, query_state(connection, server, table)) for table in tables]
    until = _binlog_position(binlog or connection, server)
    return [Reply(table, state, asked, until) for table, state in found]


def _binlog_position(connection: Connection[Any], server: ServerFacts) -> BinlogPosition:
    status = binlog_position(connection, server)
    return BinlogPosition(status.file, status.position)


def _schemas(connection: Connection[Any]) -> dict[str, str]:
    """All schemas with their character sets."""
    sql = "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA"
    rows = query(connection, sql, "list the schemas")
    return {str(name): "utf8mb3" if charset == "utf8" else str(charset) for name, charset in rows}


def _tables(connection: Connection[Any]) -> list[TableName]:
    where = f"TABLE_TYPE NOT LIKE '%VIEW' AND TABLE_SCHEMA NOT IN {_SYSTEM}"
    sql = f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE {where}"
    rows = query(connection, sql, "list the tables")
    return [TableName(str(owner), str(name)) for owner, name in rows]


def _sees_all(connection: Connection[Any], server: ServerFacts) -> bool:
    """Whether the list of tables includes every table whose statement is in the binlog by then.

    MariaDB creates a table before it writes the statement to the binlog; MySQL shows it only afterwards.
    """
    sql = "SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'SELECT'"
    return server.mariadb and bool(query(connection, sql, "check whether the account sees all tables"))


def query_state(connection: Connection[Any], server: ServerFacts, table: TableName) -> State:
    """Return the current state of a table, at no definite binlog position. Raises `SourceLost`, `RelayError`."""
    nothing: dict[int, list[tuple[Any, ...]]] = {number: [] for number in (*_GONE, *_NO_TABLE)}
    denied = {number: [("", DENIED)] for number in _DENIED}
    name = ".".join("`" + part.replace("`", "``") + "`" for part in table)
    rows = query(connection, f"SHOW CREATE TABLE {name}", f"read the definition of {table}", {**nothing, **denied})
    if not rows:
        return ABSENT
    text = str(rows[0][1])
    if text == DENIED:
        return Unknown(DENIED)
    try:
        return _parse(text, table, dialect_of(server))
    except NotUnderstood as error:
        return _from_information_schema(connection, server, table, str(error))


def _parse(text: str, table: TableName, dialect: Dialect) -> State:
    """Return the state of a table from its statement in SHOW CREATE TABLE. Raises `NotUnderstood`."""
    statement = parse_statement(text, table.schema, dialect)
    if statement.kind is Kind.HARMLESS:
        return ABSENT  # a view
    if statement.opaque:
        raise NotUnderstood(statement.opaque)
    (change,) = statement.changes
    if not isinstance(change, CreateTable):
        raise NotUnderstood(f"CREATE TABLE expected for {table}")
    return created_table(change._replace(table=table), "", dialect, shown=True)


def _from_information_schema(connection: Connection[Any], server: ServerFacts, table: TableName, why: str) -> State:
    """Return the state of a table whose SHOW CREATE TABLE is not understood.

    The columns are from information_schema; there are no indexes.
    """
    where = f"TABLE_SCHEMA = {connection.escape(table.schema)} AND TABLE_NAME = {connection.escape(table.table)}"
    rows = query(
        connection,
        "SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, COLUMN_KEY FROM information_schema.COLUMNS"
        f" WHERE {where} ORDER BY ORDINAL_POSITION",
        f"read the columns of {table}",
    )
    dialect = dialect_of(server)
    try:
        columns = tuple(
            column_of(
                definition(str(name), Cursor(tokens(str(kind), dialect)), dialect)._replace(nullable=null == "YES"),
                str(charset or ""),
                dialect,
            )
            for name, kind, charset, null, _ in rows
        )
    except (NotUnderstood, Unreadable) as error:
        return Unknown(f"{why}; {error}")
    key = frozenset(str(name) for name, _, _, _, key in rows if key == "PRI")
    return Table(table.schema, table.table, columns, None, "", key) if columns else Unknown(why)


def uncertain_labels(table: Table) -> list[str]:
    """Return the names of columns whose labels are uncertain.

    The source shows labels in utf8mb3, and other characters as question marks. MariaDB also shows bytes that are not
    text as question marks.
    """
    return [
        column.name
        for column in table.columns
        if column.type.charset in _SHOWN_INCOMPLETELY
        and any(isinstance(label, str) and "?" in label for label in column.type.labels)
    ]
