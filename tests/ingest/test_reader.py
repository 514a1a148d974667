"""The reader process on real servers: what it journals, how it resumes, and its fatal errors."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress

import pymysql
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.errors import ExitCode
from relay.journal.frames import Commit, Gap, Rows, Source
from tests.support.purging import purge
from tests.support.reader_process import Reader


def test_rows_stand_where_the_source_says(server: DatabaseServer, db: str, make_reader: Callable[..., Reader]) -> None:
    running = make_reader(server).streaming()
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    server.execute("BEGIN", *[f"INSERT INTO {db}.t VALUES ({n})" for n in range(3)], "COMMIT")
    running.until(lambda: running.count() == 3)
    journaled = [frame.end_position for frame in running.frames() if isinstance(frame, Rows)]
    file = running.arena.source()["file"]
    listed = server.execute(f"SHOW BINLOG EVENTS IN '{file}'")
    # MariaDB 11.8 writes 0 for the ends within a transaction: an event ends where the next one begins.
    starts = [row[1] for row in listed[1:]] + [None]
    ends = [start for (_, _, kind, *_), start in zip(listed, starts, strict=True) if kind.startswith("Write_rows")]
    assert journaled == ends[-3:]


def test_nothing_is_lost_or_repeated_by_kills_and_restarts(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(200))")
    running = make_reader(server).streaming()
    for round_ in range(8):
        server.execute(*[f"INSERT INTO {db}.t (a) VALUES ('{'x' * 100}'), ('{round_}')"] * 20)
        running.signal(signal.SIGKILL if round_ % 2 else signal.SIGTERM)
        running = make_reader(server)
    running.until(lambda: running.count() >= 320)
    assert running.count() == 320
    sequences = [frame.sequence for frame in running.frames() if isinstance(frame, Rows)]
    assert sequences == list(range(1, 321, 2))


def test_a_server_that_restarts_is_connected_to_again(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    running = make_reader(server).streaming()
    server.execute("INSERT INTO d.t VALUES (1)")
    # What is prepared outlives crashes of the source and of the reader.
    for name in "abc":
        values = f"INSERT INTO d.t VALUES ({ord(name)})"
        server.execute(f"XA START '{name}'", values, f"XA END '{name}'", f"XA PREPARE '{name}'")
    server.kill()
    server.start()
    server.execute("XA COMMIT 'b'", "INSERT INTO d.t VALUES (2)")
    running.until(lambda: running.count() == 3, seconds=40)
    running.signal(signal.SIGKILL)
    running = make_reader(server).streaming()
    server.restart()
    server.execute("XA ROLLBACK 'a'", "XA COMMIT 'c'", "INSERT INTO d.t VALUES (3)")
    running.until(lambda: running.count() == 5, seconds=40)


@pytest.mark.usefixtures("young_binlog")
@pytest.mark.parametrize("wanted", ["oldest", "place", "gtid"])
def test_the_first_start_begins_where_it_is_told(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader], wanted: str
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    mysql = server.name == "mysql97"
    status = server.execute("SHOW BINARY LOG STATUS" if mysql else "SHOW MASTER STATUS")[0]
    gtids = status[4] if mysql else server.execute("SELECT @@gtid_binlog_pos")[0][0]
    server.execute(f"INSERT INTO {db}.t VALUES (2)")
    start = {"oldest": "oldest", "place": f"{status[0]}:{status[1]}", "gtid": gtids.replace("\n", "")}[wanted]
    running = make_reader(server, {"Source.StartPosition": start, "Source.Tables": f"{db}.*"}).streaming()
    expected = 2 if wanted == "oldest" else 1
    running.until(lambda: running.count() == expected)


def test_a_drain_ends_at_a_transactions_end(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    running = make_reader(server).streaming()
    server.execute(f"INSERT INTO {db}.t VALUES (1)")
    running.until(lambda: running.count() == 1)
    running.arena.draining = True
    assert running.wait() == 0
    assert running.arena.flushed == running.arena.committed


def test_a_purged_binlog_is_a_named_stop_and_a_gap_that_can_be_accepted(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    running = make_reader(server).streaming()
    assert running.signal(signal.SIGTERM) == 0
    server.execute("INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (2)")
    purge(server)
    server.execute("INSERT INTO d.t VALUES (3)")
    stopped = make_reader(server)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "binlog_purged"
    running = make_reader(server, accept_gap=True)
    running.until(lambda: running.count() == 1)
    assert any(isinstance(frame, Gap) for frame in running.frames())
    running.signal(signal.SIGTERM)
    running = make_reader(server, accept_gap=True).streaming()
    server.execute("INSERT INTO d.t VALUES (4)")
    running.until(lambda: running.count() == 2)
    assert sum(isinstance(frame, Gap) for frame in running.frames()) == 1


def test_another_server_is_refused_where_gtids_do_not_lead_there(
    mariadb118: DatabaseServer, mysql97: DatabaseServer, make_reader: Callable[..., Reader]
) -> None:
    running = make_reader(mariadb118).streaming()
    running.signal(signal.SIGTERM)
    stopped = make_reader(mysql97)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "wrong_source"


def test_a_wrong_password_ends_it_with_a_hint(mariadb118: DatabaseServer, make_reader: Callable[..., Reader]) -> None:
    stopped = make_reader(mariadb118, {"Server.Password": "wrong"})
    assert stopped.wait() == ExitCode.SOURCE
    assert stopped.stop("code") == "source_denied"
    assert "Password" in stopped.stop("hint")


def test_data_changed_by_a_statement_stops_or_is_skipped_by_name(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    make_reader(server).streaming().signal(signal.SIGTERM)
    server.execute("SET SESSION binlog_format = STATEMENT", f"INSERT INTO {db}.t VALUES (1)")
    stopped = make_reader(server)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "statement_format"
    assert "`OnUnknown = skip`" in stopped.stop("hint") and "nobody gets the rows" in stopped.stop("hint")
    running = make_reader(server, {"Relay.OnUnknown": "skip"}).streaming()
    server.execute(f"INSERT INTO {db}.t VALUES (2)")
    running.until(lambda: running.count() == 1)
    assert running.arena.traffic()["skipped"] == 1


def test_a_row_without_all_its_columns_stops_or_is_sent(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a INT, b INT)", f"INSERT INTO {db}.t VALUES (1, 1, 1)")
    make_reader(server).streaming().signal(signal.SIGTERM)
    server.execute("SET SESSION binlog_row_image = MINIMAL", f"UPDATE {db}.t SET a = 2")
    stopped = make_reader(server)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "partial_image"
    running = make_reader(server, {"Relay.OnPartialImage": "send"}).streaming()
    running.until(lambda: running.count() == 1)


@pytest.mark.usefixtures("full_metadata")
def test_excluded_tables_and_columns_are_never_written(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT, secret TEXT, a INT)", f"CREATE TABLE {db}.hidden (id INT)")
    excluded = {"Source.ExcludeTables": "*.hidden", "Source.ExcludeColumns": "*.*.secret"}
    running = make_reader(server, excluded).streaming()
    server.execute(f"INSERT INTO {db}.hidden VALUES (1)", f"INSERT INTO {db}.t VALUES (1, 'do not keep this', 2)")
    running.until(lambda: running.count() == 1)
    assert running.rows() == [("id,a", 1)]
    assert running.count("hidden") == 0
    assert not any(b"do not keep this" in file.read_bytes() for file in running.journal_dir.iterdir())


def test_the_journal_forgets_what_nobody_needs(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_reader: Callable[..., Reader]
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
    limits = {"Relay.JournalKeepBytes": "1MiB", "Relay.JournalKeepAge": "0s", "Relay.JournalMaxBytes": "6MiB"}
    running = make_reader(mariadb118, limits).streaming()
    for _ in range(4):
        mariadb118.execute(f"INSERT INTO {db}.t (a) VALUES (REPEAT('x', 900000))")
    running.until(lambda: running.arena.flushed == running.arena.committed > 3_000_000)
    assert running.arena.first == 0  # the broker has not said yet what it needs
    running.arena.needed = running.arena.committed
    running.until(lambda: running.arena.first > 0)
    running.until(lambda: len(list(running.journal_dir.glob("*.seg"))) <= 2)
    running.arena.needed = held = running.arena.first
    for _ in range(8):
        mariadb118.execute(f"INSERT INTO {db}.t (a) VALUES (REPEAT('x', 900000))")
    running.until(lambda: running.arena.cut_request > held)
    assert running.arena.first == held


def test_the_source_and_the_counts_are_reported(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    running = make_reader(server).streaming()
    server.execute(f"INSERT INTO {db}.t VALUES (1), (2)", f"DELETE FROM {db}.t")
    running.until(lambda: running.arena.rows()["delete"] == 2)
    assert running.arena.rows()["insert"] == 2
    running.until(lambda: running.arena.sequence == 5)
    about = running.arena.source()
    commits = [frame for frame in running.frames() if isinstance(frame, Commit)]
    assert about["position"] == commits[-1].position
    assert commits[-1].gtid.split("-")[-1].split(":")[-1] in about["gtid_set"]
    sources = [frame for frame in running.frames() if isinstance(frame, Source)]
    assert sources[-1].identity.startswith("mysql:" if server.name == "mysql97" else "mariadb:")


def test_rows_that_wait_for_their_names_outlive_a_reconnect(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"CREATE TABLE {db}.u (id INT PRIMARY KEY)")
    running = make_reader(server).streaming()
    writing = server.connect()
    with writing.cursor() as cursor:
        for number in range(60):
            cursor.execute(f"INSERT INTO {db}.t VALUES ({number})")
            cursor.execute(f"INSERT INTO {db}.u VALUES ({number})")
            if number % 20 == 10:
                cursor.execute("SHOW PROCESSLIST")
                for row in cursor.fetchall():
                    if "Binlog Dump" in str(row[4]):
                        with suppress(pymysql.err.OperationalError):  # one that has ended meanwhile
                            cursor.execute(f"KILL {row[0]}")
    writing.close()
    running.until(lambda: running.count("t") == 60 and running.count("u") == 60)
    assert {names for names, _ in running.rows("t")} == {"id"}


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_source_that_falls_silent_is_connected_to_again(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    running = make_reader(server, {"Source.Heartbeat": "1s"}).streaming()
    os.kill(server.pid, signal.SIGSTOP)
    running.until(lambda: running.arena.source_state == "reconnecting")
    os.kill(server.pid, signal.SIGCONT)
    running.until(lambda: running.arena.source_state == "streaming", seconds=60)
    server.execute("INSERT INTO d.t VALUES (1)")
    running.until(lambda: running.count() == 1)


def test_a_source_that_lost_what_it_sent_is_a_named_stop(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    running = make_reader(server, {"Source.StartPosition": "oldest"}).streaming()
    server.execute("INSERT INTO d.t VALUES (1)")
    running.until(lambda: running.count() == 1)
    running.signal(signal.SIGTERM)
    server.execute("RESET BINARY LOGS AND GTIDS" if kind == "mysql97" else "RESET MASTER")
    with closing(sqlite3.connect(running.context.data_dir / "state.db")) as state, state:
        state.execute("DELETE FROM source WHERE key = 'mark'")  # as of a release that kept none
    server.execute("INSERT INTO d.t VALUES " + ", ".join(f"({n})" for n in range(10, 500)))  # as far, and fewer GTIDs
    stopped = make_reader(server)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "gtid_gap"
    running = make_reader(server, accept_gap=True).streaming()
    server.execute("INSERT INTO d.t VALUES (2)")
    running.until(lambda: running.count() == 2)


@pytest.mark.parametrize("wrong", ["password", "host", "server"])
def test_an_account_for_schema_queries_that_does_not_serve_holds_nothing_up(
    server: DatabaseServer,
    db: str,
    make_reader: Callable[..., Reader],
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    wrong: str,
) -> None:
    """As in the original's file: root at localhost, which it reaches by a socket."""
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    account = {"MySQL.Host": "localhost", "MySQL.Login": "root", "MySQL.Password": "mypassword"}
    if wrong == "host":
        account["MySQL.Port"] = str(free_port())
    if wrong == "server":
        other = request.getfixturevalue("mariadb118" if server.name == "mysql97" else "mysql97")
        account |= {"MySQL.Port": str(other.port), "MySQL.Login": USER, "MySQL.Password": PASSWORD}
    running = make_reader(server, account).streaming()
    server.execute(f"INSERT INTO {db}.t VALUES (1)")
    running.until(lambda: running.rows() == [("id", 1)])
    assert "schema_account_unusable" in "".join(capfd.readouterr())
