"""`relay.binlog.Stream`: open, fetch and close on real servers; errors before sending, and by name."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec
import pymysql
import pytest
from pymysql.cursors import DictCursor, SSCursor

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import (
    BinlogError,
    DescriptionError,
    Flag,
    GtidSet,
    Misuse,
    MisuseError,
    Replication,
    Stream,
    events,
)
from relay.binlog.events import EventType
from relay.errors import ErrorCode, StopCode
from tests.support import ROOT
from tests.support.replicated_streams import AROUND, boundaries, connect, contents, here, kind, opened, work
from tests.support.server_variables import global_variable
from tests.support.waiting import patience, until

pytestmark = pytest.mark.brands


def some_id() -> int:
    return secrets.randbelow(2**31) + 1000


# -- the use case of the worklog


@pytest.mark.usefixtures("young_binlog")
def test_the_example_reads_from_the_oldest_file_to_the_end(server: DatabaseServer, db: str) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT)", "FLUSH BINARY LOGS", f"INSERT INTO {db}.t VALUES (1)")
    status = server.execute("SHOW BINARY LOGS")
    command = [sys.executable, "-m", "examples.binlog_stream", "127.0.0.1", str(server.port), USER, PASSWORD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=patience(60))
    *lines, last = done.stdout.splitlines()
    said = re.fullmatch(r"read up to (\S+):(\d+), GTIDs \S+", last)
    assert said is not None
    assert (said[1], int(said[2])) >= status[-1][:2]  # MariaDB writes a checkpoint a little later
    kinds = [int(line.split()[1].rstrip(",")) for line in lines]
    assert kinds.count(EventType.FORMAT_DESCRIPTION) == len(status)
    assert kinds.count(EventType.XID) == 1


def test_the_example_says_in_one_line_what_the_server_refuses(server: DatabaseServer) -> None:
    name = f"u{secrets.token_hex(4)}"
    server.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'", f"GRANT REPLICATION CLIENT ON *.* TO {name}@'%'")
    command = [sys.executable, "-m", "examples.binlog_stream", "127.0.0.1", str(server.port), name, "pw"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=patience(60))
    server.execute(f"DROP USER {name}@'%'")
    assert done.returncode == 1
    assert done.stderr.startswith("relay: ")
    assert "REPLICATION SLAVE" in done.stderr
    assert done.stderr.count("\n") == 1


# -- fetch


def test_fetch_gives_one_event_as_the_server_sent_it_and_then_the_end(server: DatabaseServer, db: str) -> None:
    replication = here(server)
    server.execute(f"CREATE TABLE {db}.t (id INT)", f"INSERT INTO {db}.t VALUES (1)")
    with opened(server, replication) as stream:
        packets = []
        while stream.fetch() == 0 and replication.size:
            assert replication.size == len(replication.buffer)
            packets.append(replication.buffer)
        assert (stream.fetch(), replication.size, replication.buffer) == (0, 0, b"")
    assert all(packet[0] == 0 for packet in packets)
    assert all(int.from_bytes(packet[10:14], "little") == len(packet) - 1 for packet in packets)
    assert [kind(packet) for packet in packets][:2] == [EventType.ROTATE, EventType.FORMAT_DESCRIPTION]
    assert kind(packets[-1]) == EventType.XID


@pytest.mark.usefixtures("full_metadata")
def test_iteration_gives_typed_events_and_their_rows(server: DatabaseServer, db: str) -> None:
    replication = here(server)
    server.execute(f"CREATE TABLE {db}.t (id INT, v TEXT)", f"INSERT INTO {db}.t VALUES (1, 'x')")
    with opened(server, replication) as stream:
        found = list(stream)
        (written,) = [event for event in found if isinstance(event, events.WriteRowsEvent)]
        assert [row.after for row in stream.rows(written)] == [{"id": "1", "v": "x"}]
    assert isinstance(found[0], events.RotateEvent)
    assert isinstance(found[-1], events.XidEvent)


def test_fetch_waits_for_what_comes(server: DatabaseServer, db: str) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    with opened(server, here(server, Flag.SKIP_HEARTBEAT, some_id())) as stream:
        for _ in range(2):
            stream.fetch()
        for number in range(3):
            server.execute(f"INSERT INTO {db}.t VALUES ({number})")
            while stream.fetch() == 0 and kind(stream.replication.buffer) != EventType.XID:
                pass
    assert stream.replication.gtid_set


def test_an_event_beyond_16_mb_comes_in_one_piece(mysql97: DatabaseServer, make_db: Callable[..., str]) -> None:
    db = make_db(mysql97)
    mysql97.execute(f"CREATE TABLE {db}.t (v LONGTEXT)")
    replication, size = here(mysql97), 2**24 + 99
    mysql97.execute(f"INSERT INTO {db}.t VALUES (REPEAT('x', {size}))")
    with opened(mysql97, replication) as stream:
        (row,) = [packet for packet in contents(stream) if kind(packet) == EventType.WRITE_ROWS]
    assert len(row) > size
    assert row.count(b"x" * 1000) == size // 1000


def test_any_connection_of_pymysql_will_do(server: DatabaseServer) -> None:
    with closing(server.connect()) as connection, Stream(connection, here(server)) as stream:  # over the socket file
        assert stream.fetch() == 0
    for options in ({"cursorclass": DictCursor}, {"read_timeout": 1}, {"autocommit": True}, {"charset": "latin1"}):
        with opened(server, here(server), **options) as stream:
            assert stream.fetch() == 0


# -- flags


def test_the_gtid_flag_chooses_the_dump_and_an_id_makes_a_replica(server: DatabaseServer) -> None:
    number = some_id()
    replicas = "SHOW REPLICAS" if server.kind.mysql else "SHOW SLAVE HOSTS"
    for flag, command in ((0, "Binlog Dump"), (Flag.GTID, "Binlog Dump GTID" if server.kind.mysql else "Binlog Dump")):
        with opened(server, here(server, flag, number)) as stream:
            stream.fetch()
            thread = f"SELECT COMMAND FROM information_schema.PROCESSLIST WHERE ID = {stream_id(stream)}"
            assert server.execute(thread)[0][0] == command
            assert number in [row[0] for row in server.execute(replicas)]
    with opened(server, here(server)) as stream:
        stream.fetch()
        assert 0 not in [row[0] for row in server.execute(replicas)]


def stream_id(stream: Stream) -> int:
    """The server's number of the connection."""
    connection: Any = stream._connection
    return int(connection.thread_id())


def test_annotations_come_from_mariadb_if_asked_for(mariadb118: DatabaseServer, make_db: Callable[..., str]) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT)")
    start = here(mariadb118)
    statement = f"INSERT INTO {db}.t VALUES (1)"
    mariadb118.execute(statement)
    for flags, expected in ((Flag.NON_BLOCK, []), (Flag.NON_BLOCK | Flag.SEND_ANNOTATE_ROWS, [statement])):
        with opened(mariadb118, msgspec.structs.replace(start, flags=flags)) as stream:
            assert [e.statement for e in stream if isinstance(e, events.AnnotateRowsEvent)] == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (Flag(0), [events.HeartbeatEvent]),
        (Flag.HEARTBEAT_V2, [events.HeartbeatV2Event]),
        (Flag.SKIP_HEARTBEAT, []),
        (Flag.HEARTBEAT_V2 | Flag.SKIP_HEARTBEAT, []),
    ],
)
def test_heartbeats_come_as_they_are_asked_for_and_move_nothing(
    mysql97: DatabaseServer, make_db: Callable[..., str], flags: Flag, expected: list[type]
) -> None:
    # A server tells a replica that begins by GTID of what it passes over with heartbeats.
    db = make_db(mysql97)
    mysql97.execute(f"CREATE TABLE {db}.t (id INT)")
    everything = here(mysql97).gtid_set
    wanted = Replication(gtid_set=everything, flags=flags | Flag.GTID | Flag.NON_BLOCK)
    heard: list[type] = []
    with opened(mysql97, wanted) as stream:
        before = wanted.position
        for event in stream:
            if isinstance(event, events.HeartbeatEvent | events.HeartbeatV2Event):
                heard.append(type(event))
                assert (wanted.gtid_set, wanted.position) == (everything, before)
            before = wanted.position
    assert heard == expected


# -- where it stands


def test_a_stream_goes_on_anywhere_without_loss_and_repeats_no_whole_transaction(
    server: DatabaseServer, db: str
) -> None:
    replication = here(server)
    work(server, db)
    with opened(server, replication) as stream:
        everything: list[bytes] = []
        places: list[tuple[int, Replication]] = []  # how much had come, and what the description said
        while stream.fetch() == 0 and replication.size:
            if kind(replication.buffer) not in AROUND:
                everything.append(replication.buffer)
            places.append((len(everything), msgspec.structs.replace(replication, buffer=b"")))
    ends = boundaries(everything)
    assert len(ends) > 12
    for number, (seen, place) in list(enumerate(places))[::2]:
        begun = max(end for end in ends if end <= seen)
        for by in (0, Flag.GTID) if number % 6 == 0 else (0,):
            wanted = msgspec.structs.replace(place, flags=place.flags | by)
            with opened(server, wanted) as stream:
                assert contents(stream) == everything[begun:], f"event {number}, from {place}"
                assert wanted.gtid_set == replication.gtid_set


def test_the_description_follows_file_position_and_gtid_set(server: DatabaseServer, db: str) -> None:
    replication = here(server)
    work(server, db)

    def caught_up() -> Replication | None:
        with opened(server, replication) as stream:
            for _ in stream:
                pass
        end = here(server)
        place = (replication.file_name, replication.start_position)
        return end if place == (end.file_name, end.start_position) else None

    # MariaDB writes a checkpoint some time after a file's beginning.
    end = until(caught_up, what=lambda: (replication, here(server)))
    assert replication.position == end.start_position
    assert GtidSet(replication.gtid_set) == GtidSet(end.gtid_set)


@pytest.mark.usefixtures("young_binlog")
def test_from_the_beginning_of_a_file_the_gtid_set_is_complete(server: DatabaseServer, db: str) -> None:
    work(server, db)
    oldest = server.execute("SHOW BINARY LOGS")[0][0]
    replication = Replication(oldest, flags=Flag.NON_BLOCK)
    with opened(server, replication) as stream:
        contents(stream)
    assert GtidSet(replication.gtid_set) == GtidSet(here(server).gtid_set)


def test_no_file_name_is_the_oldest_file(server: DatabaseServer) -> None:
    replication = Replication(flags=Flag.NON_BLOCK)
    with opened(server, replication) as stream:
        stream.fetch()
        assert replication.file_name == server.execute("SHOW BINARY LOGS")[0][0]


def test_checksums_may_change_under_a_stream(server: DatabaseServer, db: str) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    replication = here(server)
    before = server.execute("SELECT @@GLOBAL.binlog_checksum")[0][0]
    other = "NONE" if before == "CRC32" else "CRC32"
    for _ in range(2):
        with global_variable(server, "binlog_checksum", other):
            server.execute(f"INSERT INTO {db}.t VALUES (1)")
        server.execute(f"INSERT INTO {db}.t VALUES (1)")
    with opened(server, replication) as stream:
        found = [type(event) for event in stream]
    assert found.count(events.XidEvent) == 4


# -- what is wrong


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"file_name": 7}, "file_name"),
        ({"file_name": "x" * 512}, "file_name"),
        ({"file_name": "a\0b"}, "file_name"),
        ({"file_name": "../binlog.000001"}, "file_name"),
        ({"start_position": "4"}, "start_position"),
        ({"start_position": 3}, "start_position"),
        ({"start_position": 2**32}, "start_position"),
        ({"start_position": True}, "start_position"),
        ({"server_id": -1}, "server_id"),
        ({"server_id": 2**32}, "server_id"),
        ({"server_id": 0, "flags": 0}, "server_id"),
        ({"server_id": None}, "server_id"),
        ({"flags": 1 << 20}, "flags"),
        ({"flags": 0x80}, "flags"),
        ({"flags": "x"}, "flags"),
        ({"gtid_set": "nonsense"}, "gtid_set"),
        ({"gtid_set": b"0-1-1", "flags": Flag.GTID | Flag.NON_BLOCK}, "gtid_set"),
        ({"gtid_set": "nonsense", "flags": Flag.GTID | Flag.NON_BLOCK}, "gtid_set"),
    ],
)
def test_every_field_is_checked_before_anything_is_sent(
    mysql97: DatabaseServer, fields: dict[str, Any], name: str
) -> None:
    given: dict[str, Any] = {"file_name": "binlog.000001", "flags": Flag.NON_BLOCK} | fields
    wanted = Replication(**given)
    with connect(mysql97) as connection:
        stream = Stream(connection, wanted)
        with pytest.raises(DescriptionError) as wrong:
            stream.open()
        assert (wrong.value.position, wrong.value.code, wrong.value.errno) == (name, ErrorCode.USAGE, 0)
        assert wrong.value.hint
        with connection.cursor() as cursor:  # the connection is as it was
            assert cursor.execute("SELECT 1") == 1


def test_a_gtid_set_is_of_the_servers_kind(server: DatabaseServer) -> None:
    theirs = "0-1-7" if server.kind.mysql else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    with connect(server) as connection, pytest.raises(DescriptionError, match="gtid_set"):
        Stream(connection, Replication(gtid_set=theirs, flags=Flag.GTID | Flag.NON_BLOCK)).open()


def test_the_servers_error_has_its_number_and_text(server: DatabaseServer) -> None:
    wanted = Replication("binlog.999999", flags=Flag.NON_BLOCK)
    with opened(server, wanted) as stream:
        for _ in range(2):  # it stays what it is
            with pytest.raises(BinlogError) as refused:
                stream.fetch()
            assert refused.value.errno == 1236
            assert "first log file" in refused.value.text
            assert refused.value.code is StopCode.BINLOG_PURGED
            assert refused.value.position == "binlog.999999:4"
            assert "SHOW BINARY LOGS" in refused.value.hint
            assert (wanted.size, wanted.buffer) == (-1, b"")


def test_gtids_that_the_server_lacks_are_named(server: DatabaseServer, db: str) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    theirs = f"{server.execute('SELECT @@server_uuid')[0][0]}:1-999999" if server.kind.mysql else "0-999999-1"
    wanted = Replication(gtid_set=theirs, flags=Flag.GTID | Flag.NON_BLOCK)
    with opened(server, wanted) as stream, pytest.raises(BinlogError) as lacking:
        contents(stream)
    assert lacking.value.code is StopCode.GTID_GAP
    assert lacking.value.errno in (1236, 1885)
    assert "999999" in lacking.value.position


def test_an_account_without_the_right_is_told_so(server: DatabaseServer) -> None:
    name = f"u{secrets.token_hex(4)}"
    server.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'")
    with pymysql.connect(host="127.0.0.1", port=server.port, user=name, password="pw") as connection:
        stream = Stream(connection, Replication("binlog.000001", server_id=some_id()))
        with pytest.raises(BinlogError) as denied, stream:
            stream.fetch()
        assert denied.value.code is StopCode.SOURCE_DENIED
        assert denied.value.errno in (1227, 1045)
        assert "Access denied" in denied.value.text
    server.execute(f"DROP USER {name}@'%'")


def test_a_second_replica_with_the_same_id_ends_the_first_by_name(server: DatabaseServer) -> None:
    wanted = here(server, server_id=some_id(), flags=0)
    with opened(server, wanted) as first:
        first.fetch()
        with opened(server, msgspec.structs.replace(wanted)) as second:
            second.fetch()
            with pytest.raises(BinlogError) as clash:
                contents(first)
    assert clash.value.code is StopCode.SERVER_ID_CLASH
    assert clash.value.errno in (1236, 4052)


def test_a_lost_connection_is_named_and_the_description_goes_on(server: DatabaseServer, db: str) -> None:
    wanted = here(server, 0, some_id())
    with opened(server, wanted) as stream:
        stream.fetch()
        place = wanted.start_position
        server.execute(f"KILL {stream_id(stream)}")
        with pytest.raises(BinlogError) as lost:
            contents(stream)
        assert lost.value.code is ErrorCode.SOURCE_UNREACHABLE
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    wanted.flags = Flag.NON_BLOCK
    with opened(server, wanted) as stream:
        assert wanted.start_position == place
        assert any(isinstance(event, events.QueryEvent) and f"{db}.t" in event.statement for event in stream)


# -- misuse


def misused(misuse: Misuse, call: Callable[[], object]) -> None:
    with pytest.raises(MisuseError) as wrong:
        call()
    assert wrong.value.misuse is misuse
    assert wrong.value.code is ErrorCode.USAGE
    assert wrong.value.cause
    assert wrong.value.hint


def test_order_of_open_fetch_and_close(server: DatabaseServer) -> None:
    with connect(server) as connection:
        stream = Stream(connection, here(server))
        misused(Misuse.NOT_OPEN, stream.fetch)
        misused(Misuse.NOT_OPEN, stream.close)
        misused(Misuse.NOT_OPEN, lambda: list(stream))
        assert stream.open() == 0
        misused(Misuse.ALREADY_OPEN, stream.open)
        assert stream.fetch() == 0
        stream.close()
        misused(Misuse.CLOSED, stream.fetch)
        misused(Misuse.CLOSED, stream.close)
        misused(Misuse.CLOSED, stream.open)
        misused(Misuse.CLOSED, stream.__enter__)


def test_a_connection_with_a_stream_can_only_be_closed(server: DatabaseServer) -> None:
    connection = connect(server)
    uses: list[Callable[[], object]] = [
        lambda: connection.query("SELECT 1"),
        lambda: connection.cursor().execute("SELECT 1"),
        lambda: connection.ping(),
        lambda: connection.commit(),
        lambda: connection.rollback(),
        lambda: connection.begin(),
        lambda: connection.connect(),
        lambda: connection.select_db("mysql"),
        lambda: connection.set_character_set("utf8mb4"),
        Stream(connection, here(server)).open,
    ]
    stream = Stream(connection, here(server))
    stream.open()
    for use in uses:
        misused(Misuse.CONNECTION_TAKEN, use)
    assert stream.fetch() == 0  # nothing of it reached the server
    stream.close()
    for use in uses:
        misused(Misuse.CONNECTION_TAKEN, use)
    connection.close()


def test_a_closed_connection_ends_its_stream(server: DatabaseServer) -> None:
    connection = connect(server)
    stream = Stream(connection, here(server, 0, some_id()))
    stream.open()
    stream.fetch()
    connection.close()
    misused(Misuse.CONNECTION_CLOSED, stream.fetch)
    stream.close()
    misused(Misuse.CLOSED, stream.fetch)


def test_a_connection_that_is_not_open_carries_no_stream(server: DatabaseServer) -> None:
    closed = connect(server)
    closed.close()
    misused(Misuse.CONNECTION_CLOSED, Stream(closed, Replication(flags=Flag.NON_BLOCK)).open)
    never = connect(server, defer_connect=True)
    misused(Misuse.CONNECTION_CLOSED, Stream(never, Replication(flags=Flag.NON_BLOCK)).open)
    with pytest.raises(TypeError, match="PyMySQL"):
        Stream(object(), Replication()).open()  # type: ignore[arg-type]


def test_a_result_has_to_be_read_before(server: DatabaseServer) -> None:
    with connect(server, cursorclass=SSCursor) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1 UNION SELECT 2")
        stream = Stream(connection, here(server))
        misused(Misuse.UNREAD_RESULT, stream.open)
        assert len(cursor.fetchall()) == 2
        assert stream.open() == 0
        stream.close()


def test_what_was_refused_leaves_a_connection_that_can_be_closed(server: DatabaseServer) -> None:
    with connect(server) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            ((number,),) = cursor.fetchall()
        server.execute(f"KILL {number}")
        until(lambda: not server.execute(f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {number}"))
        with pytest.raises(BinlogError) as lost:
            Stream(connection, here(server)).open()
        assert lost.value.code is ErrorCode.SOURCE_UNREACHABLE
