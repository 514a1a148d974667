"""Column names without FULL metadata, through a whole relay: the value of each column is its name."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pymysql
import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient, Row
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.server_variables import global_variable
from tests.support.waiting import patience, until

pytestmark = pytest.mark.brands

Start = Callable[..., RelayProcess]
ROUNDS = 12
ENOUGH = 2 * ROUNDS  # rows, however fast the server is with its statements
FORMS = {
    "rename": (["RENAME COLUMN a TO x"], ["RENAME COLUMN x TO a"]),
    "swap": (["RENAME COLUMN a TO b, RENAME COLUMN b TO a"],),
    "swap in three steps": (["RENAME COLUMN a TO x", "RENAME COLUMN b TO a", "RENAME COLUMN x TO b"],),
    "modify after": (["MODIFY a VARCHAR(20) AFTER b"], ["MODIFY a VARCHAR(20) AFTER id"]),
}


@pytest.fixture(params=["at once", "late"])
def syncing(request: pytest.FixtureRequest, server: DatabaseServer) -> Iterator[str]:
    """When the server makes visible what stands in its binlog already: at once, or late."""
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    late = (
        {"binlog_group_commit_sync_delay": "200000"}
        if server.kind.mysql
        else {"binlog_commit_wait_count": "10", "binlog_commit_wait_usec": "200000"}
    )
    with ExitStack() as stack:
        for name, value in late.items() if request.param == "late" else ():
            stack.enter_context(global_variable(server, name, value))
        yield request.param


class Writers:
    """Some connections that write rows into `t` all the time, each value the name of its column."""

    def __init__(self, server: DatabaseServer, db: str) -> None:
        self._server, self._db = server, db
        self.written = 0
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(names,)) for names in ("ab", "ab", "xb", "ax")]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _write(self, names: str) -> None:
        columns, values = ", ".join(names), ", ".join(f"'{name}'" for name in names)
        with self._server.connect() as connection, connection.cursor() as cursor:
            while not self._stopping.is_set():
                with suppress(pymysql.err.OperationalError):  # there is no such column now
                    cursor.execute(f"INSERT INTO {self._db}.t ({columns}) VALUES ({values})")
                    connection.commit()
                    self.written += 1


@pytest.mark.parametrize("form", FORMS)
def test_rows_right_behind_a_statement_have_the_names_of_their_moment(
    server: DatabaseServer, db: str, start_relay: Start, syncing: str, form: str
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20))")
    server.execute(f"CREATE TABLE {db}.last (id INT)")
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "names", SECRET) as client:
        client.add_filter(db, "*", kinds="I")
        with Writers(server, db) as writers, server.connect() as connection, connection.cursor() as cursor:
            rounds = itertools.cycle(FORMS[form])
            done = 0

            def enough() -> bool:
                nonlocal done
                for statement in next(rounds):
                    cursor.execute(f"ALTER TABLE {db}.t {statement}")
                done += 1
                return done >= ROUNDS and writers.written >= ENOUGH

            until(enough, 60, "the writers wrote next to nothing", 0)
        server.execute(f"INSERT INTO {db}.last VALUES (1)")
        rows: list[Row] = []

        def all_came() -> bool:
            rows.extend(client.poll_many(wait=1))
            return bool(rows) and rows[-1].table == "last"

        until(all_came, 60, lambda: f"{len(rows)} rows came, {relay.stat()['source']}, {relay.stat()['stop']}", 0)
    rows.pop()
    wrong = [row.after for row in rows if not _is_true(row)]
    assert not wrong, f"{len(wrong)} of {len(rows)} rows have names of another moment, the first {wrong[:3]}"
    assert len(rows) >= ENOUGH, "the writers wrote next to nothing"
    assert relay.stat()["state"] == "running", relay.stat()["stop"]


def _is_true(row: Row) -> bool:
    assert row.after is not None
    return all(value in (None, name) for name, value in row.after.items() if name != "id")


@pytest.mark.parametrize("statement", ["", "ADD COLUMN c INT", "RENAME COLUMN v TO w", "ADD INDEX (v)"])
def test_the_first_row_of_a_table_and_behind_a_statement_waits_for_no_answer_of_the_source(
    server: DatabaseServer, db: str, start_relay: Start, statement: str
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    relay = start_relay(server)
    until(lambda: relay.stat()["source"]["state"] == "streaming")  # it has asked what it asks first
    before = _asked_for_definitions(server)
    with RelayClient("127.0.0.1", relay.port, "waits", SECRET) as client:
        client.add_filter(db, "*")
        for number in range(3):
            table = f"{db}.t{number}"
            insert = f"INSERT INTO {table} () VALUES ()"
            server.execute(f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, v INT)", insert)
            assert client.poll(wait=patience(20)) is not None
            if statement:
                server.execute(f"ALTER TABLE {table} {statement}", insert)
                assert client.poll(wait=patience(20)) is not None
    assert _asked_for_definitions(server) == before


def _asked_for_definitions(server: DatabaseServer) -> int:
    """How often the server was asked for a table's definition so far."""
    [(_, count)] = server.execute("SHOW GLOBAL STATUS LIKE 'Com_show_create_table'")
    return int(count)


def test_a_definition_that_the_binlog_does_not_have_is_asked_for_and_never_guessed(
    server: DatabaseServer, db: str, start_relay: Start
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    server.execute(f"CREATE TABLE {db}.t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20))")
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "asks", SECRET) as client:
        client.add_filter(db, "t")
        server.execute(f"INSERT INTO {db}.t (a, b) VALUES ('a', 'b')")
        until(lambda: relay.stat()["journal"]["committed"], what="nothing came")
        asked = _asked_for_definitions(server)
        server.execute(
            "SET sql_log_bin = 0", f"ALTER TABLE {db}.t ADD c VARCHAR(20) FIRST", "SET sql_log_bin = 1",
            f"INSERT INTO {db}.t (a, b, c) VALUES ('a', 'b', 'c')",
        )  # fmt: skip
        rows = [
            row.after for row in (client.poll(wait=patience(20)), client.poll(wait=patience(20))) if row is not None
        ]
    assert rows == [{"id": 1, "a": "a", "b": "b"}, {"c": "c", "id": 2, "a": "a", "b": "b"}]
    assert "schema_contradicted" in relay.stderr.read_text()
    assert _asked_for_definitions(server) > asked
