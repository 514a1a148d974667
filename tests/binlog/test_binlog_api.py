"""`relay.binlog.Stream`: open, fetch and close on real servers."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import msgspec
import pytest
from pymysql.cursors import DictCursor

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import (
    Flag,
    GtidSet,
    Replication,
    Stream,
    events,
)
from relay.binlog.events import EventType
from tests.support import ROOT
from tests.support.replicated_streams import (
    AROUND,
    boundaries,
    contents,
    here,
    kind,
    opened,
    some_id,
    stream_id,
    work,
)
from tests.support.server_variables import global_variable
from tests.support.waiting import patience, until

pytestmark = pytest.mark.brands


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
