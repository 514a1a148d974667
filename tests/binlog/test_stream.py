"""The binlog of real servers is opened, fetched and closed; errors name what is not available."""

from __future__ import annotations

import secrets
import socket
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pymysql import _auth

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.binlog.dump import Dump, Request, open_dump
from relay.binlog.events import table_maps as tablemap
from relay.errors import ErrorCode, RelayError, StopCode
from relay.source import commands
from relay.source.commands import ServerError
from relay.source.connect import Account, connect, query, take_socket
from relay.source.facts import binlog_end, binlog_start, gtid_at, query_facts
from relay.source.failures import SourceLost, classify
from tests.support.purging import purge
from tests.support.replicated_streams import some_id
from tests.support.waiting import patience

pytestmark = pytest.mark.brands

TABLE_MAP, QUERY = 19, 2
POLL_SECONDS = 0.1


def account(server: DatabaseServer, **changes: Any) -> Account:
    return msgspec.structs.replace(Account("127.0.0.1", server.port, USER, PASSWORD), **changes)


def start(server: DatabaseServer, request: Request | None = None) -> Dump:
    """A stream from the binlog's end, unless `request` says where from."""
    connection = connect(account(server))
    about = query_facts(connection)
    end = binlog_end(connection, about)
    wanted = request or Request(some_id(), end.file, end.position)
    return open_dump(connection, about.mariadb, wanted, poll_seconds=POLL_SECONDS)


def packets(stream: Dump) -> Iterator[bytes]:
    """The packets of a stream; ends when none has come for ten seconds."""
    data = b""
    buffer = memoryview(bytearray(65536))
    idle = 0
    while idle < patience(10) / POLL_SECONDS:
        count = stream.receive(buffer)
        idle = 0 if count else idle + 1
        data += buffer[:count]
        while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:3], "little")):
            yield data[4 : 4 + size]
            data = data[4 + size :]


def first_error(stream: Dump) -> ServerError:
    return next(error for packet in packets(stream) if (error := commands.parse_error(packet)))


def table_maps(stream: Dump) -> Iterator[tablemap.TableMap]:
    """The table maps that come, of a source with checksums."""
    return (tablemap.parse(p[20:-4]) for p in packets(stream) if p[0] == 0 and p[5] == TABLE_MAP)


def test_a_wrong_password_is_named(server: DatabaseServer) -> None:
    with pytest.raises(RelayError) as denied:
        connect(account(server, password="wrong"))
    assert denied.value.code is StopCode.SOURCE_DENIED
    assert "Access denied" in denied.value.cause


def test_nobody_listening_is_worth_another_attempt() -> None:
    with pytest.raises(SourceLost):
        connect(Account("127.0.0.1", free_port(), USER, PASSWORD))


def test_a_password_may_hold_any_character(server: DatabaseServer) -> None:
    name = f"u{secrets.token_hex(4)}"
    server.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pässwörd€'")
    with connect(account(server, login=name, password="pässwörd€")) as connection:
        assert query(connection, "SELECT 1", "ask") == [(1,)]
    server.execute(f"DROP USER {name}@'%'")


def test_an_account_that_may_not_replicate_is_named(server: DatabaseServer) -> None:
    name = f"u{secrets.token_hex(4)}"
    server.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'")
    connection = connect(account(server, login=name, password="pw"))
    about = query_facts(connection)
    with pytest.raises(RelayError) as denied:
        binlog_end(connection, about)
    assert denied.value.code is StopCode.SOURCE_DENIED
    server.execute(f"DROP USER {name}@'%'")


@pytest.mark.parametrize(
    "request_", [Request(0, "binlog.000001"), Request(1, "a\0b"), Request(1, "x" * 600), Request(1, "b", 3),
    Request(1, "b", 2**32)]
)  # fmt: skip
def test_fields_are_checked_before_anything_is_sent(mariadb118: DatabaseServer, request_: Request) -> None:
    connection = connect(account(mariadb118))
    about = query_facts(connection)
    with pytest.raises(ValueError):
        open_dump(connection, about.mariadb, request_)
    assert not connection.open


def test_a_gtid_position_of_mariadb_is_checked_before_it_is_sent(mariadb118: DatabaseServer) -> None:
    connection = connect(account(mariadb118))
    about = query_facts(connection)
    with pytest.raises(ValueError):
        open_dump(connection, about.mariadb, Request(1, by_gtid=True, gtid_set="0-1-1'; DROP TABLE x"))


def test_a_place_that_is_gone_is_a_named_stop(server: DatabaseServer) -> None:
    stream = start(server, Request(some_id(), "binlog.000001", 2**31))
    found = classify(first_error(stream), "read the binlog")
    stream.close()
    assert isinstance(found, RelayError)
    assert found.code is StopCode.BINLOG_PURGED
    assert "1236" in found.cause


@pytest.mark.usefixtures("young_binlog")
def test_the_places_that_the_source_names_can_be_read(server: DatabaseServer, db: str) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    connection = connect(account(server))
    about = query_facts(connection)
    end = binlog_end(connection, about)
    oldest = binlog_start(connection, about)
    assert oldest.position == 4
    assert end.gtid_set
    assert gtid_at(connection, about, end.file, end.position) == end.gtid_set
    stream = start(server, Request(some_id(), oldest.file, oldest.position))
    assert any(found.schema == db for found in table_maps(stream))
    stream.close()


def test_gtids_that_were_purged_or_never_were_are_named_stops(
    own_server: Callable[..., DatabaseServer], kind: str
) -> None:
    from relay._native import GtidSet

    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    connection = connect(account(server))
    end = binlog_end(connection, query_facts(connection))
    connection.close()
    if kind == "mysql97":
        early, ahead = end.gtid_set.partition(":")[0] + ":1", end.gtid_set.rpartition("-")[0] + "-999"
        requests = [Request(1, by_gtid=True, gtid_set=t, encoded_set=GtidSet(t).encode()) for t in (early, ahead)]
    else:
        early, ahead = f"0-{server.port}-1", f"0-{server.port}-999"
        requests = [Request(1, by_gtid=True, gtid_set=text) for text in (early, ahead)]
    purge(server)
    server.execute("INSERT INTO d.t VALUES (2)")
    for request, code in zip(requests, (StopCode.BINLOG_PURGED, StopCode.GTID_GAP), strict=True):
        stream = start(server, request)
        found = classify(first_error(stream), "read the binlog")
        stream.close()
        assert isinstance(found, RelayError)
        assert found.code is code


def test_tls_goes_on_after_the_connection_is_taken_over(kind: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    if kind == "mariadb1011":  # it has no certificate
        with pytest.raises(RelayError) as refused:
            connect(account(server, tls="required"))
        assert refused.value.code is ErrorCode.SOURCE_UNREACHABLE
        return
    connection = connect(account(server, tls="required"))
    about = query_facts(connection)
    end = binlog_end(connection, about)
    request_ = Request(some_id(), end.file, end.position)
    stream = open_dump(connection, about.mariadb, request_, poll_seconds=POLL_SECONDS)
    assert isinstance(stream._socket, ssl.SSLSocket)
    assert any(packet[0] == 0 for packet in packets(stream))
    stream.close()


def test_without_tls_if_it_is_off(server: DatabaseServer) -> None:
    with connect(account(server, tls="off")) as connection:
        assert not isinstance(take_socket(connection), ssl.SSLSocket)


def test_what_is_private_of_pymysql_is_as_it_was(server: DatabaseServer) -> None:
    connection = connect(account(server))
    taken = take_socket(connection)
    assert isinstance(taken, socket.socket)
    assert not connection.open
    taken.sendall(commands.packet(b"\x0e"))  # COM_PING
    assert taken.recv(100)[4] == 0
    taken.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ServerError(1236, "HY000", "Could not find first log file name in binary log index file"),
        StopCode.BINLOG_PURGED),
        (ServerError(1236, "HY000", "... the source has purged binary logs containing GTIDs ..."),
        StopCode.BINLOG_PURGED),
        (ServerError(1236, "HY000", "bogus data in log event; ..."), StopCode.CHECKSUM_MISMATCH),
        (ServerError(1236, "HY000", "log event entry exceeded max_allowed_packet; ..."), StopCode.EVENT_TOO_LARGE),
        (ServerError(1236, "HY000", "something new"), StopCode.UNKNOWN_EVENT),
        (ServerError(1227, "42000", "Access denied; you need ..."), StopCode.SOURCE_DENIED),
        (ServerError(1789, "HY000", "..."), StopCode.BINLOG_PURGED),
    ],
)  # fmt: skip
def test_what_cannot_be_resumed_is_no_lost_connection(error: ServerError, code: StopCode) -> None:
    found = classify(error, "read the binlog", "binlog.000001:4")
    assert isinstance(found, RelayError)
    assert found.code is code
    assert found.position == "binlog.000001:4"


@pytest.mark.parametrize("code", [1053, 1040, 1927, 2013])
def test_a_server_that_goes_or_is_busy_is_a_lost_connection(code: int) -> None:
    assert isinstance(classify(ServerError(code, "", "..."), "read the binlog"), SourceLost)


def test_what_the_driver_says_is_not_called_the_sources_words() -> None:
    assert "the source says" not in str(classify(ServerError(2003, "", "Can't connect ..."), "connect"))
    assert "the source says" in str(classify(ServerError(1040, "", "Too many connections"), "connect"))


def test_a_login_with_ed25519_is_signed_as_mariadb_verifies_it() -> None:
    # Debian's core package of the server has no plugin for it. The key is the one in MariaDB's documentation.
    public = Ed25519PublicKey.from_public_bytes(b64decode("ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY="))
    challenge = secrets.token_bytes(32)
    public.verify(_auth.ed25519_password(b"secret", challenge), challenge)
