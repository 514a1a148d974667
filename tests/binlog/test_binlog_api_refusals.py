"""What `relay.binlog.Stream` refuses on real servers: wrong fields, what the server lacks, and calls out of order."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import pymysql
import pytest
from pymysql.cursors import SSCursor

from examples.dbserver import DatabaseServer
from relay.binlog import (
    BinlogError,
    DescriptionError,
    Flag,
    Misuse,
    MisuseError,
    Replication,
    Stream,
    events,
)
from relay.errors import ErrorCode, StopCode
from tests.support.replicated_streams import connect, contents, here, opened, some_id, stream_id
from tests.support.waiting import until

pytestmark = pytest.mark.brands


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
