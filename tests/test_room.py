"""Connections for which there is no room, in all processes or in one."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

from relay.admin import AdminClient
from relay.serving.accepting import RESERVED_DESCRIPTORS
from relay.serving.room import MOST_EXTRA
from relay.wire.classic import Command, Result
from tests.serving import ADMIN_SECRET, Serving
from tests.test_addresses import log
from tests.waiting import until


def idle(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def admin(port: int) -> AdminClient:
    return AdminClient("127.0.0.1", port, ADMIN_SECRET)


def test_admin_commands_are_taken_while_all_connections_are(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__MaxConnections="3") as serving, ExitStack() as stack:
        clients = [serving.client(name, "shop.orders") for name in "abc"]
        for _ in range(MOST_EXTRA - 1):
            stack.enter_context(idle(serving.port))
        with admin(serving.port) as commanding:
            assert len(commanding.clients()["clients"]) == 3
            commanding.clients()
        assert "too many connections (MaxConnections = 3)" in serving.connect().authenticate("d").text
        assert 'connection_refused client="" peer=127.0.0.1 reason="too many' in log(serving)
        assert all(client.ask(Command.PING).result == Result.OK for client in clients)


def leave(serving: Serving, server: int, connections: int) -> None:
    """Leave that process so many descriptors for connections. Descriptors that it has open already stay."""
    most = RESERVED_DESCRIPTORS + connections
    resource.prlimit(serving.pid(f"server-{server}"), resource.RLIMIT_NOFILE, (most, most))
    serving.reload(Server__MaxConnections="9999")


def test_a_process_without_descriptors_leaves_connections_to_the_others(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=2) as serving:
        leave(serving, 0, 4)
        clients = [serving.connect() for _ in range(40)]
        assert all(client.ask(Command.PING).payload == b"PONG\0" for client in clients)
        first, second = serving.connections
        assert first <= 4 and first + second == 40
        assert "accept_failed" not in log(serving) and "connection_refused" not in log(serving)


def test_where_no_process_has_descriptors_clients_are_told_so(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__AdminSecret="") as serving:
        leave(serving, 0, 4)
        clients = [serving.connect() for _ in range(4)]
        assert all(client.ask(Command.PING).payload == b"PONG\0" for client in clients)
        assert "no file descriptor left" in serving.connect().receive().text
        assert 'connection_refused client="" peer=127.0.0.1 reason="the server process has no file' in log(serving)
        clients[0].close()
        until(lambda: sum(serving.connections) == 3)
        assert serving.connect().ask(Command.PING).payload == b"PONG\0"


def test_a_client_that_is_handed_to_a_process_without_descriptors_is_told_so(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=2) as serving:
        leave(serving, 0, 2)
        clients = {str(number): serving.connect() for number in range(20)}
        answers = [(name, client.authenticate(name)) for name, client in clients.items()]
        taken = [name for name, answer in answers if answer.result == Result.OK]
        refused = {name: answer.text for name, answer in answers if answer.result != Result.OK}
        assert len(taken) == 12 and len(refused) == 8, "ten belong to each process, and one has room for two"
        assert all("no file descriptor left" in text for text in refused.values())
        assert all(f"connection_refused client={name} peer=127.0.0.1" in serving.log("server-0") for name in refused)
