"""Statements that changed only rows that nobody can get are counted and passed over; all others stop the reader."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention
from relay.ddl import Dialect, parse_statement
from relay.ddl.syntax import TableName
from relay.errors import ExitCode, RelayError
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions
from relay.ingest.handler import IngestHandler, Policy
from relay.ingest.left_out import StatementCounts, doubt
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.ingest.unsupported_events import EXECUTE_LOAD_QUERY
from relay.runtime.process_status import PassedOver, StatusPage
from relay.schema.history import History
from relay.schema.store import SCHEMA_FILE, Store
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

HEARTBEATS = {
    "rds_heartbeat2": [
        "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,1496284802000)"
        " ON DUPLICATE KEY UPDATE value = 1496284802000",
        "insert into rds_heartbeat2(id, value) values (1,1700000000000) on duplicate key update value = 1700000000000",
    ],
    "rds_sysinfo": [
        "INSERT INTO mysql.rds_sysinfo(name, value) VALUES ('innodb_txn_key', 'Thu Nov 15 10:30:07 UTC 2012')"
        " ON DUPLICATE KEY UPDATE value = VALUES(value)",
        "DELETE FROM mysql.rds_sysinfo where name = 'innodb_txn_key'",
    ],
    "rds_monitor": ["insert into mysql.rds_monitor(id, value) values (1, 2) on duplicate key update value = value + 1"],
    "ha_health_check": [
        "UPDATE mysql.ha_health_check SET value = 1700000000001 WHERE id = 1",
        "/* rds internal mark */ REPLACE INTO mysql.ha_health_check (id, value) VALUES (1, 1700000000002)",
    ],
    "heartbeat": [
        "INSERT INTO mysql.heartbeat(id, value) VALUES (1, UNIX_TIMESTAMP())"
        " ON DUPLICATE KEY UPDATE value = VALUES(value)",
        "UPDATE mysql.heartbeat SET value = UNIX_TIMESTAMP(NOW()) WHERE id = 1",
    ],
}
"""What providers write into binlogs, by table of the schema mysql."""


def passed_over(reader: Reader) -> dict[str, int]:
    """The numbers on the reader's status page."""
    shown = reader.context.status_page.decode(PassedOver)
    return {f"{each.schema}.{each.table}": each.statements for each in shown.tables}


def test_heartbeats_of_providers_are_counted_and_passed_over(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    for table in HEARTBEATS:
        key = "name VARCHAR(50)" if table == "rds_sysinfo" else "id INT"
        server.execute(f"CREATE TABLE mysql.{table} ({key} PRIMARY KEY, value VARCHAR(50))")
        server.execute(f"INSERT IGNORE INTO mysql.{table} VALUES ('{'innodb_txn_key' if 'name' in key else 1}', 1)")
    running = make_reader(server).streaming()
    for statements in HEARTBEATS.values():
        server.execute("USE mysql", "SET SESSION binlog_format = STATEMENT", *statements)
    server.execute("INSERT INTO d.t VALUES (1)")
    running.until(lambda: running.count() == 1)
    expected = {f"mysql.{table}": len(statements) for table, statements in HEARTBEATS.items()}
    running.until(lambda: passed_over(running) == expected)
    assert running.arena.traffic()["skipped"] == 0
    running.signal(signal.SIGKILL)
    running.start().streaming()
    server.execute("SET SESSION binlog_format = STATEMENT", HEARTBEATS["rds_heartbeat2"][0])
    running.until(lambda: passed_over(running) == expected | {"mysql.rds_heartbeat2": 3})


def test_the_numbers_are_in_stat_and_outlive_the_reader(left97: Left, start_relay: Callable[..., RelayProcess]) -> None:
    relay = start_relay(left97.server, {"Source.Tables": f"{left97.kept}.*"})

    def shown() -> int:
        return sum(each["statements"] for each in relay.stat()["passed_over"]["tables"])

    until(lambda: relay.stat()["source"]["state"] == "streaming", what="the relay does not stream")
    left97.changes("INSERT INTO {out}.t VALUES (2, 2)", "UPDATE {out}.t SET v = v + 1")
    until(lambda: shown() == 2, what="the statements are not in stat")
    os.kill(relay.pids()["reader"], signal.SIGKILL)
    left97.changes("DELETE FROM {out}.t")
    until(lambda: shown() == 3, what="the numbers are lost with the reader")
    text = subprocess.run([*relay.command, "stat", "-c", relay.conf], capture_output=True, check=True, text=True)
    assert f"passed over: {left97.out}.t 3" in " ".join(text.stdout.split())


class Left:
    """A schema that is journaled, and one that is left out, with statements in statement format about them."""

    def __init__(self, server: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> None:
        self.server = server
        self.kept, self.out = make_db(server), make_db(server)
        self.execute(
            "CREATE TABLE {kept}.t (id INT PRIMARY KEY, v INT)", "CREATE TABLE {out}.t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE {out}.u (id INT PRIMARY KEY, v INT)", "INSERT INTO {out}.t VALUES (1, 1)",
            "INSERT INTO {out}.u VALUES (1, 1)",
        )  # fmt: skip

    def execute(self, *statements: str) -> None:
        self.server.execute(*(each.format(kept=self.kept, out=self.out) for each in statements))

    def changes(self, *statements: str) -> None:
        self.execute("SET SESSION binlog_format = STATEMENT", *statements)


@pytest.fixture
def left97(mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> Left:
    return Left(mysql97, make_db)


@pytest.fixture
def left118(mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> Left:
    return Left(mariadb118, make_db)


def test_what_source_leaves_out_may_change_in_any_way(left97: Left, make_reader: Callable[..., Reader]) -> None:
    running = make_reader(left97.server, {"Source.Tables": f"{left97.kept}.*"}).streaming()
    left97.execute(
        "CREATE TRIGGER {out}.x AFTER INSERT ON {out}.t FOR EACH ROW INSERT INTO {out}.u VALUES (NEW.id, 9)",
        "CREATE FUNCTION {out}.f() RETURNS INT DETERMINISTIC RETURN 7",
    )
    left97.changes(
        "INSERT INTO {out}.t VALUES (2, 2)",
        "UPDATE {out}.t a JOIN {out}.u ON a.id = u.id SET a.v = 3, u.v = {out}.f()",
        "DELETE FROM {out}.t, {out}.u USING {out}.t JOIN {out}.u ON t.id = u.id WHERE t.id = 2",
        "WITH c AS (SELECT 1 AS id) UPDATE {out}.t JOIN c USING (id) SET t.v = 5",
        "INSERT INTO {out}.t VALUES (3, 3)",
    )
    left97.execute("INSERT INTO {kept}.t VALUES (1, 1)")
    running.until(lambda: running.count() == 1)
    running.until(lambda: passed_over(running) == {f"{left97.out}.t": 5, f"{left97.out}.u": 2})


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("", "INSERT INTO {kept}.t VALUES (1, 1)"),
        ("", "UPDATE {out}.t JOIN {kept}.t k USING (id) SET t.v = 1"),
        ("", "UPDATE {out}.t, {kept}.t SET {out}.t.v = 1, {kept}.t.v = 2"),
        (
            "CREATE TRIGGER {out}.x AFTER INSERT ON {out}.t FOR EACH ROW INSERT INTO {kept}.t VALUES (NEW.id, 9)",
            "INSERT INTO {out}.t VALUES (2, 2)",
        ),
        (
            "CREATE FUNCTION {out}.f() RETURNS INT DETERMINISTIC"
            " BEGIN INSERT INTO {kept}.t VALUES (8, 8); RETURN 1; END",
            "INSERT INTO {out}.t VALUES (2, {out}.f())",
        ),
        ("CREATE VIEW {out}.w AS SELECT * FROM {kept}.t", "INSERT INTO {out}.w VALUES (2, 2)"),
        (
            "CREATE TABLE {kept}.c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {out}.t (id) ON DELETE CASCADE)",
            "DELETE FROM {out}.t WHERE id = 1",
        ),
    ],
    ids=["a table", "a join that reads one", "a join with one", "a trigger", "a function", "a view", "a foreign key"],
)  # fmt: skip
def test_what_changes_a_selected_table_in_any_way_is_a_fatal_error(
    before: str, statement: str, left97: Left, make_reader: Callable[..., Reader]
) -> None:
    if before:
        left97.execute("SET GLOBAL log_bin_trust_function_creators = ON", before)
    left97.execute("INSERT INTO {kept}.t VALUES (1, 1)" if "UPDATE" in statement else "DO 1")
    running = make_reader(left97.server, {"Source.Tables": f"{left97.kept}.*"}).streaming()
    left97.changes(statement)
    assert running.wait() == ExitCode.STOPPED
    assert running.stop("code") == "statement_format"
    assert passed_over(running) == {}


def test_a_table_left_out_of_a_selected_schema_is_not_certain(left97: Left, make_reader: Callable[..., Reader]) -> None:
    running = make_reader(left97.server, {"Source.ExcludeTables": f"{left97.out}.t"}).streaming()
    left97.changes("INSERT INTO {out}.t VALUES (2, 2)")
    assert running.wait() == ExitCode.STOPPED
    assert f"the source lists the schema {left97.out}, of which" in running.stop("text")


def test_mariadb_does_not_tell_what_a_trigger_changes(left118: Left, make_reader: Callable[..., Reader]) -> None:
    running = make_reader(left118.server, {"Source.Tables": f"{left118.kept}.*"}).streaming()
    left118.changes("INSERT INTO {out}.t VALUES (2, 2)")
    assert running.wait() == ExitCode.STOPPED
    assert f"a trigger of {left118.out}.t may have changed others" in running.stop("text")


def test_load_data_into_a_table_that_is_left_out_is_passed_over_too(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader], tmp_path: Path
) -> None:
    server = own_server(kind, "--local-infile=1")
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE TABLE mysql.h (id INT, v INT)")
    data = tmp_path / "rows"
    data.write_text("".join(f"{number}\n" for number in range(100_000)))  # more than a block
    running = make_reader(server).streaming()

    def load(table: str, more: str = "") -> None:
        with closing(server.connect(local_infile=True, autocommit=True)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = STATEMENT")
            cursor.execute(f"LOAD DATA LOCAL INFILE '{data}' INTO TABLE {table} (id) {more}")

    load("mysql.h")
    load("mysql.h", "SET v = UNIX_TIMESTAMP()")
    server.execute("INSERT INTO d.t VALUES (-1)")
    running.until(lambda: running.count() == 1)
    running.until(lambda: passed_over(running) == {"mysql.h": 2})
    load("d.t")
    assert running.wait() == ExitCode.STOPPED
    assert running.stop("code") == "statement_format"


@pytest.mark.parametrize(
    "body",
    [b"", b"\1\0", b"\0" * 25, bytes(26) + b"\0LOAD", bytes(26) + b"\0LOAD DATA INFILE 'x' INTO TABLE t" + bytes(2000)],
)
def test_a_load_that_cannot_be_read_completely_is_a_fatal_error(body: bytes, tmp_path: Path) -> None:
    def silent(*_: object, **__: object) -> None:
        pass

    fed = Fed(tmp_path)
    start = StreamPosition("binlog.000001", 4)
    fed.begin(start)
    with closing(ReaderState(tmp_path / "state.db")) as reader_state, closing(Store(tmp_path / SCHEMA_FILE)) as store:
        definitions = Definitions(
            reader_state, History(store, lambda *_: None), Rules(), {}, silent, silent,
            assumptions=Assumptions(reader_state, fed.writer, tmp_path, silent), incomplete_types=False,
        )  # fmt: skip
        counts = StatementCounts(silent)
        handler = IngestHandler(fed.ingest, fed.writer, definitions, store, {}, Policy(False, False), counts, silent)

        def answer(asked: Attention) -> bool:
            handler.handle(asked)
            return True

        fed.answer = answer
        with pytest.raises(RelayError, match="LOAD DATA"):
            fed.feed(binlogs.opening(*start) + binlogs.made(EXECUTE_LOAD_QUERY, body, 1000))


MYSQL, MARIADB = Dialect(False, 90704), Dialect(True, 110806)


def doubted(statement: str, updated: list[str] | None, rules: Rules, dialect: Dialect = MYSQL) -> bool:
    return bool(doubt(parse_statement(statement, "app", dialect).targets, updated, rules, TableName))


@pytest.mark.parametrize(
    ("statement", "updated", "certain"),
    [
        ("INSERT INTO out.a VALUES (1)", ["out"], True), ("INSERT INTO out.a VALUES (1)", ["out", "mysql"], True),
        ("INSERT INTO out.a VALUES (1)", ["out", "app"], False), ("INSERT INTO out.a VALUES (1)", [], False),
        ("INSERT INTO out.a VALUES (1)", ["mysql"], False), ("INSERT INTO out.a VALUES (1)", None, False),
        ("INSERT INTO app.hidden VALUES (1)", ["app"], False), ("INSERT INTO mysql.a VALUES (1)", ["mysql"], True),
        ("INSERT INTO sys.a VALUES (1)", ["sys"], True), ("INSERT INTO sys.a VALUES (1)", None, False),
        ("INSERT INTO mysql.a VALUES (1)", None, True), ("INSERT INTO mysql.a VALUES (f())", None, False),
        ("INSERT INTO mysql.a VALUES (f())", ["mysql"], True), ("INSERT INTO MYSQL.a VALUES (1)", None, False),
        ("UPDATE mysql.a, out.b SET a.v = 1", None, True), ("UPDATE mysql.a, out.b SET v = 1", None, False),
        ("UPDATE mysql.a, app.b SET v = 1", ["mysql"], False), ("SELECT f()", ["mysql"], False),
        ("INSERT INTO gone.a VALUES (1)", ["gone"], True), ("INSERT INTO half.a VALUES (1)", ["half"], False),
    ],
)  # fmt: skip
def test_only_what_is_certain_is_passed_over(statement: str, updated: list[str] | None, certain: bool) -> None:
    rules = Rules(("app.*", "gone.*", "half.*"), ("app.hidden", "go*.*", "half.a"))
    assert doubted(statement, updated, rules) != certain


def test_with_all_tables_selected_only_the_server_s_own_schemas_are_passed_over() -> None:
    assert doubted("INSERT INTO app.a VALUES (1)", ["app"], Rules())
    assert not doubted("INSERT INTO mysql.a VALUES (1)", ["mysql"], Rules())


def test_each_table_is_logged_once_and_those_that_do_not_fit_are_a_sum() -> None:
    logged: list[object] = []
    page = StatusPage(4096)
    for _ in range(2):  # the second process continues
        counts = StatementCounts(lambda event, **fields: logged.append((event, fields["table"])), page)
        for number in range(200):
            for _ in range(1 + (number < 5)):
                counts.add([TableName("s", f"table{number}")], "f:4")
        counts.show()
    shown = page.decode(PassedOver)
    assert [(each.table, each.statements) for each in shown.tables[:5]] == [(f"table{n}", 4) for n in range(5)]
    assert sum(each.statements for each in shown.tables) + shown.others == 2 * 205
    assert logged.count(("statement_passed_over", TableName("s", "table0"))) == 1
    assert len(shown.tables) < 200
