"""The ingest: real streams of three servers, and streams of our own making for what servers do once in a while."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention, GtidSet
from relay.binlog import facts
from relay.errors import RelayError, StopCode
from relay.journal import frames
from tests import binlogs
from tests.binlogs import Fed, Place

INSERT, UPDATE, DELETE = 1, 2, 4
START = Place("binlog.000001", 4)


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


def recorded(server: DatabaseServer, *statements: str) -> tuple[Place, bytes]:
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
    assert state.sequence == 1 + sum(rows for _, _, rows in WORKLOAD_ROWS)
    files = [frame.file for frame in fed.frames() if isinstance(frame, frames.File)]
    assert files == [end.file]


def test_how_the_bytes_are_cut_makes_no_difference(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    start, stream = recorded(server, *workload(db))
    found = []
    for chunk in (len(stream), 1, 7, 1000):
        fed = Fed(tmp_path / str(chunk))
        fed.begin(start)
        fed.feed(stream, chunk)
        found.append(fed.frames())
    assert all(each == found[0] for each in found)


def test_a_restart_at_any_commit_goes_on_as_if_nothing_had_been(
    server: DatabaseServer, db: str, tmp_path: Path
) -> None:
    start, stream = recorded(server, *workload(db))
    whole = Fed(tmp_path / "whole")
    whole.begin(start)
    whole.feed(stream)
    chance = random.Random(5)
    cut = sorted(chance.sample(range(1, len(stream)), 6))
    for at in cut:
        fed = Fed(tmp_path / str(at))
        fed.begin(start)
        fed.feed(stream[:at])
        fed.open()
        resume = fed.ingest.resume()
        assert (resume.file, resume.position) == (fed.writer.state().file, fed.writer.state().position)
        fed.ingest.start(resume.file, resume.position)
        fed.feed(binlogs.record(server, Place(resume.file, resume.position)))
        assert fed.rows() == whole.rows()
        assert fed.writer.state() == whole.writer.state()


def test_what_the_journal_has_is_skipped(server: DatabaseServer, db: str, fed: Fed) -> None:
    start, stream = recorded(server, *workload(db))
    fed.begin(start)
    fed.feed(stream[: len(stream) // 2])
    fed.open()
    half = fed.writer.state().sequence
    fed.ingest.start(start.file, start.position)  # much earlier than need be
    fed.feed(stream)
    assert 1 < half < fed.writer.state().sequence
    assert fed.rows() == WORKLOAD_ROWS
    fed.ingest.start(start.file, start.position)
    fed.feed(stream)
    assert fed.rows() == WORKLOAD_ROWS


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


def test_a_stream_goes_on_by_gtid(server: DatabaseServer, db: str, fed: Fed) -> None:
    start, stream = recorded(server, *workload(db))
    with closing(server.connect()) as connection:
        before = facts.gtid_at(connection, facts.facts(connection), *start)
    fed.writer.source(start.position, start.file, before, "test")
    fed.begin(start)
    fed.feed(stream[: len(stream) // 2])
    half = fed.writer.state()
    fed.open()
    resume = fed.ingest.resume()
    assert resume.by_gtid_possible
    assert resume.gtid_set == half.gtid_set
    fed.ingest.start("", 4, by_gtid=True)
    fed.feed(binlogs.record_by_gtid(server, resume.gtid_set))
    assert fed.rows() == WORKLOAD_ROWS
    with closing(server.connect()) as connection:
        end = facts.binlog_end(connection, facts.facts(connection))
    state = fed.writer.state()
    assert state.file == end.file
    assert GtidSet(state.gtid_set) == GtidSet(end.gtid_set)
    assert half.sequence < state.sequence


@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_by_gtid_a_prepared_transaction_is_asked_for_again(server: DatabaseServer, db: str, fed: Fed) -> None:
    server.execute(f"USE {db}", *XA_SETUP)
    start = binlogs.place(server)
    with closing(server.connect()) as connection:
        before = facts.gtid_at(connection, facts.facts(connection), *start)
    server.execute(f"USE {db}", *xa(f"{db}a", "INSERT INTO t VALUES (1), (2)"))
    server.execute(f"INSERT INTO {db}.t VALUES (10)")
    fed.writer.source(start.position, start.file, before, "test")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    fed.open()
    resume = fed.ingest.resume()
    assert resume.by_gtid_possible
    assert GtidSet(resume.gtid_set) != GtidSet(fed.writer.state().gtid_set)
    server.execute(f"XA COMMIT '{db}a'", f"INSERT INTO {db}.t VALUES (11)")
    fed.ingest.start("", 4, by_gtid=True)
    fed.feed(binlogs.record_by_gtid(server, resume.gtid_set))
    assert fed.rows() == [("t", INSERT, 1), ("t", INSERT, 2), ("t", INSERT, 1)]
    with closing(server.connect()) as connection:
        end = facts.binlog_end(connection, facts.facts(connection)).gtid_set
    assert GtidSet(fed.writer.state().gtid_set) == GtidSet(end)


OPTIONS = {
    "mariadb1011": ("--log-bin-compress=ON", "--log-bin-compress-min-len=10"),
    "mariadb118": ("--log-bin-compress=ON", "--log-bin-compress-min-len=10"),
    "mysql97": ("--binlog-transaction-compression=ON",),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_compressed_streams_hold_the_same(kind: str, own_server: Callable[..., DatabaseServer], fed: Fed) -> None:
    server = own_server(kind, *OPTIONS[kind])
    server.execute("CREATE DATABASE IF NOT EXISTS test")
    start, stream = recorded(server, *workload("test"))
    kinds = {binlogs.event_type(packet) for packet in binlogs.split(stream)}
    assert kinds & {40, 165, 166}
    fed.begin(start)
    fed.feed(stream)
    assert fed.rows() == WORKLOAD_ROWS


@pytest.mark.parametrize("kind", OPTIONS)
def test_streams_without_checksums(kind: str, own_server: Callable[..., DatabaseServer], fed: Fed) -> None:
    server = own_server(kind, "--binlog-checksum=NONE")
    server.execute("CREATE DATABASE IF NOT EXISTS test")
    start, stream = recorded(server, *workload("test"))
    fed.begin(start)
    fed.feed(stream)
    assert fed.rows() == WORKLOAD_ROWS


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
    server.execute(f"CREATE TABLE {db}.b (id INT, data LONGBLOB)")
    connection = server.connect(max_allowed_packet=1 << 26)
    with connection.cursor() as cursor:
        cursor.execute("SET GLOBAL max_allowed_packet = 67108864")
    connection.close()
    for size in (2**24 - 100, 2**24, 2**25 + 5):
        server.execute(f"INSERT INTO {db}.b VALUES ({size}, REPEAT('x', {size}))")
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    assert [asked.asks for asked in fed.asked] == ["query", "table", "end"]
    bodies = [frame.body for frame in fed.frames() if isinstance(frame, frames.Rows)]
    assert [len(body) > size for body, size in zip(bodies, (2**24 - 100, 2**24, 2**25 + 5), strict=True)] == [True] * 3
    assert all(body.endswith(b"x" * 1000) for body in bodies)


def test_the_sources_error_is_passed_on(server: DatabaseServer, fed: Fed) -> None:
    fed.begin(Place("binlog.999999", 4))
    fed.feed(binlogs.record(server, Place("binlog.999999", 4)))
    (asked,) = fed.asked
    assert (asked.asks, asked.code) == ("error", 1236)
    assert "binlog" in asked.message.lower() or "log file" in asked.message.lower()


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
@pytest.mark.parametrize("kind", OPTIONS)
def test_incomplete_images_are_asked_about(kind: str, own_server: Callable[..., DatabaseServer], fed: Fed) -> None:
    server, db = own_server(kind), "test"
    server.execute("CREATE DATABASE IF NOT EXISTS test")
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


@pytest.mark.parametrize("kind", OPTIONS)
def test_changes_by_statements_are_asked_about(kind: str, own_server: Callable[..., DatabaseServer], fed: Fed) -> None:
    server, db = own_server(kind), "test"
    server.execute("CREATE DATABASE IF NOT EXISTS test")
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
    fed.feed(binlogs.record(server, Place(resume.file, resume.position)))
    assert fed.writer.state() == journaled
    server.execute(f"XA COMMIT '{db}a'", f"INSERT INTO {db}.t VALUES (12)")
    place = Place(journaled.file, journaled.position)
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


def test_prepared_rows_have_a_cap(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    start = binlogs.place(server)
    values = ", ".join(f"({number})" for number in range(1000))
    server.execute(f"USE {db}", *XA_SETUP, *xa(f"{db}a", f"INSERT INTO t VALUES {values}"), f"XA ROLLBACK '{db}a'")
    fed = Fed(tmp_path, max_prepared_bytes=1000)
    fed.begin(start)
    with pytest.raises(RelayError, match="prepared XA transactions hold more than 1000 bytes") as caught:
        fed.feed(binlogs.record(server, start))
    assert "XA RECOVER" in caught.value.hint


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
    packets = binlogs.split(binlogs.record(server, Place(end.file, 4)))
    previous = next(packet for packet in packets if binlogs.event_type(packet) == 35)
    assert GtidSet.decode(previous[5 + 19 : -4]) == GtidSet(executed)
    assert GtidSet.decode(GtidSet(executed).encode()) == GtidSet(executed)
    assert GtidSet(fed.writer.state().gtid_set).issubset(GtidSet(executed))


def plain(*packets: bytes, start: Place = START) -> bytes:
    return binlogs.opening(*start) + b"".join(packets)


def transaction(number: int, at: int, rows: int = 1) -> bytes:
    """BEGIN, map, rows, COMMIT in the 1000 bytes of the binlog up to `at` + 1000."""
    return (
        binlogs.query("BEGIN", at + 100)
        + binlogs.table_map(5, "t", at + 200)
        + binlogs.write_rows(5, [number] * rows, at + 900)
        + binlogs.xid(at + 1000)
    )


def test_damage_is_found_and_named(fed: Fed) -> None:
    good = plain(transaction(1, 1000))
    damaged = bytearray(good + transaction(2, 2000))
    damaged[-60] ^= 4
    fed.begin(START)
    with pytest.raises(RelayError) as caught:
        fed.feed(bytes(damaged))
    assert caught.value.code == StopCode.CHECKSUM_MISMATCH
    assert caught.value.position.startswith("binlog.000001:2")
    assert fed.writer.state().position == 2000


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """In the events, that is: their packets' heads are not under the checksum."""
    good = transaction(1, 1000)
    chance = random.Random(3)
    packets = binlogs.split(good)
    for case in range(60):
        fed = Fed(tmp_path / str(case))
        fed.begin(START)
        which = chance.randrange(len(packets))
        bad = bytearray(packets[which])
        at = chance.randrange(5, len(bad))
        bad[at] ^= 1 << chance.randrange(8)
        with pytest.raises(RelayError) as caught:
            fed.feed(plain(*packets[:which], bytes(bad), *packets[which + 1 :]))
        assert caught.value.code in (StopCode.CHECKSUM_MISMATCH, StopCode.UNKNOWN_EVENT)
        assert not fed.rows()


def test_positions_beyond_four_gigabytes(fed: Fed) -> None:
    base = 2**32 - 1500
    start = Place("binlog.000001", base)
    fed.begin(start)
    fed.feed(plain(transaction(1, base), transaction(2, base + 1000), transaction(3, 2**32 + 500), start=start))
    assert [frame.position for frame in fed.frames() if isinstance(frame, frames.Commit)] == [
        base + 1000,
        base + 2000,
        2**32 + 1500,
    ]


def test_events_that_say_no_position_are_counted_by_length(fed: Fed) -> None:
    inside = binlogs.table_map(5, "t", 0) + binlogs.write_rows(5, [1], 0)
    fed.begin(START)
    fed.feed(plain(binlogs.query("BEGIN", 100), inside))
    assert fed.ingest.position == 100 + len(inside) - 2 * 5  # without the packets' heads
    fed.feed(binlogs.xid(5000))
    assert fed.writer.state().position == 5000


def test_unknown_events_are_named_and_may_be_skipped(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000), binlogs.made(26, b"\1\0\0", 2050), transaction(2, 3000)))
    (asked,) = [each for each in fed.asked if each.asks == "unknown"]
    assert (asked.type, asked.file, asked.start, asked.position) == (26, "binlog.000001", 2050 - 26, 2050)
    assert fed.rows() == [("t", INSERT, 1)] * 2


@pytest.mark.parametrize("kind", [39, 172, 17, 250])
def test_events_that_could_hide_rows_are_never_passed_over(kind: int, fed: Fed) -> None:
    fed.answer = lambda asked: False
    fed.begin(START)
    fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.made(kind, bytes(20), 100), binlogs.xid(150)))
    assert ("unknown", kind) in [(asked.asks, asked.type) for asked in fed.asked]


def test_going_back_to_a_savepoint_is_never_passed_over(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.query("ROLLBACK TO `s`", 99), binlogs.xid(150)))
    assert [asked.asks for asked in fed.asked] == ["unknown"]


def test_rows_of_a_table_that_was_not_mapped(fed: Fed) -> None:
    fed.begin(START)
    with pytest.raises(RelayError, match="not mapped") as caught:
        fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.write_rows(5, [1], 100)))
    assert caught.value.code == StopCode.UNKNOWN_EVENT
    assert "binlog.000001:" in str(caught.value)


def test_a_map_holds_for_one_statement(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000)))
    with pytest.raises(RelayError, match="did not map"):
        fed.feed(binlogs.query("BEGIN", 2050) + binlogs.write_rows(5, [1], 2100))


def test_a_map_does_not_hold_beyond_its_group(fed: Fed) -> None:
    fed.begin(START)
    open_statement = binlogs.table_map(5, "t", 200) + binlogs.write_rows(5, [1], 300, statement_end=False)
    fed.feed(plain(binlogs.query("BEGIN", 100), open_statement, binlogs.xid(400)))
    with pytest.raises(RelayError, match="did not map"):
        fed.feed(binlogs.query("BEGIN", 500) + binlogs.write_rows(5, [1], 600))


def test_several_rows_events_share_a_map(fed: Fed) -> None:
    fed.begin(START)
    maps = binlogs.table_map(5, "t", 200) + binlogs.table_map(6, "u", 300)
    rows = (
        binlogs.write_rows(5, [1, 2], 400, False)
        + binlogs.write_rows(6, [3], 500, False)
        + binlogs.write_rows(5, [4], 600, True)
    )
    fed.feed(plain(binlogs.query("BEGIN", 100), maps, rows, binlogs.xid(700)))
    assert fed.rows() == [("t", INSERT, 2), ("u", INSERT, 1), ("t", INSERT, 1)]


def test_rows_that_do_not_fit_their_table(fed: Fed) -> None:
    fed.begin(START)
    rows = binlogs.changed(binlogs.write_rows(5, [1], 100), lambda event: event.extend(b"\0\7"))
    with pytest.raises(RelayError, match=r"rows of test\.t that do not fit"):
        fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.table_map(5, "t", 70), rows))
    assert not fed.rows()


def test_a_table_is_asked_for_once_until_its_map_changes(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(*(transaction(number, number * 1000) for number in range(1, 6))))
    assert [asked.asks for asked in fed.asked] == ["table"]
    fed.feed(
        binlogs.query("BEGIN", 7000)
        + binlogs.table_map(5, "renamed", 7100)
        + binlogs.write_rows(5, [1], 7200)
        + binlogs.xid(7300)
    )
    assert [asked.asks for asked in fed.asked] == ["table", "table"]
    fed.ingest.new_epoch()
    fed.feed(transaction(9, 8000) + transaction(10, 9000))
    assert [asked.asks for asked in fed.asked] == ["table"] * 3
    assert [table for table, _, _ in fed.rows()] == ["t"] * 5 + ["renamed"] + ["t"] * 2


def test_a_group_that_was_never_ended_leaves_nothing(fed: Fed) -> None:
    fed.begin(START)
    broken = binlogs.query("BEGIN", 1100) + binlogs.table_map(5, "t", 1200) + binlogs.write_rows(5, [1, 2], 1300)
    next_file = binlogs.made(4, struct.pack("<Q", 4) + b"binlog.000002", 1400)
    fed.feed(plain(broken, next_file, binlogs.opening("binlog.000002", 4), transaction(3, 1000)))
    assert fed.rows() == [("t", INSERT, 1)]
    assert fed.writer.state()[:2] == ("binlog.000002", 2000)
    assert fed.ingest.abandoned == 1


def test_a_new_stream_drops_half_a_transaction(fed: Fed) -> None:
    fed.begin(START)
    half = binlogs.query("BEGIN", 2100) + binlogs.table_map(5, "t", 2200) + binlogs.write_rows(5, [1, 2], 2300)
    fed.feed(plain(transaction(1, 1000), half, b"\x50\0"))
    resume = fed.ingest.resume()
    assert (resume.file, resume.position) == ("binlog.000001", 2000)
    fed.ingest.start(resume.file, resume.position)
    fed.feed(plain(transaction(2, 2000, 5), start=Place("binlog.000001", 2000)))
    assert fed.rows() == [("t", INSERT, 1), ("t", INSERT, 5)]


def test_it_stops_between_transactions_when_asked(fed: Fed) -> None:
    fed.begin(START)
    stream = plain(transaction(1, 1000), transaction(2, 2000))
    half = len(plain(binlogs.query("BEGIN", 1100)))
    fed.feed(stream[:half])
    fed.ingest.stop_at_boundary(True)
    fed.feed(stream[half:])
    assert fed.asked[-1].asks == "boundary"
    assert fed.rows() == [("t", INSERT, 1)]
    fed.ingest.stop_at_boundary(False)
    fed.work()
    assert fed.rows() == [("t", INSERT, 1)] * 2


def test_unproven_tables_hold_everything_after_them_back(fed: Fed) -> None:
    waiting: list[int] = []

    def answer(asked: Attention) -> bool:
        packed = msgspec.msgpack.encode(binlogs.defined(asked.body))
        waiting.append(fed.ingest.pending(asked.table_id, packed, packed))
        return True

    fed.answer = answer
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000), transaction(2, 2000)))
    assert fed.rows() == []
    assert len(waiting) == 1
    fed.writer.resolve(waiting[0])
    assert fed.rows() == [("t", INSERT, 1)] * 2


def test_heartbeats_are_signs_of_life_and_nothing_else(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000), binlogs.made(27, b"binlog.000001", 2000), binlogs.made(41, b"\0", 0)))
    assert fed.ingest.heartbeats == 2
    assert fed.ingest.position == 2000
    assert len(fed.asked) == 1


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """Limits the size of files, as a full disk does."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_only_delays(tmp_path: Path, limit_files: Callable[[int], None]) -> None:
    fed = Fed(tmp_path, segment=64 * 1024)
    fed.begin(START)
    count = 3000
    stream = plain(*(transaction(number, number * 1000, 7) for number in range(1, count)))
    limit_files(16 * 1024)
    with pytest.raises(RelayError) as caught:
        fed.feed(stream)
    assert caught.value.code == StopCode.DISK_FULL
    with pytest.raises(RelayError):
        fed.ingest.step()
    limit_files(resource.RLIM_INFINITY)
    fed.work()
    assert fed.rows() == [("t", INSERT, 7)] * (count - 1)
    assert fed.writer.state().sequence == (count - 1) * 7 + 1


def test_a_decompressor_that_fails_is_the_cause(fed: Fed) -> None:
    payload = b"\2\1\0" + b"\3\1\x0a" + b"\1\1\4" + b"\0" + b"junk"
    fed.begin(START)
    with pytest.raises(RelayError, match="compressed event") as caught:
        fed.feed(plain(binlogs.made(40, payload, 100)))
    assert caught.value.__cause__ is not None


def test_counts_go_where_they_are_asked_for(fed: Fed) -> None:
    words = (ctypes.c_uint64 * 512)()
    fed.ingest.count_into((ctypes.addressof(words) + 63) & ~63)
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000, 3), transaction(2, 2000, 4)))
    aligned = ((ctypes.addressof(words) + 63) & ~63) - ctypes.addressof(words)
    counts = list(words)[aligned // 8 :]
    assert (counts[30], counts[19], counts[16]) == (2, 2, 2)  # by event type
    assert counts[256:260] == [7, 0, 0, 2]  # inserted, updated, deleted; transactions


class Script:
    """A long made-up binlog of plain, DDL and XA groups, from any group of it on."""

    def __init__(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        self.groups: list[tuple[int, bytes]] = []  # start in the binlog, packets
        self.values: list[list[int]] = []  # of each ROWS frame to be, in commit order
        self.end = 4
        prepared: list[tuple[int, list[int]]] = []
        number = 0
        while number < count:
            number += 1
            values = [number * 10 + i for i in range(chance.randint(1, 4))]
            kind = chance.random()
            if kind < 0.1 and len(prepared) < 3:
                xid = f"X'{number:08x}',X'',1"
                self._add(
                    binlogs.query(f"XA START {xid}", self.end + 10),
                    binlogs.table_map(5, "t", self.end + 20),
                    binlogs.write_rows(5, values, self.end + 30),
                    binlogs.query(f"XA END {xid}", self.end + 40),
                    binlogs.made(38, struct.pack("<BIII", 0, 1, 4, 0) + number.to_bytes(4, "big"), self.end + 1000),
                )
                prepared.append((number, values))
            elif kind < 0.25 and prepared:
                which, values = prepared.pop(chance.randrange(len(prepared)))
                verb = chance.choice(["COMMIT", "ROLLBACK"])
                self._add(binlogs.query(f"XA {verb} X'{which:08x}',X'',1", self.end + 1000))
                if verb == "COMMIT":
                    self.values.append(values)
            elif kind < 0.3:
                self._add(binlogs.query("ALTER TABLE t FORCE", self.end + 1000))
            else:
                self._add(
                    binlogs.query("BEGIN", self.end + 10),
                    binlogs.table_map(5, "t", self.end + 20),
                    binlogs.write_rows(5, values, self.end + 30),
                    binlogs.xid(self.end + 1000),
                )
                self.values.append(values)

    def _add(self, *packets: bytes) -> None:
        self.groups.append((self.end, b"".join(packets)))
        self.end += 1000

    def stream(self, start: Place) -> bytes:
        return plain(*(packets for at, packets in self.groups if at >= start.position), start=start)


def values_in(fed: Fed) -> list[list[int]]:
    bodies = [frame.body[2:] for frame in fed.frames() if isinstance(frame, frames.Rows)]
    return [[int.from_bytes(body[at + 1 : at + 5], "little") for at in range(0, len(body), 5)] for body in bodies]


def killed_ingest(directory: Path, script: Script, seed: int) -> bool:
    """A child that goes on with the stream; killed after a random while. Whether it came to the end before."""
    pid = os.fork()
    if pid == 0:
        try:
            fed = Fed(directory, segment=64 * 1024)
            if not fed.writer.state().file:
                fed.writer.source(START.position, START.file, "", "test")
            resume = fed.ingest.resume()
            fed.ingest.start(resume.file, resume.position)
            fed.feed(script.stream(Place(resume.file, resume.position)), random.Random(seed).choice([100, 1000, 50000]))
            fed.writer.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    time.sleep(random.Random(seed).uniform(0.005, 0.06))
    os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


def test_a_reader_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    script = Script(2_500, 11)
    kills = 0
    while not killed_ingest(tmp_path, script, kills):
        kills += 1
        assert kills < 1000
    fed = Fed(tmp_path, segment=64 * 1024)
    assert kills > 10
    assert values_in(fed) == script.values
    assert fed.writer.state().position == script.end
