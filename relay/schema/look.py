"""What the source says of its tables: definitions as they stand when it is asked.

SHOW CREATE TABLE waits for the table's metadata lock, which every statement that defines it holds until it is in the
binlog and in force. So the answer has all statements before the position that the binlog had reached when it was asked,
and none behind the one that it has reached when the answer is there. Statements between the two may be in it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts, binlog_position
from relay.binlog.place import Place
from relay.ddl import Dialect, read
from relay.ddl.columns import definition
from relay.ddl.cursor import Cursor, NotUnderstood
from relay.ddl.dialect import version_of
from relay.ddl.lexer import Unreadable, tokens
from relay.ddl.statements import Kind
from relay.ddl.syntax import Bytes, CreateSequence, CreateTable, TableName
from relay.schema.create import column_of, created
from relay.schema.facts import Answer
from relay.schema.table import ABSENT, Schema, State, Table, Unknown

AT_A_TIME: Final = 200
"""Tables that are asked for between two looks at the binlog's position."""
DENIED: Final = "the account may not see it"
_SYSTEM: Final = ("mysql", "information_schema", "performance_schema", "sys")
_GONE: Final = (1049, 1146)  # no such schema, no such table
_DENIED: Final = (1044, 1142, 1143)
_NO_TABLE: Final = (1347, 1356)  # a view, and one that is broken


def dialect(server: ServerFacts) -> Dialect:
    """How the server writes definitions for who has `prepare`d the connection."""
    return Dialect(*version_of(server.version), sql_mode=0, explicit_timestamps=True)


def prepare(connection: Connection[Any], server: ServerFacts) -> None:
    """Have the server show definitions in one way only. Raises `SourceLost`, `RelayError`."""
    operation = "prepare to ask for definitions"
    query(connection, "SET SESSION sql_mode = '', sql_quote_show_create = 1", operation)
    if not server.mariadb and server.release >= (8, 0, 30):
        query(connection, "SET SESSION show_gipk_in_create_table_and_information_schema = ON", operation)


def lower_case(connection: Connection[Any]) -> int:
    """The server's lower_case_table_names."""
    ((found,),) = query(connection, "SELECT @@GLOBAL.lower_case_table_names", "ask how names are compared")
    return int(found)


def everything(
    connection: Connection[Any],
    server: ServerFacts,
    wants: Callable[[str, str], bool],
    seen: Callable[[int, int], None],
    binlog: Connection[Any] | None = None,
) -> Iterator[list[Answer]]:
    """Ask for all tables that are wanted, and for all schemas; some answers at a time.

    `seen` is told how many tables have been asked for, of how many; `binlog` as in `ask`. Raises `SourceLost`,
    `RelayError`.
    """
    asked = _place(binlog or connection, server)
    charsets, tables = _schemas(connection), _tables(connection)
    until = _place(binlog or connection, server)
    names = [table for table in tables if wants(*table)]
    left_out = {table.schema for table in tables if not wants(*table)}
    whole = _sees_all(connection, server)
    yield [
        Answer(TableName(schema, ""), Schema(charset, whole and schema not in left_out), asked, until)
        for schema, charset in charsets.items()
    ]
    for start in range(0, len(names), AT_A_TIME):
        yield ask(connection, server, names[start : start + AT_A_TIME], binlog)
        seen(min(start + AT_A_TIME, len(names)), len(names))


def ask(
    connection: Connection[Any],
    server: ServerFacts,
    tables: Sequence[TableName],
    binlog: Connection[Any] | None = None,
) -> list[Answer]:
    """Ask for some tables; over `binlog`, where the binlog stands. Raises `SourceLost`, `RelayError`."""
    asked = _place(binlog or connection, server)
    found = [(table, state(connection, server, table)) for table in tables]
    until = _place(binlog or connection, server)
    return [Answer(table, state, asked, until) for table, state in found]


def _place(connection: Connection[Any], server: ServerFacts) -> Place:
    status = binlog_position(connection, server)
    return Place(status.file, status.position)


def _schemas(connection: Connection[Any]) -> dict[str, str]:
    """All schemas, and the character set of each."""
    rows = query(
        connection,
        "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA",
        "list the schemas",
    )
    return {str(name): "utf8mb3" if charset == "utf8" else str(charset) for name, charset in rows}


def _tables(connection: Connection[Any]) -> list[TableName]:
    rows = query(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE TABLE_TYPE NOT LIKE '%VIEW' AND TABLE_SCHEMA NOT IN {_SYSTEM}",
        "list the tables",
    )
    return [TableName(str(owner), str(name)) for owner, name in rows]


def _sees_all(connection: Connection[Any], server: ServerFacts) -> bool:
    """Whether the list of tables has all whose statements are in the binlog by then: MariaDB makes a table before it
    writes the statement, MySQL shows it afterwards."""
    if not server.mariadb:
        return False
    return bool(
        query(
            connection,
            "SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'SELECT'",
            "ask whether the account sees all tables",
        )
    )


def state(connection: Connection[Any], server: ServerFacts, table: TableName) -> State:
    """A table as it stands, at no certain place in the binlog. Raises `SourceLost`, `RelayError`."""
    nothing: dict[int, list[tuple[Any, ...]]] = {number: [] for number in (*_GONE, *_NO_TABLE)}
    denied = {number: [("", DENIED)] for number in _DENIED}
    name = ".".join("`" + part.replace("`", "``") + "`" for part in table)
    rows = query(connection, f"SHOW CREATE TABLE {name}", f"ask for {table}", {**nothing, **denied})
    if not rows:
        return ABSENT
    text = str(rows[0][1])
    if text == DENIED:
        return Unknown(DENIED)
    try:
        return _made(text, table, dialect(server))
    except NotUnderstood as error:
        return _listed(connection, server, table, str(error))


def _made(text: str, table: TableName, how: Dialect) -> State:
    """The table of a CREATE TABLE statement that the server shows. Raises `NotUnderstood`."""
    statement = read(text, table.schema, how)
    if statement.kind is Kind.HARMLESS:
        return ABSENT  # a view
    if statement.opaque:
        raise NotUnderstood(statement.opaque)
    (change,) = statement.changes
    if isinstance(change, CreateSequence) or not isinstance(change, CreateTable):
        raise NotUnderstood(f"CREATE TABLE expected for {table}")
    return created(change._replace(table=table), "", how, shown=True)


def _listed(connection: Connection[Any], server: ServerFacts, table: TableName, why: str) -> State:
    """A table that is shown in words which are not known here: its columns by information_schema, and no indexes."""
    where = f"TABLE_SCHEMA = {connection.escape(table.schema)} AND TABLE_NAME = {connection.escape(table.table)}"
    rows = query(
        connection,
        "SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, COLUMN_KEY FROM information_schema.COLUMNS"
        f" WHERE {where} ORDER BY ORDINAL_POSITION",
        f"ask for the columns of {table}",
    )
    how = dialect(server)
    try:
        columns = tuple(
            column_of(
                definition(str(name), Cursor(tokens(str(kind), how)), how)._replace(nullable=null == "YES"),
                str(charset or ""),
                how,
            )
            for name, kind, charset, null, _ in rows
        )
    except (NotUnderstood, Unreadable) as error:
        return Unknown(f"{why}; {error}")
    key = frozenset(str(name) for name, _, _, _, key in rows if key == "PRI")
    return Table(table.schema, table.table, columns, None, "", key) if columns else Unknown(why)


_NOT_SHOWN: Final = frozenset({"binary", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
"""Character sets of which the source shows some characters, or bytes, as question marks."""


def uncertain_labels(table: Table) -> list[str]:
    """Columns whose labels may be others: the source shows them in utf8mb3, and not what is beyond that, MariaDB not
    what is no text."""
    return [column.name for column in table.columns if _loses_labels(column.type.charset, column.type.labels)]


def _loses_labels(charset: str, labels: Iterable[str | Bytes]) -> bool:
    return charset in _NOT_SHOWN and any(isinstance(label, str) and "?" in label for label in labels)
