"""Column names of old rows, and definitions after a kill, with a new release, and with another source."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay.binlog import BinlogFile, events
from relay.client import RelayClient
from relay.ddl.syntax import TableName
from relay.journal import frames
from relay.journal.frames import Definition
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import Table, Unknown
from tests.binlog.test_binlog_files import folder_of
from tests.support.cdc_source import KINDS, relay_on
from tests.support.changing_tables import changing_tables, history_in
from tests.support.exported_lake import Lake
from tests.support.lagging_reader import delivered, identity, write
from tests.support.purging import purge
from tests.support.reader_process import Reader
from tests.support.relay_process import SECRET
from tests.support.waiting import patience, until

pytestmark = pytest.mark.brands

Read = Callable[..., Reader]
OPTIONS = {"mysql97": ("--gtid-mode=ON", "--enforce-gtid-consistency=ON"), "mariadb118": ()}


def test_a_schema_that_create_if_not_exists_has_made_is_known_from_there_on(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_reader: Read
) -> None:
    db = make_db(mysql97)
    mysql97.execute(f"DROP DATABASE {db}")
    purge(mysql97)
    mysql97.execute(
        f"CREATE DATABASE IF NOT EXISTS {db} CHARACTER SET latin1",
        f"CREATE DATABASE IF NOT EXISTS {db} CHARACTER SET utf8mb4",
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a INT, b VARCHAR(20))", f"INSERT INTO {db}.t VALUES (1, 1, 'é')",
        f"ALTER TABLE {db}.t ADD INDEX (a)", f"INSERT INTO {db}.t VALUES (2, 2, 'é')",
    )  # fmt: skip
    reader = make_reader(mysql97, {"Source.StartPosition": "oldest"}).streaming()
    reader.until(lambda: reader.count() == 2)
    assert reader.rows() == [("id,a,b", 1), ("id,a,b", 1)]
    definitions = [
        msgspec.msgpack.decode(frame.definition, type=Definition)
        for frame in reader.frames()
        if isinstance(frame, frames.Table) and frame.definition
    ]
    assert {column.charset for each in definitions for column in each.columns if column.name == "b"} == {"latin1"}


def test_tables_in_a_schema_from_before_the_binlog_have_names_on_every_way_out(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    db = make_db(mysql97)
    mysql97.execute(f"ALTER DATABASE {db} CHARACTER SET gbk")
    purge(mysql97)
    mysql97.execute(
        f"CREATE DATABASE IF NOT EXISTS {db}", f"CREATE TABLE {db}.h (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
        f"INSERT INTO {db}.h VALUES (1, 10, '日')", f"ALTER TABLE {db}.h ADD INDEX (a)",
        f"INSERT INTO {db}.h VALUES (2, 20, '本')",
    )  # fmt: skip
    wanted = [{"id": 1, "a": 10, "b": "日"}, {"id": 2, "a": 20, "b": "本"}]
    settings = {"Source.StartPosition": "oldest", "Source.Tables": f"{db}.*", "Lake.Path": tmp_path / "lake"}
    with relay_on(mysql97, tmp_path, settings | {"Lake.RollSeconds": "1s", "Lake.Snapshot": "manual"}) as service:
        assert [{name: row[name] for name in ["id", "a", "b"]} for row in service.await_rows(f"{db}.h", 2)] == wanted
        lake = Lake(tmp_path / "lake")
        found = until(lambda: (lake.folder / "_log").is_dir() and len(rows := lake.rows(db, "h")) == 2 and rows)
        assert [{name: row[name] for name in ["id", "a", "b"]} for row in found] == wanted
        with RelayClient("127.0.0.1", service.relay.port, "new", SECRET) as client:
            client.add_filter(db)
            mysql97.execute(f"UPDATE {db}.h SET b = '語' WHERE id = 1")
            [row] = client.poll_many(wait=patience(20))
            assert (row.before, row.after) == (wanted[0], wanted[0] | {"b": "語"})
    file, *_ = mysql97.execute("SHOW BINARY LOG STATUS")[0]
    with BinlogFile(folder_of(mysql97) / file) as log:
        inserted = [log.rows(event) for event in log if isinstance(event, events.WriteRowsEvent)]
    assert [[row.after for row in rows] for rows in inserted] == [
        [{name: str(value) for name, value in row.items()}] for row in wanted
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_relay_serves_rows_of_before_statements_about_their_table(
    kind: str, own_server: Callable[..., DatabaseServer], tmp_path: Path
) -> None:
    server = own_server(kind, *OPTIONS[kind])
    server.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        "CREATE TABLE d.t (id INT, a VARCHAR(10))", "INSERT INTO d.t VALUES (1, 'a')",
        "ALTER TABLE d.t ADD INDEX (a)", "INSERT INTO d.t VALUES (2, 'a')",
        "ALTER TABLE d.t ADD b INT FIRST", "INSERT INTO d.t VALUES (-3, 3, 'a')",
        "ALTER TABLE d.t RENAME COLUMN a TO c", "INSERT INTO d.t VALUES (-4, 4, 'c')",
        "CREATE TABLE d.gone (x INT)", "INSERT INTO d.gone VALUES (5)", "DROP TABLE d.gone",
        "CREATE TABLE d.old (y INT)", "INSERT INTO d.old VALUES (6)", "RENAME TABLE d.old TO d.new",
        "INSERT INTO d.new VALUES (7)",
    )  # fmt: skip
    expected: dict[str, list[dict[str, object]]] = {
        "t": [{"id": 1, "a": "a"}, {"id": 2, "a": "a"}, {"b": -3, "id": 3, "a": "a"}, {"b": -4, "id": 4, "c": "c"}],
        "gone": [{"x": 5}],
        "old": [{"y": 6}],
        "new": [{"y": 7}],
    }
    with relay_on(server, tmp_path, {"Source.StartPosition": "oldest"}) as service:
        for table, rows in expected.items():
            found = service.await_rows(f"d.{table}", len(rows))
            names = {name for row in rows for name in row}
            assert [{name: row[name] for name in row if name in names} for row in found] == rows, table


def test_a_reader_killed_again_and_again_has_the_history_of_one_that_lived(
    server: DatabaseServer, db: str, make_reader: Read, tmp_path: Path
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    settings = {"Source.Tables": f"{db}.*"}
    lived = make_reader(server, settings).streaming()
    (tmp_path / "killed").mkdir()
    killed = Reader(server, tmp_path / "killed", settings).start().streaming()
    moments = random.Random(8)
    with changing_tables(server, db):
        for _ in range(8):
            time.sleep(moments.uniform(0.2, 0.8))
            killed.signal(signal.SIGKILL)
            killed.start().streaming()
    server.execute(f"CREATE TABLE {db}.last (id INT)", f"INSERT INTO {db}.last VALUES ({identity('id')})")
    for each in (lived, killed):
        each.until(partial(each.count, "last"))
        each.signal(signal.SIGTERM)
    rows = [delivered(each.journal_dir, each.arena.committed) for each in (lived, killed)]
    assert rows[1] == rows[0], "kills changed rows or their names"
    assert all(row.true and row.proven for row in rows[1])
    one, other = (history_in(each.journal_dir.parent) for each in (lived, killed))
    assert other == one


def test_what_the_release_before_had_proven_is_taken_over(
    server: DatabaseServer, db: str, make_reader: Read, tmp_path: Path
) -> None:
    """Nobody can be asked any more: the table was dropped before the new release began."""
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT)", f"INSERT INTO {db}.t VALUES (1, 2)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    server.execute(f"INSERT INTO {db}.t VALUES (3, 4)")
    reader.until(lambda: reader.count() == 1)
    reader.signal(signal.SIGTERM)
    folder = reader.journal_dir.parent
    store = Store(folder / SCHEMA_FILE, read_only=True)
    answer = store.reply(TableName(db, "t"))
    store.close()
    assert answer is not None
    packed = next(
        frame.definition for frame in reader.frames() if hasattr(frame, "link") and hasattr(frame, "definition")
    )
    assert msgspec.msgpack.decode(packed, type=Definition).table == "t"
    for path in folder.glob(f"{SCHEMA_FILE}*"):
        path.unlink()
    with sqlite3.connect(folder / "state.db") as state:
        state.execute(
            "CREATE TABLE proofs (id INTEGER PRIMARY KEY, content BLOB, since_file TEXT, since_position INTEGER,"
            " until_file TEXT, until_position INTEGER)"
        )
        state.execute(
            "INSERT INTO proofs (content, since_file, since_position) VALUES (?, ?, ?)",
            (packed, answer.until.file, answer.until.position),
        )
    server.execute(f"INSERT INTO {db}.t VALUES (5, 6)", f"DROP TABLE {db}.t")
    reader.start().until(lambda: reader.count() == 2)
    assert [names for names, _ in reader.rows()] == ["a,b", "a,b"]


def test_a_statement_that_is_skipped_leaves_its_table_unknown_until_the_source_is_asked(
    server: DatabaseServer, db: str, make_reader: Read
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*", "Relay.OnUnknown": "skip"}).streaming()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        # Its columns come from a query, which only the server can answer.
        cursor.execute("CREATE TABLE made AS SELECT b AS x, a AS y FROM t")
        cursor.execute("SET SESSION binlog_format = ROW")
        cursor.execute("INSERT INTO made (x, y) VALUES (1, 2)")
        connection.commit()
    reader.until(lambda: reader.count("made") >= 1)
    assert {names for names, _ in reader.rows("made")} == {"x,y"}


def test_a_gap_forgets_what_was_known_and_no_row_behind_it_is_named_by_it(
    server: DatabaseServer, db: str, make_reader: Read
) -> None:
    """Columns change places in the part of the binlog that nobody has read."""
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT)")
    settings = {"Source.Tables": f"{db}.*"}
    reader = make_reader(server, settings).streaming()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        write(cursor, db, "t")
        connection.commit()
        reader.until(lambda: reader.count() == 1)
        reader.signal(signal.SIGTERM)
        cursor.execute("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchall()[-1][0]}'")
        reader = make_reader(server, settings, accept_gap=True).streaming()
        write(cursor, db, "t")
        connection.commit()
    reader.until(lambda: reader.count() == 2)
    rows = delivered(reader.journal_dir, reader.arena.committed)
    assert [row.names for row in rows] == ["a,b", "b,a"] and all(row.true and row.proven for row in rows)


def test_rows_of_a_prepared_transaction_have_the_names_of_their_statements(
    server: DatabaseServer, db: str, make_reader: Read
) -> None:
    """Another table is altered between PREPARE and COMMIT, and the reader is killed in between."""
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT) ENGINE = InnoDB", f"CREATE TABLE {db}.u (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    with server.connect(database=db, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"XA START '{db}'")
        write(cursor, db, "t")
        write(cursor, db, "u")
        cursor.execute(f"XA END '{db}'")
        cursor.execute(f"XA PREPARE '{db}'")
    server.await_end_of_session(connection)
    server.execute(f"CREATE TABLE {db}.v (a INT, b INT)", f"ALTER TABLE {db}.v RENAME COLUMN a TO c")
    server.execute(f"INSERT INTO {db}.v (b, c) VALUES ({identity('b')}, {identity('c')})")
    reader.until(lambda: reader.count("v") == 1)
    reader.signal(signal.SIGKILL)
    reader.start().streaming()
    server.execute(f"XA COMMIT '{db}'", f"ALTER TABLE {db}.t RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    reader.until(lambda: reader.count("u") == 1)
    rows = delivered(reader.journal_dir, reader.arena.committed)
    assert sorted((row.table, row.names) for row in rows) == [("t", "a,b"), ("u", "a,b"), ("v", "c,b")]
    assert all(row.true and row.proven for row in rows)


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118"])
def test_a_table_that_a_failed_statement_may_have_changed_is_asked_for(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Read
) -> None:
    """DROP of several tables, of which one is not there; the others are gone."""
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT, b INT)", "CREATE TABLE d.u (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": "d.*"}).streaming()
    with server.connect(database="d", autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(Exception, match="Unknown table"):
            cursor.execute("DROP TABLE t, nothing")
        cursor.execute("CREATE TABLE IF NOT EXISTS t (b INT, a INT)")
        for table in "tu":
            write(cursor, "d", table)
    reader.until(lambda: reader.count("u") == 1 and reader.count("t") == 1)
    rows = delivered(reader.journal_dir, reader.arena.committed)
    assert all(row.true and row.proven for row in rows), rows


def test_the_history_says_why_a_table_is_not_known(server: DatabaseServer, db: str, make_reader: Read) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    server.execute(f"CREATE TABLE {db}.t (a INT, b INT)")
    reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    server.execute(
        "SET sql_log_bin = 0",
        f"ALTER TABLE {db}.t ADD c INT",
        "SET sql_log_bin = 1",
        f"INSERT INTO {db}.t VALUES (1, 2, 3)",
    )
    reader.until(lambda: reader.count() == 1)
    reader.signal(signal.SIGTERM)
    store = Store(reader.journal_dir.parent / SCHEMA_FILE, read_only=True)
    newest = next(store.versions(TableName(db, "t")))
    answer = store.reply(TableName(db, "t"))
    store.close()
    assert isinstance(newest.state, Unknown)
    assert "it has 2 columns, its rows 3" in newest.state.cause
    assert answer is not None and isinstance(answer.state, Table) and len(answer.state.columns) == 3
