"""Column names without FULL metadata in special cases: another source, RESET, temporary tables, XA."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.client import RelayClient
from relay.errors import ExitCode
from tests.support.lagging_reader import Delivered, delivered, write
from tests.support.reader_process import Reader
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.replicating_pair import HOSTS, executed, pair_of
from tests.support.waiting import patience, until

pytestmark = pytest.mark.brands

Read = Callable[..., Reader]
Own = Callable[..., DatabaseServer]
SWAP = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
RESET = {"mysql97": "RESET BINARY LOGS AND GTIDS", "mariadb118": "RESET MASTER"}
BOTH = pytest.mark.parametrize("kind", ["mysql97", "mariadb118"])


def rows_of(reader: Reader, count: int, seconds: float = 30) -> list[Delivered]:
    """All rows, once there are so many."""

    def found() -> list[Delivered]:
        return delivered(reader.journal_dir, reader.arena.committed) if reader.arena.committed else []

    reader.until(lambda: len(found()) >= count, seconds)
    return found()


def play(cursor: Cursor, db: str, *statements: str) -> None:
    """Statements, with a row of `t` behind each."""
    for statement in statements:
        cursor.execute(statement)
        write(cursor, db, "t")


def assert_true(rows: list[Delivered], *names: str) -> None:
    assert [row.names for row in rows] == list(names)
    assert all(row.true and row.proven for row in rows), rows


@BOTH
def test_the_first_rows_of_another_source_have_its_names(kind: str, make_reader: Read) -> None:
    """The second one swaps columns before the first one dies, and again right before the relay comes."""
    with pair_of(kind) as (first, second):
        for each in (first, second):
            each.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
        first.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT, b INT)")
        reader = make_reader(first, {"Server.IPAddr": ", ".join(HOSTS), "Source.Heartbeat": "1s"}).streaming()
        with first.connect(database="d") as connection, connection.cursor() as cursor:
            play(cursor, "d", "DO 0", SWAP)
        rows_of(reader, 2)
        sent = executed(first)
        until(lambda: sent.issubset(executed(second)), 30, "the replica does not follow")
        first.kill()
        reader.until(lambda: reader.arena.source_state == "reconnecting")
        second.execute("STOP REPLICA" if first.kind.mysql else "STOP SLAVE")
        with second.connect(database="d") as connection, connection.cursor() as cursor:
            play(cursor, "d", "DO 0", SWAP)
            rows_of(reader, 4, seconds=60)
            play(cursor, "d", "DO 0", SWAP, "ALTER TABLE t MODIFY a INT FIRST", SWAP)
        rows = rows_of(reader, 8)
    # Of what the second one wrote before it was asked nobody knows the definition across a statement.
    assert all(row.true for row in rows), rows
    assert_true([*rows[:2], *rows[4:]], "a,b", "b,a", "a,b", "b,a", "a,b", "b,a")


@BOTH
def test_rows_after_a_reset_have_no_name_of_the_places_before_it(kind: str, own_server: Own, make_reader: Read) -> None:
    """The same places come again, with other columns."""
    server = own_server(kind)
    server.execute("CREATE DATABASE d", RESET[kind], "CREATE TABLE d.t (a INT, b INT)")
    reader = make_reader(server, {"Source.StartPosition": "oldest"}).streaming()
    with server.connect(database="d") as connection, connection.cursor() as cursor:
        play(cursor, "d", "DO 0", SWAP, "DO 0")
        assert_true(rows_of(reader, 3), "a,b", "b,a", "b,a")
        reader.signal(signal.SIGTERM)
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(SWAP)
        cursor.execute("SET sql_log_bin = 1")
        cursor.execute(RESET[kind])
        stopped = make_reader(server)
        assert stopped.wait() == ExitCode.STOPPED
        reader = make_reader(server, accept_gap=True).streaming()
        play(cursor, "d", "DO 0", SWAP, "DO 0")
        assert_true(rows_of(reader, 6)[3:], "a,b", "b,a", "b,a")


@pytest.mark.parametrize("form", ["MIXED", "STATEMENT"])
def test_a_temporary_table_lends_no_name_to_the_one_that_it_hides(
    server: DatabaseServer, db: str, make_reader: Read, form: str
) -> None:
    """The statements about it stand in the binlog, where the server logs them, without a word that it is temporary."""
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT", f"CREATE TABLE {db}.t (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    with (
        server.connect(database=db) as hiding, hiding.cursor() as hidden,
        server.connect(database=db) as connection, connection.cursor() as cursor,
    ):  # fmt: skip
        play(cursor, db, "DO 0")
        for statement in (
            f"SET SESSION binlog_format = {form}", "CREATE TEMPORARY TABLE t (a INT, b INT)",
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "ALTER TABLE t ADD c INT FIRST",
            "ALTER TABLE t RENAME other", "CREATE TEMPORARY TABLE t (b INT, a INT)", "TRUNCATE t",
        ):  # fmt: skip
            hidden.execute(statement)
            play(cursor, db, "DO 0")
        hidden.execute("DROP TEMPORARY TABLE t, other")
        play(cursor, db, "DO 0", SWAP, "DO 0")
    rows = rows_of(reader, 11)
    # What may be about the other table leaves no certainty, but never a wrong name.
    assert all(row.true for row in rows), rows
    assert_true([rows[0], *rows[-2:]], "a,b", "b,a", "b,a")


@pytest.mark.usefixtures("full_metadata")
def test_what_the_binlog_does_not_have_is_named_by_full_metadata(
    server: DatabaseServer, db: str, make_reader: Read
) -> None:
    forms = (
        SWAP, "ALTER TABLE t MODIFY a INT AFTER b", "ALTER TABLE t ADD c INT FIRST",
        "ALTER TABLE t RENAME COLUMN c TO z", "ALTER TABLE t DROP a",
        "ALTER TABLE t CHANGE b a INT, ADD b INT AFTER z", "ALTER TABLE t MODIFY a INT FIRST",
    )  # fmt: skip
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for form in ("DO 0", *forms):
            cursor.execute(form)
            cursor.execute("SET sql_log_bin = 1")
            play(cursor, db, "DO 0")
            cursor.execute("SET sql_log_bin = 0")
    rows = rows_of(reader, 1 + len(forms))
    assert all(row.true and row.proven for row in rows), rows


def _waits(cursor: Cursor) -> bool:
    """Whether some ALTER waits to end, with its beginning in the binlog."""
    cursor.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'")
    return bool(cursor.fetchall())


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_reader_that_is_killed_between_the_phases_of_an_alter_has_its_names(
    end: str, mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_reader: Read
) -> None:
    """ALTER has begun, and waits for a transaction that has read the table; another table is altered meanwhile."""
    server, db = mariadb118, make_db(mariadb118)
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT)", f"CREATE TABLE {db}.u (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    with (
        server.connect(database=db) as holding, holding.cursor() as holder,
        server.connect(database=db) as connection, connection.cursor() as cursor,
        server.connect(database=db) as altering, altering.cursor() as alter,
    ):  # fmt: skip
        play(cursor, db, "DO 0")
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM t")
        alter.execute("SET binlog_alter_two_phase = ON")
        alter.execute(f"SET lock_wait_timeout = {1 if end == 'rollback' else 30}")
        failed: list[pymysql.err.OperationalError] = []

        def two_phases() -> None:
            try:
                alter.execute(f"{SWAP}, ALGORITHM = COPY")
            except pymysql.err.OperationalError as error:
                failed.append(error)

        thread = threading.Thread(target=two_phases)
        thread.start()
        until(lambda: _waits(cursor), what="ALTER does not wait")
        cursor.execute(SWAP.replace(" t ", " u "))
        write(cursor, db, "u")
        rows_of(reader, 2)
        reader.signal(signal.SIGKILL)
        reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
        if end == "rollback":
            thread.join()
        holding.commit()
        thread.join()
        play(cursor, db, "DO 0")
    assert bool(failed) == (end == "rollback")
    assert_true(rows_of(reader, 3), "a,b", "b,a", "b,a" if end == "commit" else "a,b")


@BOTH
def test_rows_that_were_prepared_before_the_source_died_have_their_names(
    kind: str, own_server: Own, make_reader: Read
) -> None:
    """After its restart nobody may alter the table until they are committed."""
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT, b INT)", "CREATE TABLE d.u (a INT, b INT)")
    reader = make_reader(server).streaming()
    with server.connect(database="d") as connection, connection.cursor() as cursor:
        cursor.execute("XA START 'x'")
        write(cursor, "d", "t")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
    server.kill()
    server.start()
    with server.connect(database="d") as connection, connection.cursor() as cursor:
        cursor.execute("SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
            cursor.execute(SWAP)
        cursor.execute(SWAP.replace(" t ", " u "))
        cursor.execute("XA COMMIT 'x'")
        cursor.execute(SWAP)
        for table in "tu":
            write(cursor, "d", table)
    rows = rows_of(reader, 3, seconds=40)
    assert_true(rows, "a,b", "b,a", "b,a")


@BOTH
def test_a_drop_of_a_database_that_failed_halfway_leaves_no_name(kind: str, own_server: Own, make_reader: Read) -> None:
    """A file that is none of the server's stays in its folder; the tables are gone, or still there."""
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT, b INT)", "CREATE TABLE d.u (a INT, b INT)")
    reader = make_reader(server).streaming()
    with server.connect() as connection, connection.cursor() as cursor:
        for table in "tu":
            write(cursor, "d", table)
        Path(server.data, "d", "stray").touch()
        with pytest.raises(pymysql.err.OperationalError):
            cursor.execute("DROP DATABASE d")
        cursor.execute("CREATE TABLE IF NOT EXISTS d.t (b INT, a INT)")
        cursor.execute("CREATE TABLE IF NOT EXISTS d.u (b INT, a INT)")
        for table in "tu":
            write(cursor, "d", table)
    rows = rows_of(reader, 4)
    assert all(row.true and row.proven for row in rows), rows


def test_a_mysql_that_lowers_names_is_followed(mysql97: DatabaseServer, tmp_path: Path, make_reader: Read) -> None:
    """Only a server that was made so does it; statements have names as they were typed."""
    lowers, data = "--lower-case-table-names=1", tmp_path / "mysql"
    packages = mysql97.packages
    packages.run(packages.command(data, "--initialize-insecure", lowers, "--innodb-redo-log-capacity=64M"))
    with DatabaseServer("mysql97", options=(lowers,), data=data) as server:
        server.execute(
            f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'", f"GRANT ALL ON *.* TO {USER}@'%'",
            "CREATE DATABASE D", "CREATE TABLE D.T (a INT, b INT)",
        )  # fmt: skip
        reader = make_reader(server).streaming()
        with server.connect(database="D") as connection, connection.cursor() as cursor:
            play(cursor, "d", "DO 0", SWAP.replace(" t ", " T "), "ALTER TABLE D.T MODIFY a INT FIRST")
            cursor.execute("RENAME TABLE T TO D.Other, Other TO T")
            play(cursor, "d", SWAP)
        assert_true(rows_of(reader, 4), "a,b", "b,a", "a,b", "b,a")


def test_a_session_that_chose_its_schema_before_another_charset_was_given_to_it_is_not_misread(
    server: DatabaseServer, db: str, start_relay: Callable[..., RelayProcess]
) -> None:
    """MariaDB gives this session's tables the character set of before, and the binlog does not say so."""
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT", f"ALTER DATABASE {db} CHARACTER SET latin1")
    relay = start_relay(server)
    with (
        RelayClient("127.0.0.1", relay.port, "reads", SECRET) as client,
        server.connect(database=db, charset="utf8mb4") as connection,
        connection.cursor() as cursor,
    ):
        client.add_filter(db, "*")
        server.execute(f"ALTER DATABASE {db} CHARACTER SET utf8mb4")
        for table, kind in (("t", "TEXT"), (f"{db}.q", "TEXT"), ("u", "ENUM('x', 'é')")):
            if table == "u":
                server.execute(f"DROP DATABASE {db}", f"CREATE DATABASE {db} CHARACTER SET latin2")
            cursor.execute(f"CREATE TABLE {table} (a {kind})")
            cursor.execute(f"INSERT INTO {table} VALUES ('é')")
            row = client.poll(wait=patience(20))
            assert row is not None and row.after == {"a": "é"}, (table, relay.stat()["stop"])
