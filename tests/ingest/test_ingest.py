"""The ingest on real streams of three servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention, GtidSet
from relay.journal import frames
from relay.source import facts
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition

pytestmark = pytest.mark.brands

INSERT, UPDATE, DELETE = 1, 2, 4


@pytest.fixture
def fed(tmp_path: Path) -> Fed:
    return Fed(tmp_path)


def workload(db: str) -> list[str]:
    """Statements of every kind that a stream is made of."""
    return [
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), n DECIMAL(10,2))",
        "INSERT INTO t (v, n) VALUES ('a', 1), ('b', 2.5), ('c', NULL)",
        "UPDATE t SET v = 'z' WHERE id < 3",
        "DELETE FROM t WHERE id = 1",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('x')",
        "SAVEPOINT s",
        "INSERT INTO t (v) VALUES ('undone')",
        "ROLLBACK TO s",
        "INSERT INTO t (v) VALUES ('y')",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('never')",
        "ROLLBACK",
        "CREATE TABLE u AS SELECT * FROM t",
        "TRUNCATE t",
        "CREATE TABLE m (id INT) ENGINE = MyISAM",
        "INSERT INTO m VALUES (1)",
        "FLUSH BINARY LOGS",
        "INSERT INTO t (v) VALUES ('last')",
    ]


WORKLOAD_ROWS = [
    ("t", INSERT, 3),
    ("t", UPDATE, 2),
    ("t", DELETE, 1),
    ("t", INSERT, 1),
    ("t", INSERT, 1),
    ("u", INSERT, 4),
    ("m", INSERT, 1),
    ("t", INSERT, 1),
]


def recorded(server: DatabaseServer, *statements: str) -> tuple[StreamPosition, bytes]:
    """Runs statements; where they begin in the binlog, and the stream from there."""
    start = binlogs.place(server)
    server.execute(*statements)
    return start, binlogs.record(server, start)


def test_a_stream_becomes_frames_in_order(server: DatabaseServer, db: str, fed: Fed) -> None:
    start, stream = recorded(server, *workload(db))
    fed.begin(start)
    fed.feed(stream)
    assert fed.rows() == WORKLOAD_ROWS
    assert [asked.asks for asked in fed.asked if asked.asks not in ("table", "query")] == ["end"]
    statements = [frame.statement for frame in fed.frames() if isinstance(frame, frames.Ddl)]
    assert [statement.split()[0].upper() for statement in statements] == ["CREATE", "CREATE", "TRUNCATE", "CREATE"]
    state, end = fed.writer.state(), binlogs.place(server)
    assert state.file == end.file
    assert state.position <= fed.ingest.position <= end.position  # MariaDB's checkpoints may follow
    assert state.sequence == 1 + sum(rows for _, _, rows in WORKLOAD_ROWS) + len(statements)
    files = [frame.file for frame in fed.frames() if isinstance(frame, frames.File)]
    assert files == [end.file]


def test_commits_say_on_which_server_they_were_made(server: DatabaseServer, db: str, fed: Fed) -> None:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@server_id")
        own = int(cursor.fetchone()[0])
    prepared = (
        f"USE {db}",
        *("XA START 'x'", "INSERT INTO t (v) VALUES ('xa')", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
    )
    elsewhere = ("SET SESSION server_id = 3000000000", "INSERT INTO t (v) VALUES ('from another server')")
    foreign = elsewhere if server.name.startswith("mariadb") else ()
    start, stream = recorded(server, *workload(db), *prepared, *foreign)
    fed.begin(start)
    fed.feed(stream)
    said = [frame.server_id for frame in fed.frames() if isinstance(frame, frames.Commit)]
    assert len(said) > 10
    assert set(said[:-1]) == {own}
    assert said[-1] == (3_000_000_000 if foreign else own)


def test_how_the_bytes_are_cut_makes_no_difference(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    start, stream = recorded(server, *workload(db))
    found = []
    for chunk in (len(stream), 1, 7, 1000):
        fed = Fed(tmp_path / str(chunk))
        fed.begin(start)
        fed.feed(stream, chunk)
        found.append(fed.frames())
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_what_the_journal_has_is_skipped_by_gtid(server: DatabaseServer, db: str, fed: Fed) -> None:
    start, stream = recorded(server, *workload(db))
    fed.begin(start)
    fed.feed(stream)
    state = fed.writer.state()
    fed.ingest.start("", 4, by_gtid=True)
    fed.feed(stream)
    assert fed.rows() == WORKLOAD_ROWS
    assert fed.writer.state().gtid_set == state.gtid_set


@pytest.mark.parametrize("failed_over", [False, True])
@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_by_gtid_a_prepared_transaction_is_asked_for_again(
    server: DatabaseServer, db: str, fed: Fed, failed_over: bool
) -> None:
    server.execute(f"USE {db}", *XA_SETUP)
    start = binlogs.place(server)
    with closing(server.connect()) as connection:
        before = facts.gtid_at(connection, facts.query_facts(connection), *start)
    server.execute(f"USE {db}", *xa(f"{db}a", "INSERT INTO t VALUES (1), (2)"))
    server.execute(f"INSERT INTO {db}.t VALUES (10)")
    fed.writer.source(start.position, start.file, before, "test")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    if failed_over:
        fed.ingest.moved()
    fed.open()
    resume = fed.ingest.resume()
    assert resume.by_gtid_possible
    assert (resume.file == "") == failed_over
    assert GtidSet(resume.gtid_set) != GtidSet(fed.writer.state().gtid_set)
    server.execute(f"XA COMMIT '{db}a'", f"INSERT INTO {db}.t VALUES (11)")
    fed.ingest.start("", 4, by_gtid=True)
    fed.feed(binlogs.record_by_gtid(server, resume.gtid_set))
    assert fed.rows() == [("t", INSERT, 1), ("t", INSERT, 2), ("t", INSERT, 1)]
    with closing(server.connect()) as connection:
        end = facts.binlog_end(connection, facts.query_facts(connection)).gtid_set
    assert GtidSet(fed.writer.state().gtid_set) == GtidSet(end)


def test_a_checksum_that_changes_with_the_file(server: DatabaseServer, db: str, fed: Fed) -> None:
    before = server.execute("SELECT @@GLOBAL.binlog_checksum")[0][0]
    change = "SET GLOBAL binlog_checksum = "
    statements = workload(db)
    half = statements.index("TRUNCATE t")
    start = binlogs.place(server)
    try:
        server.execute(*statements[:half], change + "NONE")
        server.execute(f"USE {db}", *statements[half:], change + "CRC32")
    finally:
        server.execute(f"{change}'{before}'")
    server.execute(f"INSERT INTO {db}.m VALUES (2)")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    assert fed.rows() == [*WORKLOAD_ROWS, ("m", INSERT, 1)]


def test_events_larger_than_a_packet(server: DatabaseServer, db: str, fed: Fed) -> None:
    start = binlogs.place(server)
    server.execute(f"CREATE TABLE {db}.b (id INT, data LONGBLOB) ENGINE = MyISAM")
    sizes = (2**24 - 100, 2**24, 2**26 + 5)
    for size in sizes:
        server.execute(f"INSERT INTO {db}.b VALUES ({size}, REPEAT('x', {size}))")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    assert [asked.asks for asked in fed.asked] == ["query", "table", "end"]
    bodies = [frame.body for frame in fed.frames() if isinstance(frame, frames.Rows)]
    assert [len(body) > size for body, size in zip(bodies, sizes, strict=True)] == [True] * 3
    assert all(body.endswith(b"x" * 1000) for body in bodies)


def test_excluded_tables_and_columns_are_left_out(server: DatabaseServer, db: str, fed: Fed) -> None:
    start, stream = recorded(server, *workload(db))

    def answer(asked: Attention) -> bool:
        if asked.asks != "table":
            return False
        definition = binlogs.defined(asked.body)
        if definition.table == "u":
            fed.ingest.exclude(asked.table_id)
            return True
        keep = [column.name != "@2" for column in definition.columns]
        kept = [column for column in definition.columns if column.name != "@2"]
        published = msgspec.structs.replace(definition, columns=kept)
        fed.ingest.define(asked.table_id, msgspec.msgpack.encode(definition), msgspec.msgpack.encode(published), keep)
        return True

    fed.answer = answer
    fed.begin(start)
    fed.feed(stream)
    assert fed.rows() == [row for row in WORKLOAD_ROWS if row[0] != "u"]
    first = next(frame for frame in fed.frames() if isinstance(frame, frames.Rows))
    assert first.body[:2] == b"\x02\x03"  # two columns, both present
    assert b"a" not in first.body[2:]


# The next two leave in the binlog what stops a reader that starts at its beginning: they have servers of their own.
def test_incomplete_images_are_asked_about(kind: str, own_server: Callable[..., DatabaseServer], fed: Fed) -> None:
    server, db = own_server(kind), "test"
    start, stream = recorded(
        server,
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v INT)",
        "SET SESSION binlog_row_image = MINIMAL",
        f"INSERT INTO {db}.t VALUES (1, 2)",
        f"UPDATE {db}.t SET v = 3",
        f"DELETE FROM {db}.t",
    )
    fed.begin(start)
    fed.feed(stream)
    asked = [each for each in fed.asked if each.asks == "partial"]
    assert len(asked) == 1  # once a table
    assert asked[0].file == start.file
    assert fed.rows() == [("t", INSERT, 1), ("t", UPDATE, 1), ("t", DELETE, 1)]


def test_changes_by_statements_are_asked_about(kind: str, own_server: Callable[..., DatabaseServer], fed: Fed) -> None:
    server, db = own_server(kind), "test"
    start, stream = recorded(
        server,
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY)",
        "SET SESSION binlog_format = STATEMENT",
        f"INSERT INTO {db}.t VALUES (1)",
    )
    fed.begin(start)
    fed.feed(stream)
    asked = [each for each in fed.asked if each.asks == "query"][-1]
    assert asked.statement == f"INSERT INTO {db}.t VALUES (1)"
    assert asked.in_transaction


XA_SETUP = ("CREATE TABLE t (id INT PRIMARY KEY)",)


def xa(name: str, *statements: str) -> list[str]:
    return [f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'"]


def test_a_prepared_transaction_can_be_given_up_with_what_was_purged(server: DatabaseServer, db: str, fed: Fed) -> None:
    start = binlogs.place(server)
    server.execute(f"USE {db}", *XA_SETUP)
    server.execute(f"USE {db}", *xa(f"{db}a", "INSERT INTO t VALUES (1)"))
    server.execute(f"INSERT INTO {db}.t VALUES (10)")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    fed.open()
    state = fed.writer.state()
    assert fed.ingest.resume().position < state.position
    assert fed.ingest.forget_prepared() == 1
    assert fed.ingest.resume()[:2] == (state.file, state.position)
    fed.open()
    assert fed.ingest.resume()[:2] == (state.file, state.position)
    server.execute(f"XA ROLLBACK '{db}a'")


def test_prepared_rows_appear_with_their_xa_commit(server: DatabaseServer, db: str, fed: Fed) -> None:
    start, stream = recorded(
        server,
        f"USE {db}",
        *XA_SETUP,
        *xa(f"{db}a", "INSERT INTO t VALUES (1), (2)"),
        f"XA COMMIT '{db}a'",
        *xa(f"{db}b", "INSERT INTO t VALUES (3)"),
        f"XA ROLLBACK '{db}b'",
        f"XA START '{db}c'",
        "INSERT INTO t VALUES (4), (5), (6)",
        f"XA END '{db}c'",
        f"XA COMMIT '{db}c' ONE PHASE",
    )
    fed.begin(start)
    fed.feed(stream)
    assert fed.rows() == [("t", INSERT, 2), ("t", INSERT, 3)]
    assert {asked.asks for asked in fed.asked} == {"query", "table", "end"}


def test_a_restart_does_not_pass_a_prepared_transaction(server: DatabaseServer, db: str, fed: Fed) -> None:
    start = binlogs.place(server)
    server.execute(f"USE {db}", *XA_SETUP)
    before = binlogs.place(server)
    server.execute(f"USE {db}", *xa(f"{db}a", "INSERT INTO t VALUES (1), (2)"))
    server.execute(f"INSERT INTO {db}.t VALUES (10)", "FLUSH BINARY LOGS", f"INSERT INTO {db}.t VALUES (11)")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    assert fed.rows() == [("t", INSERT, 1), ("t", INSERT, 1)]
    journaled = fed.writer.state()
    fed.open()
    resume = fed.ingest.resume()
    assert resume.file == before.file != journaled.file
    assert before.position <= resume.position
    fed.ingest.start(resume.file, resume.position)
    fed.feed(binlogs.record(server, StreamPosition(resume.file, resume.position)))
    assert fed.writer.state() == journaled
    server.execute(f"XA COMMIT '{db}a'", f"INSERT INTO {db}.t VALUES (12)")
    place = StreamPosition(journaled.file, journaled.position)
    assert fed.ingest.resume()[:2] == place  # its rows are in memory now
    fed.ingest.start(*place)
    fed.feed(binlogs.record(server, place))
    assert fed.rows() == [("t", INSERT, 1), ("t", INSERT, 1), ("t", INSERT, 2), ("t", INSERT, 1)]
    fed.open()
    state = fed.writer.state()
    assert fed.ingest.resume()[:2] == (state.file, state.position)


def test_a_commit_of_what_was_prepared_before_the_start_is_named(server: DatabaseServer, db: str, fed: Fed) -> None:
    server.execute(f"USE {db}", *XA_SETUP, *xa(f"{db}a", "INSERT INTO t VALUES (1), (2)"))
    start, stream = recorded(server, f"XA COMMIT '{db}a'", f"INSERT INTO {db}.t VALUES (3)")
    fed.begin(start)
    fed.feed(stream)
    (unknown,) = [asked for asked in fed.asked if asked.asks == "unknown"]
    assert "prepared before" in unknown.message
    assert fed.rows() == [("t", INSERT, 1)]


def test_prepared_rows_beyond_their_memory_wait_in_a_file(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    def values(first: int) -> str:
        return ", ".join(f"({number}, REPEAT('x', 50))" for number in range(first, first + 300))

    use = f"USE {db}"
    server.execute(use, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "CREATE TABLE u LIKE t")
    start = binlogs.place(server)
    for statements in (
        xa(
            f"{db}a",
            f"INSERT INTO t VALUES {values(0)}",
            f"INSERT INTO u VALUES {values(0)}",
            "DELETE FROM t WHERE id = 7",
        ),
        xa(f"{db}b", f"INSERT INTO t VALUES {values(1000)}"),
        xa(f"{db}c", f"INSERT INTO u VALUES {values(2000)}", "UPDATE u SET v = 'y' WHERE id = 2000"),
        [f"XA ROLLBACK '{db}b'", f"XA COMMIT '{db}c'"],
        xa(f"{db}d", f"INSERT INTO t VALUES {values(3000)}"),
        [f"XA COMMIT '{db}a'", f"XA COMMIT '{db}d'"],
        [*xa(f"{db}e", f"INSERT INTO t VALUES {values(4000)}")[:-1], f"XA COMMIT '{db}e' ONE PHASE"],
    ):
        server.execute(use, *statements)
    stream = binlogs.record(server, start)
    found = []
    for memory in (0, 1000, 20_000, 1 << 25):
        fed = Fed(tmp_path / str(memory), prepared_memory=memory)
        fed.begin(start)
        fed.feed(stream)
        assert not list(fed.directory.glob("*.rows")), "the file has a name"
        found.append(fed.frames())
    assert all(each == found[0] for each in found)
    rows = dict.fromkeys([("t", INSERT), ("t", DELETE), ("u", INSERT), ("u", UPDATE)], 0)
    for table, kind, count in fed.rows():
        rows[table, kind] += count
    assert rows == {("t", INSERT): 900, ("t", DELETE): 1, ("u", INSERT): 600, ("u", UPDATE): 1}


@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_tagged_gtids(server: DatabaseServer, db: str, fed: Fed) -> None:
    server.execute("GRANT TRANSACTION_GTID_TAG ON *.* TO root@localhost")
    start, stream = recorded(
        server,
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY)",
        "SET gtid_next = 'AUTOMATIC:blue_1'",
        f"INSERT INTO {db}.t VALUES (1)",
        f"INSERT INTO {db}.t VALUES (2)",
        "SET gtid_next = 'AUTOMATIC'",
        f"INSERT INTO {db}.t VALUES (3)",
        "FLUSH BINARY LOGS",
    )
    fed.begin(start)
    fed.feed(stream)
    ids = [frame.gtid for frame in fed.frames() if isinstance(frame, frames.Commit)]
    uuid = server.execute("SELECT @@server_uuid")[0][0]
    assert [":blue_1:" in each for each in ids] == [False, True, True, False]
    assert all(each.startswith(uuid) for each in ids)
    end = binlogs.place(server)
    executed = server.execute("SELECT @@GLOBAL.gtid_executed")[0][0].replace("\n", "")
    packets = binlogs.split(binlogs.record(server, StreamPosition(end.file, 4)))
    previous = next(packet for packet in packets if binlogs.event_type(packet) == 35)
    assert GtidSet.decode(previous[5 + 19 : -4]) == GtidSet(executed)
    assert GtidSet.decode(GtidSet(executed).encode()) == GtidSet(executed)
    assert GtidSet(fed.writer.state().gtid_set).issubset(GtidSet(executed))
