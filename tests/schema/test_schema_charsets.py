"""Tables in a schema whose default character set no statement tells: a column's character set is a fact of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer
from relay.ddl import Dialect, parse_statement
from relay.ddl.cursor import NotUnderstood
from relay.ddl.syntax import AlterTable, CreateTable
from relay.schema.alter import altered_table
from relay.schema.columntype import UNKNOWN_CHARSET
from relay.schema.create import created_table
from relay.schema.table import Table
from tests.support.lagging_reader import Laggard

pytestmark = pytest.mark.brands

MYSQL, MARIADB = Dialect(False, 90_700), Dialect(True, 110_800)
TEXTS = (
    "c CHAR(12), v VARCHAR(12), n VARCHAR(12) NOT NULL, tt TINYTEXT, t TEXT, mt MEDIUMTEXT, lt LONGTEXT,"
    " e ENUM('x', 'y'), s SET('x', 'y'), l VARCHAR(12) CHARACTER SET latin1, j JSON, b VARBINARY(12)"
)
NO_TEXTS = (
    "id INT PRIMARY KEY, a DECIMAL(10, 3), b DATETIME(6), c TIMESTAMP(3) NULL, d VARBINARY(20), f BLOB, g DOUBLE,"
    " h BIT(9), k DATE, l TIME(2), e ENUM('x', 'y'), s SET('x', 'y'), u BIGINT UNSIGNED NOT NULL UNIQUE"
)
LABELS = {"e": "y", "s": "x,y"}
Values = dict[str, str | None]
Make = Callable[[DatabaseServer, str], Laggard]


@pytest.fixture
def make_laggard(tmp_path: Path) -> Iterator[Make]:
    """Makes readers that know nothing of the schemas, which are older than what they read."""
    with ExitStack() as stack:
        yield lambda server, database: stack.enter_context(closing(Laggard(server, tmp_path, database)))


def insert(cursor: Cursor, table: str, number: int) -> tuple[str, Values]:
    """Inserts a row with the given id, and returns the table and what SELECT shows of the row."""
    cursor.execute(f"SELECT * FROM {table} LIMIT 0")
    values = {name: LABELS.get(name, f"{name}é日ш{number}") for name in names(cursor)}
    values |= {"id": str(number)} | ({"j": f'["é日{number}"]'} if "j" in values else {})
    columns = ", ".join(values)
    cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(['%s'] * len(values))})", list(values.values()))
    return table.partition(".")[2], selected(cursor, table, number)


def selected(cursor: Cursor, table: str, number: int) -> Values:
    cursor.execute(f"SELECT * FROM {table} WHERE id = {number}")
    [row] = cursor.fetchall()
    return {name: text(value) for name, value in zip(names(cursor), row, strict=True)}


def names(cursor: Cursor) -> list[str]:
    """The names of the columns of a result."""
    return [column[0] for column in cursor.description]


def text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def test_rows_in_every_default_character_set_are_as_selected(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_laggard: Make
) -> None:
    db = make_db(mysql97)
    charsets = [name for (name,) in mysql97.execute("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")]
    laggard = make_laggard(mysql97, db)
    wanted: list[tuple[str, Values]] = []
    with mysql97.connect(database=db, charset="utf8mb4") as connection, connection.cursor() as cursor:
        for number, charset in enumerate(charsets):
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(f"ALTER DATABASE {db} CHARACTER SET {charset}")
            cursor.execute("SET sql_log_bin = 1")
            table = f"{db}.t{number}"
            for statement in (
                f"CREATE TABLE {table} (id INT PRIMARY KEY, {TEXTS})",
                f"ALTER TABLE {table} ADD INDEX (v)",
                f"ALTER TABLE {table} RENAME COLUMN v TO t, RENAME COLUMN t TO v, ADD f VARCHAR(12) FIRST",
                f"ALTER TABLE {table} MODIFY n CHAR(20) AFTER id, DROP lt",
                f"CREATE TABLE {table}_like LIKE {table}",
                f"ALTER TABLE {table} CHARACTER SET utf8mb4, ADD g TEXT",
            ):
                cursor.execute("SET sql_mode = 'STRICT_TRANS_TABLES'")
                cursor.execute(statement)
                cursor.execute("SET sql_mode = ''")  # a character that the set does not have becomes a question mark
                wanted.append(insert(cursor, table, len(wanted)))
            wanted.append(insert(cursor, f"{table}_like", len(wanted)))
    laggard.catch_up()
    rows = laggard.rows()
    assert all(row.proven for row in rows)
    assert [(row.table, dict(row.cells)) for row in rows] == wanted
    assert laggard.asked == 0, "the source was asked"


def test_a_table_without_texts_waits_for_no_character_set(server: DatabaseServer, db: str, make_laggard: Make) -> None:
    laggard = make_laggard(server, db)
    wanted: list[list[str]] = []
    for number, statement in enumerate((
        f"CREATE TABLE {db}.t ({NO_TEXTS})", f"ALTER TABLE {db}.t RENAME COLUMN a TO f, RENAME COLUMN f TO a",
        f"ALTER TABLE {db}.t ADD INDEX (b), ADD i INT FIRST",
    ), 1):  # fmt: skip
        server.execute(statement, f"INSERT INTO {db}.t (id, u, e, s) VALUES ({number}, {number}, 'y', 'x,y')")
        wanted.append([name for name, *_ in server.execute(f"SHOW COLUMNS FROM {db}.t")])
    laggard.catch_up()
    rows = laggard.rows()
    assert [(row.names.split(","), row.proven) for row in rows] == [(names, True) for names in wanted]
    values = [dict(row.cells) for row in rows]
    assert [(each["id"], each["e"], each["s"]) for each in values] == [(str(n), "y", "x,y") for n in (1, 2, 3)]
    assert laggard.asked == 0, "the source was asked"


def made(columns: str, *clauses: str, dialect: Dialect = MYSQL, options: str = "") -> Table:
    """A table in a schema whose character set is unknown, after ALTER TABLE with each of the clauses."""
    [change] = parse_statement(f"CREATE TABLE t ({columns}) {options}", "d", dialect).changes
    assert isinstance(change, CreateTable)
    table = created_table(change, "", dialect)
    for clause in clauses:
        [alter] = parse_statement(f"ALTER TABLE t {clause}", "d", dialect).changes
        assert isinstance(alter, AlterTable)
        table = altered_table(table, alter.clauses, "", dialect)
    return table


@pytest.mark.parametrize("dialect", [MYSQL, MARIADB])
def test_a_statement_proves_all_but_the_character_set(dialect: Dialect) -> None:
    table = made("id INT PRIMARY KEY, v VARCHAR(20) NOT NULL, t TEXT", "ADD c CHAR(3) FIRST", dialect=dialect)
    assert [(column.name, column.type.name, column.type.charset, column.nullable) for column in table.columns] == [
        ("c", "char", UNKNOWN_CHARSET, True), ("id", "int", "", False), ("v", "varchar", UNKNOWN_CHARSET, False),
        ("t", "text", UNKNOWN_CHARSET, True),
    ]  # fmt: skip
    assert table.key == {"id"}
    later = made("id INT, v VARCHAR(20)", "CHARACTER SET latin1", "ADD w VARCHAR(20)", dialect=dialect)
    assert [column.type.charset for column in later.columns] == ["", UNKNOWN_CHARSET, "latin1"]


@pytest.mark.parametrize(
    ("columns", "clauses", "dialect"),
    [
        ("a TEXT(100)", (), MYSQL),
        ("a VARCHAR(20000)", (), Dialect(False, 90_700, sql_mode=0)),
        ("a ENUM('é')", (), MYSQL),
        ("a ENUM('a ')", (), MYSQL),
        ("a SET(x'61')", (), MYSQL),
        ("a VARCHAR(20)", ("CONVERT TO CHARACTER SET utf8mb4",), MYSQL),
        ("a ENUM('a')", ("CONVERT TO CHARACTER SET utf8mb4",), MYSQL),
        ("a INT", ("CONVERT TO CHARACTER SET DEFAULT",), MYSQL),
        ("a VARCHAR(1000) UNIQUE", (), MARIADB),  # DB_ROW_HASH_1 exists if it has more than 3072 bytes
    ],
)
def test_what_depends_on_the_character_set_stays_unknown(
    columns: str, clauses: tuple[str, ...], dialect: Dialect
) -> None:
    with pytest.raises(NotUnderstood):
        made(columns, *clauses, dialect=dialect)
