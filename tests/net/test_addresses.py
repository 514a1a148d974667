"""Client addresses: who may log in from which address, and how the login throttle counts addresses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.config.load import load
from relay.config.tree import Config
from relay.net.access import Access
from relay.net.addresses import Addresses
from relay.protocol.classic import Command, Result, encode_admin_request, encode_auth
from relay.protocol.classic_keys import fnv1a64
from tests.serving.test_admin import own_address
from tests.support.cdc_client import CdcClient
from tests.support.cdc_relay import CdcRelay
from tests.support.classic_client import KEY, SECRET, Client
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience, until

OTHER = "127.0.0.2"  # the whole of 127.0.0.0/8 is this machine's


def log(serving: Serving) -> str:
    """What the servers have logged."""
    return "".join(path.read_text() for path in serving.folder.glob("server-*.log"))


def is_closed(sock: socket.socket) -> bool:
    """Whether the other end has closed the connection, without a word."""
    sock.settimeout(patience(20))
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def configured(**settings: str) -> Config:
    """A configuration with these of [Server], and without a file."""
    flags = {f"Server.{key}": value for key, value in settings.items()}
    return load(None, {}, {"Server.AuthSecret": SECRET, "Server.Login": "l", **flags})[0]


@pytest.mark.parametrize(
    ("networks", "address", "inside"),
    [
        (["10.0.0.0/8"], "10.255.0.1", True),
        (["10.0.0.0/8"], "11.0.0.1", False),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", True),
        (["10.0.0.0/8"], "::ffff:11.0.0.1", False),
        (["10.0.0.0/8"], "::10.0.0.1", False),
        (["fe80::/10"], "fe80::1%eth0", True),
        (["2001:db8::/32", "192.0.2.7/32"], "192.0.2.7", True),
        (["2001:db8::/32", "192.0.2.7/32"], "192.0.2.8", False),
        (["::/0"], "192.0.2.8", False),
        (["0.0.0.0/0"], "2001:db8::1", False),
    ],
)
def test_an_address_is_in_a_list_as_what_it_is(networks: list[str], address: str, inside: bool) -> None:
    assert (address in Addresses(networks)) is inside
    assert Addresses(networks).admit(address) is inside


def test_an_empty_list_of_the_configuration_lets_everybody_in() -> None:
    assert Addresses([]).admit("192.0.2.1") and "192.0.2.1" not in Addresses([])


def test_who_may_give_admin_commands_may_connect_where_clients_may_not() -> None:
    access = Access(configured(ClientsFrom="10.0.0.0/8", AdminSecret="a", AdminFrom="192.0.2.1"))
    reachable = {each: access.may_connect(each) for each in ("10.0.0.1", "127.0.0.1", "192.0.2.1", "192.0.2.2", "::1")}
    assert reachable == {"10.0.0.1": True, "127.0.0.1": True, "192.0.2.1": True, "192.0.2.2": False, "::1": True}
    assert access.address_rule("x", "127.0.0.1") == "[Server] ClientsFrom"
    without = Access(configured(ClientsFrom="10.0.0.0/8", AdminFrom="192.0.2.1"))
    assert not without.may_connect("127.0.0.1") and not without.may_connect("192.0.2.1")


def test_nobody_is_listened_to_where_neither_clients_nor_admins_are(tmp_path: Path) -> None:
    with Serving(tmp_path, Server__ClientsFrom=OTHER, Server__AdminSecret="") as serving:
        assert is_closed(Client(serving.port, "127.0.0.1").sock)
        client = Client(serving.port, OTHER)
        client.authenticate("a")
        client.close()
        assert 'address_refused client="" peer=127.0.0.1 rule="[Server] ClientsFrom"' in log(serving)


def test_an_admin_who_may_come_is_no_client_for_it(tmp_path: Path) -> None:
    with Serving(tmp_path, Server__ClientsFrom=OTHER) as serving:
        with socket.create_connection(("127.0.0.1", serving.port), patience(20)) as admin:
            admin.sendall(encode_admin_request(Command.STAT, fnv1a64(ADMIN_SECRET.encode())))
            assert admin.recv(1) == b"\0"
        client = Client(serving.port, "127.0.0.1")
        refused = client.ask(Command.AUTH, encode_auth(KEY, "a"))
        assert refused.result == Result.ERROR
        wrong = client.ask(Command.AUTH, encode_auth(KEY + 1, "a"))
        assert (wrong.result, len(wrong.payload)) == (refused.result, len(refused.payload)), "it tells no secret"
        assert 'address_refused client=a peer=127.0.0.1 rule="[Server] ClientsFrom"' in log(serving)


def test_a_name_has_addresses_of_its_own(tmp_path: Path) -> None:
    conf = tmp_path / "relay.conf"
    conf.write_text(
        f"[Client near]\nSecret = n\nFrom = {OTHER}\n[Client far]\nSecret = f\nFrom = 192.0.2.0/24, 127.0.0.3\n"
    )
    with Serving(tmp_path / "data", conf=conf, Server__ClientsFrom="127.0.0.4", Server__AdminSecret="") as serving:

        def result(address: str, name: str, secret: str) -> Result:
            client = Client(serving.port, address)
            reply = client.ask(Command.AUTH, encode_auth(fnv1a64(secret.encode()), name))
            client.close()
            return Result(reply.result)

        assert result(OTHER, "near", "n") is Result.OK
        assert result("127.0.0.3", "far", "f") is Result.OK
        assert result("127.0.0.4", "anybody", SECRET) is Result.OK
        assert result("127.0.0.3", "near", "n") is Result.ERROR
        assert result("127.0.0.4", "near", "n") is Result.ERROR, "its own list stands in for the general one"
        assert result(OTHER, "anybody", SECRET) is Result.ERROR
        assert is_closed(Client(serving.port, "127.0.0.5").sock)


def test_a_reload_moves_the_door(tmp_path: Path) -> None:
    with Serving(tmp_path, Server__AdminSecret="") as serving:
        before = Client(serving.port, "127.0.0.1")
        before.authenticate("before")
        serving.reload(Server__ClientsFrom=OTHER)
        assert before.ask(Command.PING).result == Result.OK, "who is connected stays so"
        until(lambda: is_closed(Client(serving.port, "127.0.0.1").sock))


@pytest.mark.parametrize("kind", ["mariadb1011"])
def test_cdc_clients_come_from_where_they_may(
    request: pytest.FixtureRequest, start_relay: Callable[..., RelayProcess], kind: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    running = CdcRelay(start_relay, server, From=f"{OTHER}, 2001:db8::/32")
    assert is_closed(socket.create_connection(("127.0.0.1", running.port), patience(20)))
    sock = socket.create_connection(("127.0.0.1", running.port), patience(20), (OTHER, 0))
    CdcClient(0, connection=sock).login(USER, PASSWORD).register()
    sock.close()
    assert 'address_refused client="" peer=127.0.0.1 rule="[CDC] From"' in running.relay.stderr.read_text()


@pytest.mark.parametrize("kind", ["mariadb1011"])
def test_the_page_is_for_those_who_may_ask(
    request: pytest.FixtureRequest, start_relay: Callable[..., RelayProcess], kind: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    here = own_address()
    settings: dict[str, object] = {"Server.HTTPAddress": "0.0.0.0", "Server.HTTPFrom": "2001:db8::/32"}
    relay = start_relay(server, settings)
    assert relay.stat()["state"] == "running", "loopback may always ask"

    def answer() -> bytes:
        with socket.create_connection((here, relay.http_port), patience(20)) as peer:
            peer.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            try:
                return peer.recv(100)
            except ConnectionResetError:
                return b""

    assert answer() == b""
    assert f'address_refused client="" peer={here} rule="[Server] HTTPFrom"' in relay.stderr.read_text()
    relay.conf.write_text(relay.conf.read_text().replace("2001:db8::/32", f"2001:db8::/32, {here}"))
    assert run_relay("reload", "-c", relay.conf).returncode == 0
    assert answer().startswith(b"HTTP/1.1 200")
