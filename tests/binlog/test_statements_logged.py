"""Statements as each server writes them to its binlog are classified correctly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pymysql
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention
from relay.binlog.bodies.statements import session_and_text
from relay.ddl.statements import Kind, Statement
from relay.ddl.syntax import DropSchema, TableName
from relay.schema.apply import keeps_columns
from relay.schema.queries import query
from tests.support.binlogs import Fed, place, record

pytestmark = pytest.mark.every_server

MYSQL, MARIADB = "mysql", "mariadb"


class Case(NamedTuple):
    """Statements run on tables t, u (a INT, b INT) of schema {db}, and the tables that the binlog's are to mention."""

    run: tuple[str, ...]
    mentions: Sequence[str] = ()
    only: str = ""  # the flavor that knows them
    fails: bool = False  # the last of them does, and may be in the binlog all the same
    before: tuple[str, ...] = ()  # run before, and not looked at


DEFINING = {
    "several clauses": Case(("ALTER TABLE t ADD c INT FIRST, DROP b, CHANGE a z BIGINT AFTER c",), ("t",)),
    "another default schema": Case(
        ("USE mysql", "ALTER TABLE {db}.t ADD c INT", "RENAME TABLE {db}.u TO {db}.v", "USE {db}"), ("t", "u", "v")
    ),
    "atomic swap": Case(("RENAME TABLE t TO x, u TO t, x TO u",), ("t", "u", "x")),
    "many dropped": Case(("DROP TABLE t, u",), ("t", "u")),
    "one of many is not there": Case(("DROP TABLE t, x, u",), (), fails=True),
    "with a temporary one": Case(("CREATE TEMPORARY TABLE x (a INT)", "DROP TABLE IF EXISTS x, u"), ("u",)),
    "schema dropped": Case(("DROP DATABASE {db}", "CREATE DATABASE {db}", "USE {db}"), ("t", "u")),
    "character set of a schema": Case(("ALTER DATABASE {db} CHARACTER SET latin1",), ()),
    "character set of a table": Case(("ALTER TABLE t CONVERT TO CHARACTER SET latin1",), ("t",)),
    "like": Case(("CREATE TABLE x LIKE t",), ("x",)),
    "like a temporary one": Case(("CREATE TEMPORARY TABLE v (q INT)", "CREATE TABLE x LIKE v"), ("x",)),
    "filled at once": Case(("CREATE TABLE x SELECT 1 AS a, 2 AS b",), ("x",)),
    "prepared": Case(("PREPARE s FROM 'ALTER TABLE t ADD c INT'", "EXECUTE s"), ("t",)),
    "in a procedure": Case(
        ("CREATE PROCEDURE p() BEGIN /* x */ ALTER TABLE u ADD x INT; DROP TABLE t; END", "CALL p()"), ("t", "u")
    ),
    "locked": Case(("LOCK TABLES t WRITE", "ALTER TABLE t ADD c INT", "UNLOCK TABLES"), ("t",)),
    "executable comments": Case(("/*!50100 ALTER */ TABLE t ADD c INT", "ALTER TABLE u /*!50100 ADD c INT */"), "tu"),
    "comments in front": Case(("/* DROP TABLE u */ -- x\n # y\n ALTER TABLE t ADD c INT",), ("t",)),
    "backticks": Case(("RENAME TABLE t TO `a``b`", "ALTER TABLE `a``b` RENAME `c.d`"), ("t", "a`b", "c.d")),
    "unicode": Case(("RENAME TABLE t TO `it's \"x\"`, u TO `Ünï✓`",), ("t", "it's \"x\"", "u", "Ünï✓")),
    "ansi quotes": Case(("SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" RENAME TO "w x"'), ("t", "w x")),
    "ansi quotes and a backslash": Case(
        ("SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" RENAME TO "a\\"', 'ALTER TABLE "a\\" RENAME TO "b"'),
        ("t", "a\\", "b"),
    ),
    "no escapes": Case(
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "ALTER TABLE t COMMENT '\\', RENAME TO w",
         "ALTER TABLE u COMMENT '\\'"),
        ("t", "w", "u"),
    ),
    "instant": Case(("ALTER TABLE t ADD c INT, ALGORITHM = INSTANT, LOCK = DEFAULT",), ("t",)),
    "temporary in a statement's format": Case(
        ("SET SESSION binlog_format = STATEMENT", "CREATE TEMPORARY TABLE t (z INT)", "ALTER TABLE t ADD y INT",
         "DROP TABLE t"),
        ("t",),
    ),
    "primary key": Case(("ALTER TABLE t ADD PRIMARY KEY (a)", "DROP INDEX `PRIMARY` ON t"), ("t",)),
    "sequence": Case(("CREATE SEQUENCE x", "DROP SEQUENCE x"), ("x",), MARIADB),
    "or replace": Case(("CREATE OR REPLACE TABLE t (x INT)", "CREATE OR REPLACE TABLE u SELECT 1 AS z"), "tu", MARIADB),
    "immediate": Case(("EXECUTE IMMEDIATE 'ALTER TABLE t ADD c INT'",), ("t",), MARIADB),
    "set statement": Case(("SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t ADD c INT",), ("t",), MARIADB),
    "mariadb's comments": Case(("/*M! ALTER */ /*! TABLE t ADD c INT */",), ("t",), MARIADB),
    "online": Case(("ALTER ONLINE TABLE t ADD c INT", "ALTER IGNORE TABLE u ADD c INT"), "tu", MARIADB),
    "two phases": Case(("SET binlog_alter_two_phase = ON", "ALTER TABLE t ADD c INT, ALGORITHM = COPY"), "t", MARIADB),
    "two phases in vain": Case(
        ("SET binlog_alter_two_phase = ON", "INSERT INTO t VALUES (1, 1), (1, 1)", "ALTER TABLE t ADD UNIQUE (a)"),
        ("t",), MARIADB, fails=True,
    ),
    "index": Case(("CREATE INDEX i ON t (a)", "DROP INDEX i ON t"), "t"),
    "versioned": Case(("ALTER TABLE t ADD SYSTEM VERSIONING",), ("t",), MARIADB),
}  # fmt: skip
KEEPING = {
    "truncate": Case(("TRUNCATE t", "TRUNCATE TABLE {db}.u"), "tu"),
    "partitions": Case(
        ("ALTER TABLE x ADD PARTITION (PARTITION q VALUES LESS THAN (99))", "ALTER TABLE x TRUNCATE PARTITION q",
         "ALTER TABLE x EXCHANGE PARTITION p WITH TABLE t", "ALTER TABLE {db}.x DROP PARTITION q"),
        "x", before=("CREATE TABLE x (a INT, b INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9))",),
    ),
}  # fmt: skip
HARMLESS = {
    "view": ("CREATE VIEW v AS SELECT a FROM t", "ALTER VIEW v AS SELECT b FROM t", "DROP VIEW v"),
    "trigger": (
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 'ALTER TABLE u ADD x INT'; END",
        "DROP TRIGGER g",
    ),
    "procedure": ("CREATE PROCEDURE p() BEGIN ALTER TABLE t ADD c INT; DROP TABLE t; END", "DROP PROCEDURE p"),
    "function": ("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "DROP FUNCTION f"),
    "event": (
        # Not now: it would be done, and logged as what it is.
        "CREATE EVENT e ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO ALTER TABLE t ADD z INT",
        "ALTER EVENT e DISABLE", "DROP EVENT e",
    ),
    "administration": ("ANALYZE TABLE t", "OPTIMIZE TABLE t", "REPAIR TABLE t", "CHECK TABLE t", "FLUSH TABLES"),
    "users": (
        "CREATE USER {db}@localhost", "GRANT SELECT ON *.* TO {db}@localhost",
        "RENAME USER {db}@localhost TO {db}2@localhost", "ALTER USER {db}2@localhost ACCOUNT LOCK",
        "DROP USER {db}2@localhost",
    ),
    "temporary": ("CREATE TEMPORARY TABLE t (z INT)", "ALTER TABLE t ADD y INT", "DROP TEMPORARY TABLE t"),
    "xa": ("XA START '{db}'", "INSERT INTO t VALUES (1, 1)", "XA END '{db}'", "XA PREPARE '{db}'", "XA COMMIT '{db}'"),
}  # fmt: skip


@pytest.fixture
def logged(server: DatabaseServer, db: str, tmp_path: Path) -> Callable[[Case], list[Statement]]:
    """Runs a case and gives the statements that the binlog has of it, as they are read."""

    def run(case: Case) -> list[Statement]:
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in (f"DROP DATABASE IF EXISTS {db}", f"CREATE DATABASE {db}", f"USE {db}"):
                cursor.execute(statement)
            cursor.execute("CREATE TABLE t (a INT, b INT)")
            cursor.execute("CREATE TABLE u (a INT, b INT)")
            for statement in case.before:
                cursor.execute(statement)
            start = place(server)
            for number, statement in enumerate(case.run, 1):
                try:
                    cursor.execute(statement.replace("{db}", db))
                except pymysql.MySQLError:
                    assert case.fails and number == len(case.run), statement
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        found: list[Statement] = []

        def answer(asked: Attention) -> bool:
            if asked.asks == "query":
                session, text = session_and_text(asked.body, asked.flags, {})
                found.append(query(text, session, fed.ingest.server, {}).statement)
                fed.ingest.skip()
            return asked.asks == "query"

        fed = Fed(folder, answer=answer)
        fed.begin(start)
        fed.feed(record(server, start))
        return found

    return run


def concerns(statement: Statement, schema: str, table: str) -> bool:
    """Whether the statement is about that table, or may be."""
    return statement.mentioned.may_include(TableName(schema, table)) or any(
        (isinstance(change, DropSchema) and change.schema == schema) or TableName(schema, table) in _tables(change)
        for change in statement.changes
    )


def _tables(syntax: object) -> Iterator[TableName]:
    """All names of tables in a tree."""
    if isinstance(syntax, TableName):
        yield syntax
    elif isinstance(syntax, tuple):
        for part in syntax:
            yield from _tables(part)


def fitting(server: DatabaseServer, cases: dict[str, Case]) -> dict[str, Case]:
    """The cases that the server knows."""
    flavor = MYSQL if server.kind.mysql else MARIADB
    return {name: case for name, case in cases.items() if case.only in ("", flavor)}


def test_what_defines_something_mentions_its_tables(
    server: DatabaseServer, db: str, logged: Callable[[Case], list[Statement]]
) -> None:
    wrong = []
    for name, case in fitting(server, DEFINING).items():
        found = [statement for statement in logged(case) if statement.kind is not Kind.HARMLESS]
        if any(statement.kind is not Kind.DDL or statement.opaque for statement in found):
            wrong.append(f"{name}: {found}")
        unseen = [table for table in case.mentions if not any(concerns(statement, db, table) for statement in found)]
        if unseen or any(concerns(statement, db, "other") for statement in found) > ("schema" in name):
            wrong.append(f"{name}: {unseen} unseen in {found}")
    assert not wrong


def test_what_leaves_columns_as_they_are_is_told_apart(
    server: DatabaseServer, db: str, logged: Callable[[Case], list[Statement]]
) -> None:
    for name, case in KEEPING.items():
        found = logged(case)
        assert len(found) == len(case.run), name
        assert all(statement.kind is Kind.DDL and keeps_columns(statement) for statement in found), f"{name}: {found}"
        assert [table for table in case.mentions if not any(concerns(one, db, table) for one in found)] == []


def test_what_is_no_definition_of_a_table_is_harmless(
    server: DatabaseServer, db: str, logged: Callable[[Case], list[Statement]]
) -> None:
    for name, run in HARMLESS.items():
        found = logged(Case(run))
        assert all(statement.kind is Kind.HARMLESS for statement in found), f"{name}: {found}"
        assert found or name in ("temporary", "xa"), f"{name} is not in the binlog"
