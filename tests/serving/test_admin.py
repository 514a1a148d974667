"""Admin commands against a running relay: with the right secret, a wrong one, from another host, and while a process of
the relay is restarted; each leaves its line in the log."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient, converted
from relay.commands.text.clients import details
from relay.errors import ErrorCode, ExitCode, RelayError
from relay.monitoring.deliveries import Delivery
from relay.monitoring.stat import Client
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Result
from tests.support import server_processes
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess, run_relay, write_conf
from tests.support.waiting import patience, until

ARGUMENTS: dict[Command, dict[str, str]] = {
    Command.STAT: {},
    Command.LIST_CLIENTS: {},
    Command.EXPLAIN: {"schema": "shop", "table": "resident"},
    Command.FLUSH_CLIENT: {"client": "resident"},
    Command.SEEK_CLIENT: {"client": "resident", "position": "newest"},
    Command.KICK_CLIENT: {"client": "resident"},
    Command.SKIP_ROW: {"client": "resident"},
    Command.PAUSE: {},
    Command.RESUME: {},
    Command.RELOAD: {},
}
"""Commands that do no lasting harm, in an order in which they may be given, with arguments that are right."""

ENDING: dict[Command, dict[str, str]] = {
    Command.FORGET_CLIENT: {"client": "resident"},
    Command.DRAIN: {},
    Command.STOP: {},
}
"""The others, in such an order too."""

EVERY = ARGUMENTS | ENDING


@pytest.fixture(scope="module")
def relay(mariadb1011: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """A relay that listens on every address of this machine and knows a client, `resident`."""
    settings: dict[str, object] = {
        "Server.BindAddress": "0.0.0.0",
        "Server.AuthAttempts": 1000,
        "Relay.LogFormat": "json",
    }
    running = RelayProcess(write_conf(tmp_path_factory.mktemp("relay"), mariadb1011, settings))
    try:
        running.start()
        with RelayClient("127.0.0.1", running.port, "resident", SECRET) as client:
            client.add_filter("shop", "*")
        yield running
    finally:
        running.end()


def give(relay: RelayProcess, command: int, secret: str = ADMIN_SECRET, host: str = "127.0.0.1") -> classic.Reply:
    """Give a command with its arguments and return the reply."""
    arguments = EVERY[Command(command)]
    with socket.create_connection((host, relay.port), patience(20)) as connection:
        payload = json.dumps(arguments).encode() if arguments else b""
        connection.sendall(classic.encode_admin_request(command, classic_keys.fnv1a64(secret.encode()), payload))
        replies = classic.ReplyParser()
        while (reply := replies.next()) is None:
            data = connection.recv(1 << 16)
            assert data, "the relay closed the connection"
            replies.feed(data)
        return reply


def own_address() -> str:
    """An address of this machine that is no loopback one: who connects to it comes from it, as another host would."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family is socket.AF_INET and not each.address.startswith("127."):
                return str(each.address)
    raise AssertionError("this machine has loopback addresses only")


def killed(pid: int | None) -> bool:
    """Kill a process; False if there is none any more."""
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def audit(relay: RelayProcess, event: str, command: Command) -> list[dict[str, str]]:
    """That command's lines in the log."""
    return [each for each in relay.logged(event) if each.get("command") == command.name.lower()]


@pytest.mark.parametrize("command", ARGUMENTS, ids=lambda command: command.name)
def test_the_right_secret_has_the_command_carried_out_and_logged(relay: RelayProcess, command: Command) -> None:
    before = len(audit(relay, "admin", command))
    reply = give(relay, command)
    assert reply.result == Result.OK, reply.text
    lines = audit(relay, "admin", command)[before:]
    if command is Command.STAT:  # it is asked every second by whoever watches
        assert lines == []
    else:
        assert [(line["peer"], line["outcome"]) for line in lines] == [("127.0.0.1", "done")]
        assert ("resident" in lines[0]["arguments"]) == bool(ARGUMENTS[command])


def test_every_command_is_tried() -> None:
    assert set(EVERY) == {command for command in Command if command >= Command.STAT}


@pytest.mark.parametrize("command", EVERY, ids=lambda command: command.name)
def test_a_wrong_secret_is_refused_and_logged(relay: RelayProcess, command: Command) -> None:
    before = len(audit(relay, "admin_refused", command))
    for secret in ("wrong", SECRET):
        reply = give(relay, command, secret)
        assert (reply.result, reply.text) == (Result.ERROR, "wrong AdminSecret")
    refused = audit(relay, "admin_refused", command)[before:]
    assert [(line["peer"], line["reason"]) for line in refused] == [("127.0.0.1", "wrong AdminSecret")] * 2


@pytest.mark.parametrize("command", EVERY, ids=lambda command: command.name)
def test_another_host_is_refused_and_logged(relay: RelayProcess, command: Command) -> None:
    before = len(audit(relay, "admin_refused", command))
    host = own_address()
    reply = give(relay, command, host=host)
    assert (reply.result, "AdminFrom" in reply.text) == (Result.ERROR, True)
    assert [line["peer"] for line in audit(relay, "admin_refused", command)[before:]] == [host]


def test_another_host_may_command_if_it_is_listed(
    mariadb1011: DatabaseServer, start_relay: Callable[..., RelayProcess]
) -> None:
    host = own_address()
    relay = start_relay(mariadb1011, {"Server.BindAddress": "0.0.0.0", "Server.AdminFrom": f"198.51.100.0/24, {host}"})
    assert give(relay, Command.LIST_CLIENTS, host=host).result == Result.OK
    assert give(relay, Command.LIST_CLIENTS, "wrong", host).text == "wrong AdminSecret"


@pytest.mark.parametrize("victim", ["broker", "reader", "server-0"])
@pytest.mark.parametrize(
    "command", [each for each in ARGUMENTS if each != Command.RELOAD], ids=lambda command: command.name
)
def test_a_command_is_answered_while_a_process_is_restarted(relay: RelayProcess, command: Command, victim: str) -> None:
    def die() -> bool:
        try:
            return killed(relay.pids().get(victim))
        except ConnectionError:  # the journal is renewed: the monitor begins anew too
            return False

    until(die, what=f"no {victim}")
    reply = give_again(relay, command)
    assert reply.result == Result.OK, reply.text


def give_again(relay: RelayProcess, command: Command) -> classic.Reply:
    """Give a command until it is answered: who is connected to a process that dies connects again."""

    def given() -> classic.Reply | None:
        try:
            return give(relay, command)
        except (ConnectionError, AssertionError):
            return None

    reply: classic.Reply = until(given, pause=0)
    return reply


def test_commands_that_end_something_do_so_also_while_a_process_is_restarted(
    mariadb1011: DatabaseServer, start_relay: Callable[..., RelayProcess]
) -> None:
    relay = start_relay(mariadb1011, {"Relay.LogFormat": "json"})
    with RelayClient("127.0.0.1", relay.port, "resident", SECRET) as client:
        client.add_filter("shop", "*")
    for command, victim in zip(ENDING, ("broker", "server-0", "server-1"), strict=True):
        assert killed(relay.pids()[victim])
        reply = give_again(relay, command)
        assert reply.result == Result.OK, reply.text
        assert audit(relay, "admin", command)[-1]["outcome"] == "done"
        if command is Command.FORGET_CLIENT:
            assert relay.stat()["clients"] == []
    assert relay.wait() == ExitCode.OK


def test_clients_are_listed_with_their_queues(relay: RelayProcess, name: str) -> None:
    with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
        client.add_filter("shop", "orders", kinds=5, limit=100)
        shown = run_relay("client", "list", "--json", "-c", relay.conf)
        found = {each["name"]: each for each in json.loads(shown.stdout)["clients"]}
        assert {"resident", name} <= set(found)
        assert [(f["schema"], f["table"], f["kinds"], f["limit"]) for f in found[name]["filters"]] == [
            ("shop", "orders", "ID", 100)
        ]
        table = run_relay("client", "list", "-c", relay.conf).stdout
        assert max(map(len, table.splitlines())) <= 80
        assert re.search(rf"^{name[:20]}", table, re.MULTILINE)
        details = run_relay("client", "list", name, "-c", relay.conf).stdout
        assert name in details
        assert "shop.orders ID, at most 100 rows, then drops the newest" in details
    unknown = run_relay("client", "list", "nobody", "-c", relay.conf)
    assert (unknown.returncode, "nobody" in unknown.stderr) == (ExitCode.REFUSED, True)


def test_a_table_is_explained(relay: RelayProcess, name: str) -> None:
    with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
        client.add_filter("Shop", "orders")
        shown = run_relay("explain", "shop.orders", "-c", relay.conf)
        assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
        assert re.search(r"^resident \(\w+\) gets inserts, updates, deletes$", shown.stdout, re.MULTILINE)
        assert "case: the filter has schema 'Shop', the table 'shop'" in " ".join(shown.stdout.split())
        found = json.loads(run_relay("explain", "--json", "shop.orders", "-c", relay.conf).stdout)
    assert {each["name"]: each["kinds"] for each in found["clients"]}.items() >= {"resident": "IUD", name: ""}.items()
    assert run_relay("explain", "orders", "-c", relay.conf).returncode == ExitCode.USAGE


def test_a_client_is_listed_with_its_last_deliveries(tmp_path: Path) -> None:
    with server_processes.Serving(tmp_path) as running:
        client = running.client("a", "shop.orders")
        running.insert((1, "x"), (2, "y"))
        assert client.ids(2) == [1, 2]
        with AdminClient("127.0.0.1", running.port, server_processes.ADMIN_SECRET) as admin:
            found = admin.clients("a")
            assert [each["name"] for each in admin.clients()["clients"]] == ["a"]
        shown = details(converted(found["clients"], list[Client])[0], converted(found["deliveries"], list[Delivery]))
        assert re.search(r"^status +connected from 127.0.0.1, last poll [\d.]+ s ago$", shown, re.MULTILINE)
        assert re.search(r"^deliveries +\S+ \S+ insert shop.orders, 1 row, [\d.]+ s", shown, re.MULTILINE)
        assert shown.count("insert shop.orders, 1 row") == 2
        assert max(map(len, shown.splitlines())) <= 80


def test_a_kicked_client_is_told_so_and_keeps_its_queue(tmp_path: Path) -> None:
    with server_processes.Serving(tmp_path) as running:
        client = running.client("a", "shop.orders")
        running.insert((1, "x"), (2, "y"))
        assert client.poll()["id"] == 1
        with AdminClient("127.0.0.1", running.port, server_processes.ADMIN_SECRET) as admin:
            assert admin.kick("a") == {"connected": True}
            until(lambda: client.ask(Command.PING).result == Result.DISCONNECTED)  # another process ends it
            assert client.closed()
            until(lambda: not admin.kick("a")["connected"])
            with pytest.raises(RelayError) as refused:
                admin.kick("b")
            assert (refused.value.code, "'b'" in str(refused.value)) == (ErrorCode.ADMIN_REFUSED, True)
        again = running.client("a")
        assert again.ids(2) == [1, 2]


def test_a_client_that_waits_for_rows_is_kicked_at_once(tmp_path: Path) -> None:
    with server_processes.Serving(tmp_path, workers=1) as running:
        client = running.client("a", "shop.orders")
        client.wait_for_rows()
        with AdminClient("127.0.0.1", running.port, server_processes.ADMIN_SECRET) as admin:
            admin.kick("a")
        assert client.receive().result == Result.DISCONNECTED
        assert client.closed()


def test_kick_tells_whether_there_was_a_connection(relay: RelayProcess, name: str) -> None:
    with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
        assert run_relay("client", "kick", name, "-c", relay.conf).stdout == f"kicked {name}\n"

        def gone() -> bool:
            shown = run_relay("client", "kick", name, "-c", relay.conf).stdout
            assert shown in (f"kicked {name}\n", f"{name} is not connected\n")
            return "not connected" in shown

        until(gone, pause=0)
        with pytest.raises(RelayError, match="the relay closed the connection"):
            client.poll()
