"""The tables that a statement changes are read from it: all of them, or the statement is uncertain."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from examples.dbserver import DatabaseServer
from relay.ddl import Dialect, SqlMode, parse_statement
from relay.ddl.targets import Targets
from tests.support import binlogs
from tests.support.binlogs import Fed
from tests.support.journal_rows import journaled

MYSQL, MARIADB = Dialect(False, 90704), Dialect(True, 110806)

CHANGED = {
    "INSERT INTO t (id, v) VALUES (10, 1)": "d.t",
    "insert d.t set id = 11": "d.t",
    "INSERT LOW_PRIORITY IGNORE INTO `d`.`t` (id) SELECT id + 20 FROM u": "d.t",
    "/* a comment: UPDATE u */ INSERT INTO t (id) VALUES (12) -- DELETE FROM u": "d.t",
    "INSERT INTO .t (id) VALUES (13)": "d.t",
    "INSERT INTO t (id) (SELECT id + 30 FROM u) ON DUPLICATE KEY UPDATE v = VALUES(v) + 1": "d.t",
    "REPLACE INTO e.w (id, v) VALUES (1, 5)": "e.w",
    "REPLACE LOW_PRIORITY t VALUES (14, 1, 'x')": "d.t",
    "UPDATE t SET v = v + 1": "d.t",
    "UPDATE IGNORE t AS a FORCE INDEX (PRIMARY) SET a.v = a.v + 1, s = LEFT('ab', 1) WHERE id > 0 ORDER BY id LIMIT 9":
        "d.t",
    "UPDATE t, u SET t.v = t.v + 1 WHERE t.id = u.id": "d.t",
    "UPDATE t, u SET t.v = u.v + 1, u.v = t.v + 7 WHERE t.id = u.id": "d.t d.u",
    "UPDATE t a JOIN e.w b ON a.id = b.id AND a.s = RIGHT('x', 1) OR 1 SET b.v = b.v + 1": "e.w",
    "UPDATE t LEFT JOIN (u CROSS JOIN e.w) ON t.id = u.id SET t.v = t.v + 1, w.v = w.v + 1": "d.t e.w",
    "UPDATE (t JOIN u USING (id)) JOIN (SELECT 1 AS one) q ON q.one SET u.v = u.v + one": "d.u",
    "UPDATE d.t NATURAL JOIN (SELECT 1 AS id) AS q SET d.t.v = t.v + 1": "d.t",
    "UPDATE t INNER JOIN u ON t.id = u.id JOIN (SELECT 1 AS one) q SET only_u = only_u + 1": "d.t d.u",
    "UPDATE t JOIN e.w ON t.id = w.id SET t.v = (SELECT MAX(v) FROM u WHERE u.id IN (1, 2)) + t.v, w.v = 9": "d.t e.w",
    "DELETE FROM t WHERE id = 10": "d.t",
    "DELETE QUICK IGNORE FROM e.w WHERE v = 9 LIMIT 1": "e.w",
    "DELETE t FROM t JOIN u ON t.id = u.id + 11": "d.t",
    "DELETE a, e.w FROM t AS a, e.w WHERE a.id = w.id + 11": "d.t e.w",
    "DELETE FROM t.*, e.w.* USING t JOIN e.w ON t.id = w.id + 12": "d.t e.w",
    "DELETE LOW_PRIORITY a.* FROM t AS a WHERE a.id > 15": "d.t",
}  # fmt: skip
"""Statements, and the tables that they may change, in schema d. Those that run change at least one of them."""

ONLY_READ = {
    "WITH c AS (SELECT 1 AS id), q (id) AS (SELECT 2) UPDATE t JOIN c USING (id) SET t.v = 1": "d.t",
    "WITH RECURSIVE c AS (SELECT 1 AS id) DELETE t FROM t JOIN c ON t.id = c.id": "d.t",
    "WITH u AS (SELECT 1 AS id) UPDATE t JOIN d.u SET t.v = 1, u.v = 2": "d.t d.u",
    "UPDATE t PARTITION (p0, p1) SET v = 1": "d.t",
    "UPDATE t JOIN JSON_TABLE('[1]', '$[*]' COLUMNS (id INT PATH '$')) AS j ON j.id = t.id SET v = 1": "d.t",
    "LOAD DATA LOCAL INFILE '/tmp/SQL_LOAD_MB-1-0' REPLACE INTO TABLE `t` FIELDS TERMINATED BY ',' (`a`)": "d.t",
    "LOAD XML INFILE 'into table x' INTO TABLE e.t": "e.t",
    "/*!50003 INSERT */ INTO t VALUES (1)": "d.t",
}

UNCERTAIN = [
    "CALL p()", "SELECT f()", "DO f()", "UPDATE t SET", "UPDATE t FOR PORTION OF p FROM 1 TO 2 SET v = 1",
    "UPDATE t JOIN (SELECT 1 AS v) q SET q.v = 1", "UPDATE t SET x.v = 1", "UPDATE t, u SET a.b.c.d = 1",
    "DELETE x FROM t", "DELETE FROM t, u", "DELETE t", "WITH c AS (SELECT 1) SELECT * FROM c", "WITH c AS UPDATE t",
    "UPDATE { OJ t LEFT JOIN u ON 1 } SET t.v = 1", "LOAD DATA INFILE 'x'", "INSERT INTO", "INSERT INTO 'x' VALUES (1)",
    "WITH c AS (SELECT 1) UPDATE t JOIN c SET c.v = 1", "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)'",
]  # fmt: skip


def targets(statement: str, dialect: Dialect = MYSQL, schema: str = "d") -> Targets | None:
    return parse_statement(statement, schema, dialect).targets


@pytest.mark.parametrize("dialect", [MYSQL, MARIADB])
@pytest.mark.parametrize(("statement", "changed"), [*CHANGED.items(), *ONLY_READ.items()])
def test_the_tables_are_those_that_the_statement_may_change(statement: str, changed: str, dialect: Dialect) -> None:
    found = targets(statement, dialect)
    assert found is not None
    assert sorted(map(str, found.tables)) == changed.split()


@pytest.mark.parametrize("statement", UNCERTAIN)
def test_what_is_not_certain_has_no_tables(statement: str) -> None:
    assert targets(statement, MARIADB) is None


def test_without_a_default_schema_a_table_needs_one() -> None:
    assert targets("INSERT INTO t VALUES (1)", schema="") is None
    assert targets("UPDATE a.t SET v = 1", schema="") is not None
    assert targets("DELETE FROM t", schema="") is None


def test_a_statement_for_one_statement_s_settings_is_about_the_tables_of_that_one() -> None:
    found = targets("SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)", MARIADB)
    assert found is not None and [*map(str, found.tables)] == ["d.t"]


@pytest.mark.parametrize("statement", [*CHANGED, "INSERT INTO t (id) VALUES (NOW()), (UNIX_TIMESTAMP())"])
def test_functions_of_the_server_are_no_calls(statement: str) -> None:
    found = targets(statement.replace("LEFT(", "UPPER(").replace("RIGHT(", "LOWER(").replace("MAX(", "ABS("))
    assert found is not None and found.call == ""


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("INSERT INTO t VALUES (f(1))", "f"), ("INSERT INTO t (id) VALUES (e.now())", "now"),
        ("UPDATE t SET v = `abs`(1)", "abs"), ("DELETE FROM t WHERE f(id)", "f"),
        ("WITH c AS (SELECT f()) UPDATE t JOIN c ON 1 SET t.v = 1", "f"), ("REPLACE t SELECT NEXTVAL(s)", "NEXTVAL"),
        ("INSERT INTO t VALUES (NEXT VALUE FOR s)", "NEXT"), ("REPLACE t VALUES (PREVIOUS VALUE FOR s)", "PREVIOUS"),
        ("LOAD DATA INFILE 'x' INTO TABLE t (@a) SET v = f(@a)", "f"), ("REPLACE INTO t (SELECT f ())", "f"),
    ],
)  # fmt: skip
def test_a_name_that_may_be_a_stored_function_is_reported(statement: str, call: str) -> None:
    found = targets(statement, MARIADB)
    assert found is not None and found.call == call


def test_in_oracle_mode_any_name_may_be_a_call() -> None:
    oracle = MARIADB.__class__(True, 110806, sql_mode=int(SqlMode.ORACLE))
    found = targets("INSERT INTO t VALUES (s.nextval)", oracle)
    assert found is not None and found.call


def test_servers_change_no_other_tables(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    other = f"{db}_e"
    version = server.execute("SELECT VERSION()")[0][0]
    dialect = MARIADB if "MariaDB" in version else MYSQL
    ran = 0
    with closing(server.connect(database=db, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {other}")
        try:
            for table in (f"{db}.t", f"{other}.w"):
                cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT DEFAULT 0, s CHAR(9) DEFAULT 'x')")
            cursor.execute("CREATE TABLE u (id INT PRIMARY KEY, v INT, only_u INT DEFAULT 0)")
            for number, (statement, changed) in enumerate(CHANGED.items()):
                for table in ("t", "u", f"{other}.w"):
                    cursor.execute(f"REPLACE INTO {table} (id, v) VALUES (1, 0), (2, 0)")
                start = binlogs.place(server)
                sql = statement.replace("d.", f"{db}.").replace("`d`", db).replace("e.w", f"{other}.w")
                try:
                    cursor.execute(sql)
                except pymysql.err.ProgrammingError:
                    continue  # the syntax of the other server
                fed = Fed(tmp_path / str(number))
                fed.begin(start)
                fed.feed(binlogs.record(server, start))
                seen = {f"{frame.table.schema}.{frame.table.table}" for frame in journaled(fed)}
                found = targets(sql, dialect, db)
                assert found is not None
                assert seen <= {*map(str, found.tables)}, sql
                assert len(changed.split()) == len(found.tables), sql
                ran += bool(seen)
        finally:
            cursor.execute(f"DROP DATABASE {other}")
    assert ran > len(CHANGED) * 3 // 4
