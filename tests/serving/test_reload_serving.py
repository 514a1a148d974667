"""Servers and the broker take a new configuration while they run, and apply it from then on."""

from __future__ import annotations

from pathlib import Path

from relay.commands.admin_client import AdminClient
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Reply, Result
from tests.support.classic_client import PONG, many, parse_many
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience, until


def test_caps_change_for_those_who_come_and_for_what_they_ask(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        kept = serving.client("a", "shop.orders")
        kept.add_filter("shop", "essays")
        serving.insert_long(*((number, "x" * 20_000) for number in range(8)))
        assert len(kept.poll_many(8)) == 8
        serving.reload(Relay__MaxFilters="2", Relay__MaxBufferedBytes="64KiB", Relay__MaxRequestBytes="1024",
                       Server__MaxConnections="2")  # fmt: skip
        assert 0 < len(kept.poll_many(8)) < 8, "a reply has room for fewer"
        assert "MaxFilters" in kept.add_filter("shop", "items").text
        assert kept.ask(Command.PING, bytes(4096)) == PONG, "an old connection keeps its cap on requests"
        second = serving.connect()
        assert second.ask(Command.PING) == PONG  # a server has accepted it: it counts
        with second.sock:
            assert "MaxConnections" in serving.connect().ask(Command.PING).text
        new = serving.once_there_is_room()
        assert new.ask(Command.PING, bytes(4096)).result == Result.ERROR


def test_old_secrets_stop_and_new_ones_work(tmp_path: Path) -> None:
    new, key = "new-admin", classic_keys.fnv1a64(b"new")
    with Serving(tmp_path, Server__AuthAttempts="1") as serving:
        old = serving.client("a", "shop.orders")
        assert old.authenticate("a", key).result == Result.ERROR
        serving.reload(Server__AuthSecret="new", Server__AdminSecret=new, Server__AuthAttempts="1000")
        assert old.authenticate("a").result == Result.ERROR
        assert old.authenticate("a", key).result == Result.OK
        for secret, allowed in ((ADMIN_SECRET, False), (new, True)):
            for _ in range(4):  # whichever server it is
                reply = stat(serving, secret)
                assert (reply.result == Result.OK) == allowed, reply.text


def stat(serving: Serving, secret: str) -> Reply:
    """The reply to the admin command on a connection of its own."""
    client = serving.connect()
    client.sock.sendall(classic.encode_admin_request(Command.STAT, classic_keys.fnv1a64(secret.encode())))
    with client.sock:
        return client.receive()


def test_a_client_that_is_away_too_long_is_forgotten_once_that_is_wanted(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving, AdminClient("127.0.0.1", serving.port, ADMIN_SECRET) as admin:
        client = serving.client("a", "shop.orders")
        assert client.ask(Command.POLL).result == Result.EMPTY
        client.close()
        assert [client["name"] for client in admin.clients()["clients"]] == ["a"]
        serving.reload(Relay__ClientExpiry="1s")
        until(lambda: not admin.clients()["clients"])


def test_a_process_that_cannot_work_with_it_keeps_what_it_has_and_takes_it_as_soon_as_it_can(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for file in (certificate, key):
        file.write_text("nothing yet")
    with Serving(tmp_path / "data") as serving:
        client = serving.client("a", "shop.orders")
        serving.reload(wait=False, Server__TLS="required", Server__TLSCert=str(certificate), Server__TLSKey=str(key),
                       Server__AuthSecret="new")  # fmt: skip
        until(lambda: serving.log("server-0").count("config_not_applied") == 1)
        assert serving.connect().authenticate("b").result == Result.OK, "nothing of it was applied"
        serving.reload(Server__TLS="off", Server__AuthSecret="newer")
        assert client.authenticate("a", classic_keys.fnv1a64(b"newer")).result == Result.OK
        serving.insert((1, "x"))
        assert len(parse_many(client.ask(*many(wait=patience(20))).payload)) == 1
