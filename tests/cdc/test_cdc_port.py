"""The CDC port as a service: slow and many clients, limits, TLS, retention, stops and restarts."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from tests.commands.test_cli import self_signed
from tests.support.cdc_client import CdcClient, Refused, Reset, credentials
from tests.support.cdc_relay import CdcRelay
from tests.support.process_memory import anonymous_bytes
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("full_metadata")
TEXT = "x" * 1000


@pytest.fixture
def server(mariadb118: DatabaseServer) -> DatabaseServer:
    """The one that these run on."""
    return mariadb118


def filled(server: DatabaseServer, table: str, rows: int, transactions: int = 1) -> None:
    """Adds transactions of so many rows of about a kilobyte; ids count on."""
    server.execute(f"CREATE TABLE IF NOT EXISTS {table} (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)")
    values = ", ".join([f"('{TEXT}')"] * rows)
    server.execute(*[f"INSERT INTO {table} (t) VALUES {values}"] * transactions)


def slow(running: CdcRelay, table: str, form: str = "JSON") -> CdcClient:
    """A client that requests a table, has a small buffer, and does not read what comes."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    sock.connect(("127.0.0.1", running.port))
    running.clients.append(CdcClient(0, connection=sock))
    return running.clients[-1].login(USER, PASSWORD).register(form).request(table)


def test_a_client_that_does_not_read_costs_nobody_anything_and_gets_all_in_the_end(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench()
    filled(server, f"{db}.t", 100)
    running.stream(f"{db}.t").rows(100)
    sleepers = [slow(running, f"{db}.t", form) for form in ("JSON", "AVRO", "JSON", "AVRO", "JSON")]
    filled(server, f"{db}.t", 1000, 30)
    process = running.relay.pids()["cdc-0"]
    quick = running.stream(f"{db}.t")
    before = anonymous_bytes(process)
    assert [row["id"] for row in quick.rows(30100)] == list(range(1, 30101))
    assert anonymous_bytes(process) - before < 20 << 20
    until(lambda: sum(stream["lag_bytes"] > 1 << 20 for stream in running.streams()) == len(sleepers) + 1)
    assert [row["id"] for row in sleepers[0].rows(30100)] == list(range(1, 30101))
    assert [record["id"] for _, record in islice(sleepers[1].records(), 30100)] == list(range(1, 30101))


def test_a_client_whose_place_is_cut_is_told_so_and_reset(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench(**{
        "Relay.SegmentBytes": "256KiB", "Relay.JournalMaxBytes": "8MiB", "Relay.JournalKeepBytes": "1MiB",
        "Relay.JournalKeepAge": "1s",
    })  # fmt: skip
    filled(server, f"{db}.t", 1000, 12)
    sleeper = slow(running, f"{db}.t")
    until(lambda: sleeper.more())
    filled(server, f"{db}.t", 1000, 30)
    until(lambda: running.relay.stat()["journal"]["first"] > 20 << 20)
    retired = time.time()  # what is deleted stays readable for a moment
    until(lambda: running.seen()["processes"][0]["at"] > retired + 2)
    with pytest.raises(Refused, match=r"ERR fatal error: \S"):
        sleeper.rows(50_000)
    with pytest.raises(Reset):
        sleeper.more()
    # Whoever comes now gets what there is, after the schema.
    filled(server, f"{db}.t", 1)
    first = running.stream(f"{db}.t").rows(1)[0]
    assert first["id"] > 1
    assert "cdc_stream_failed" in running.relay.stderr.read_text()


def test_hundreds_of_streams_are_cursors_on_one_journal(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench(Workers=2)
    for number in range(3):
        filled(server, f"{db}.t{number}", 2)
    clients = [running.stream(f"{db}.t{number % 3}") for number in range(300)]
    for client in clients:
        assert [row["id"] for row in client.rows(2)] == [1, 2]
    filled(server, f"{db}.t0", 1)
    filled(server, f"{db}.t1", 1)
    for number, client in enumerate(clients):
        if number % 3 < 2:
            assert [row["id"] for row in client.rows(1)] == [3]
    until(lambda: sum(stream["rows"] for stream in running.streams()) == 800)
    assert {(stream["user"], stream["table"], stream["state"]) for stream in running.streams()} == {
        (USER, f"t{number}", "streaming") for number in range(3)
    }
    for client in clients:
        client.socket.close()
    until(lambda: not running.streams())


def test_refused_logins_are_counted_and_connections_are_limited(bench: Callable[..., CdcRelay], db: str) -> None:
    running = bench(MaxStreams=4)
    for password in ("a", "b"):
        with pytest.raises(Refused, match="ERROR: Authentication failed"):
            CdcClient(running.port).login(USER, password)
    clients = [running.client() for _ in range(4)]
    assert CdcClient(running.port).closed()
    clients[0].socket.close()
    until(lambda: len(running.streams()) == 3)
    with pytest.raises(Refused):
        CdcClient(running.port).login(USER, "c")
    until(lambda: running.seen()["processes"][0]["refused"] == 3)
    log = running.relay.stderr.read_text()
    assert log.count("auth_failed") == 3 and "connection_refused" in log


def test_the_end_of_the_relay_is_a_reset_behind_what_was_sent(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench()
    filled(server, f"{db}.t", 3)
    client = running.stream(f"{db}.t")
    client.rows(1)
    running.relay.stop()
    assert len(client.rows(2)) == 2
    with pytest.raises(Reset):
        client.more()


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_tls_where_it_is_wanted(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str, tmp_path: Path, mode: str
) -> None:
    cert, key = self_signed(tmp_path)
    running = bench(TLS=mode, **{"Server.TLSCert": cert, "Server.TLSKey": key})
    filled(server, f"{db}.t", 1000)
    client = running.encrypted(cert).login(USER, PASSWORD).register()
    until(lambda: running.relay.stat()["journal"]["committed"] > 900_000)
    assert [row["id"] for row in client.request(f"{db}.t").rows(1000)] == list(range(1, 1001))
    hasty = running.encrypted(cert)
    hasty.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # records of TLS that come in one piece
    for said in (credentials(USER, PASSWORD), b"REGISTER UUID=a, TYPE=JSON\n", f"REQUEST-DATA {db}.t\n".encode()):
        hasty.say(said)
    hasty.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    assert [hasty.line(), hasty.line()] == [b"OK", b"OK"]
    assert len(hasty.rows(1000)) == 1000
    if mode == "optional":
        assert len(running.stream(f"{db}.t").rows(1000)) == 1000
    else:
        naked = CdcClient(running.port)
        running.clients.append(naked)
        naked.say(credentials(USER, PASSWORD))
        assert naked.closed() or naked.received[:1] == b"\x15"  # an alert of TLS


def test_a_source_without_gtids_is_refused_by_name(
    start_relay: Callable[..., RelayProcess], own_server: Callable[..., DatabaseServer]
) -> None:
    server = own_server("mysql97", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--binlog-row-metadata=FULL")
    running = CdcRelay(start_relay, server)
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT)", "INSERT INTO shop.t VALUES (1)")
    until(lambda: running.relay.stat()["rows"]["insert"] == 1)
    client = running.client().request("shop.t")
    assert client.line() == b"ERR the source writes no GTIDs, which this protocol needs"
    assert client.last() == {
        "GTID": "0-0-0",
        "events": 1,
        "timestamp": client.last()["timestamp"],
        "tables": ["shop.t"],
    }
    client.socket.close()
