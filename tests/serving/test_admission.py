"""Connections without room, in all processes or in one."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil

from examples.dbserver import DatabaseServer
from relay.commands.admin_client import AdminClient
from relay.net.accept import RESERVED_DESCRIPTORS
from relay.protocol.classic import Command, Result
from relay.protocol.classic_keys import fnv1a64
from relay.serving.admission import MOST_EXTRA
from tests.net.test_addresses import log
from tests.runtime.test_reload_live import edit, reload
from tests.support.classic_client import Client
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]


def admin(port: int) -> AdminClient:
    return AdminClient("127.0.0.1", port, ADMIN_SECRET)


def test_admin_commands_are_taken_while_all_connections_are(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__MaxConnections="3") as serving, ExitStack() as stack:
        clients = [serving.client(name, "shop.orders") for name in "abc"]
        for _ in range(MOST_EXTRA - 1):
            stack.enter_context(socket.create_connection(("127.0.0.1", serving.port), patience(10)))
        with admin(serving.port) as commanding:
            assert len(commanding.clients()["clients"]) == 3
            commanding.clients()
        assert "too many connections (MaxConnections = 3)" in serving.connect().authenticate("d").text
        assert 'connection_refused client="" peer=127.0.0.1 reason="too many' in log(serving)
        assert all(client.ask(Command.PING).result == Result.OK for client in clients)


def leave(relay: RelayProcess, server: int, connections: int) -> int:
    """Leave that process so many descriptors for connections; its pid."""
    pid = relay.pids()[f"server-{server}"]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (RESERVED_DESCRIPTORS + connections,) * 2)
    edit(relay, Server__MaxConnections=str(9000 + server))  # a key that has changed is looked at
    reload(relay)
    return pid


def connections_of(pid: int) -> int:
    return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process(pid).net_connections("tcp"))


def answers(clients: list[Client]) -> bool:
    return all(client.ask(Command.PING).payload == b"PONG\0" for client in clients)


def test_a_process_without_descriptors_leaves_connections_to_the_others(
    mariadb1011: DatabaseServer, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011)
    pid = leave(relay, 0, 4)
    clients = [Client(relay.port) for _ in range(40)]
    assert answers(clients)
    assert connections_of(pid) <= 4
    told = relay.stderr.read_text()
    assert "accept_failed" not in told and "connection_refused" not in told


def test_where_no_process_has_descriptors_clients_are_told_so(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, {"Relay.Workers": 1})
    pid = leave(relay, 0, 4)
    until(lambda: connections_of(pid) == 0)
    clients = [Client(relay.port) for _ in range(4)]
    assert answers(clients)
    assert "no file descriptor left" in Client(relay.port).ask(Command.PING).text
    assert 'connection_refused client="" peer=127.0.0.1 reason="the server process has no file' in (
        relay.stderr.read_text()
    )
    clients[0].close()
    until(lambda: connections_of(pid) == 3)
    assert answers([Client(relay.port)])


def test_a_client_that_is_handed_to_a_process_without_descriptors_is_told_so(
    mariadb1011: DatabaseServer, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011)
    pid = leave(relay, 0, 2)
    until(lambda: connections_of(pid) == 0)
    clients = {str(number): Client(relay.port) for number in range(20)}
    key = fnv1a64(SECRET.encode())
    replies = [(name, client.authenticate(name, key)) for name, client in clients.items()]
    refused = {name: reply.text for name, reply in replies if reply.result != Result.OK}
    assert 8 <= len(refused) <= 10, "ten belong to each process, and one has room for two, whosever they are"
    assert all("no file descriptor left" in text for text in refused.values())
    told = relay.stderr.read_text()
    assert all(f"connection_refused client={name} peer=127.0.0.1" in told for name in refused)
