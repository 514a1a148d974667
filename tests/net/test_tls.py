"""TLS on the classic port: off, optional, required; bridged to the server that owns the client."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import pytest

from relay.client import RelayClient, Row
from relay.commands.admin_client import AdminClient
from relay.protocol.classic import Command, Reply, Result
from relay.serving import admission, listener
from tests.net.test_addresses import log
from tests.support.blocked import Blocked
from tests.support.classic_client import PONG, SECRET, Client, many
from tests.support.relay_process import process_cpu_seconds
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience, until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return cert, key


class Settings(TypedDict):
    """Of the configuration."""

    Server__TLS: str
    Server__TLSCert: str
    Server__TLSKey: str


def settings(certificate: tuple[Path, Path], mode: str) -> Settings:
    """The configuration for TLS in that mode."""
    cert, key = certificate
    return {"Server__TLS": mode, "Server__TLSCert": str(cert), "Server__TLSKey": str(key)}


@pytest.fixture(scope="module", params=["optional", "required"])
def serving(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]
) -> Iterator[Serving]:
    """Two servers that speak TLS."""
    with Serving(tmp_path_factory.mktemp("tls"), **settings(certificate, request.param)) as running:
        yield running


@pytest.fixture
def trust(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """A client's context that trusts the certificate."""
    return ssl.create_default_context(cafile=certificate[0])


def encrypted(client: Client, trust: ssl.SSLContext) -> Client:
    """The client, speaking TLS from now on."""
    client.sock = trust.wrap_socket(client.sock, server_hostname="localhost")
    return client


def rows_of(client: RelayClient, count: int) -> list[Row]:
    """The next rows."""
    rows: list[Row] = []
    while len(rows) < count:
        rows += client.poll_many(count - len(rows), wait=patience(20))
    return rows


def test_clients_of_both_servers_are_served(serving: Serving, trust: ssl.SSLContext) -> None:
    for name, client_type in (("a", RelayClient), ("b", Blocked.client), ("c", RelayClient)):
        with client_type("localhost", serving.port, f"tls-{name}", SECRET, tls=trust) as client:
            client.add_filter(f"tls-{name}")
            rows = [(number, f"{name}{number}") for number in range(50)]
            serving.insert(*rows, schema=f"tls-{name}", table="t")
            assert [(row.after or {})["word"] for row in rows_of(client, 50)] == [word for _, word in rows]


def test_large_row_passes(serving: Serving, trust: ssl.SSLContext) -> None:
    word = "0123456789abcdef" * 200_000
    with RelayClient("localhost", serving.port, "tls-large", SECRET, tls=trust) as client:
        client.add_filter("tls-large")
        serving.insert_long((1, word), schema="tls-large", table="t")
        (row,) = rows_of(client, 1)
        assert row.after == {"id": 1, "word": word}


def test_wait_for_rows_is_ended_by_rows(serving: Serving, trust: ssl.SSLContext) -> None:
    client = encrypted(serving.connect(), trust)
    client.authenticate("tls-wait")
    client.add_filter("tls-wait", "*")
    client.send(*many(wait=patience(20)))
    serving.insert((1, "x"), schema="tls-wait", table="t")
    assert client.receive().payload[:4] == b"\1\0\0\0"
    client.close()


def test_plain_text_is_served_only_where_tls_is_optional(serving: Serving) -> None:
    client = serving.connect()
    if serving.config.server.tls == "optional":
        assert client.ask(Command.PING) == PONG
    else:
        client.send(Command.PING)
        assert client.sock.recv(100)[:1] in (b"\x15", b"")  # an alert, if anything


def test_those_who_break_off_harm_nobody(serving: Serving, trust: ssl.SSLContext) -> None:
    for sent in (b"", b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" + bytes(300)):
        client = serving.connect()
        client.sock.sendall(sent)
        if len(sent) < 10:
            client.close()
        else:
            client.sock.shutdown(socket.SHUT_WR)
            while client.sock.recv(1000):
                pass
    assert encrypted(serving.connect(), trust).ask(Command.PING) == PONG


def test_end_of_the_server_ends_encrypted_connections(
    tmp_path: Path, certificate: tuple[Path, Path], trust: ssl.SSLContext
) -> None:
    with Serving(tmp_path, workers=1, **settings(certificate, "required")) as serving:
        client = encrypted(serving.connect(), trust)
        client.authenticate("a")
        client.wait_for_rows()
        assert serving.kill("server-0", signal.SIGTERM) == 0
        assert client.receive() == Reply(Result.OK, bytes(4))


def test_idle_encrypted_connections_cost_no_cpu(
    tmp_path: Path, certificate: tuple[Path, Path], trust: ssl.SSLContext
) -> None:
    with Serving(tmp_path, workers=1, **settings(certificate, "required")) as serving:
        clients = [encrypted(serving.connect(), trust) for _ in range(20)]
        assert all(client.ask(Command.PING) == PONG for client in clients)
        before = process_cpu_seconds(serving.pid("server-0"))
        time.sleep(2)
        assert process_cpu_seconds(serving.pid("server-0")) - before <= 0.04


def ended(sock: socket.socket) -> bool:
    """Whether the other side has closed the connection; what it said before is read."""
    sock.setblocking(False)
    try:
        return sock.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_who_does_not_log_in_is_hung_up_on_and_who_has_stays(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = patience(5)
    for module in (admission, listener):
        monkeypatch.setattr(module, "LOGIN_SECONDS", late)
    with Serving(tmp_path, workers=1, **settings(certificate, "optional")) as serving, ExitStack() as stack:

        def idle() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", serving.port), timeout=patience(10)))

        client = serving.client("a", "shop.orders")
        started = time.monotonic()
        silent = idle()  # may be TLS or not
        handshake = idle()
        handshake.send(b"\x16\x03\x01")
        begun = idle()
        begun.send(b"\x00")
        commanding = stack.enter_context(AdminClient("127.0.0.1", serving.port, ADMIN_SECRET))
        commanding.clients()
        strangers = [silent, handshake, begun]
        until(lambda: all(map(ended, strangers)))
        assert time.monotonic() - started > late
        assert log(serving).count(" login_late ") == 3
        assert commanding.clients() and client.ask(Command.PING) == PONG
        until(lambda: sum(serving.connections) == 2)
