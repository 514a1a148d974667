"""The page and /api/stat of a running relay."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay.stat import Stat
from tests.relayproc import RelayProcess

Start = Callable[..., RelayProcess]


def get(relay: RelayProcess, path: str) -> tuple[str, bytes]:
    with urllib.request.urlopen(f"http://127.0.0.1:{relay.http_port}{path}", timeout=10) as reply:
        return reply.headers["Content-Type"], reply.read()


def test_the_stat_document_is_of_its_type_and_names_all_processes(
    mariadb1011: DatabaseServer, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, {"Relay.Workers": 3})
    kind, body = get(relay, "/api/stat?fresh=1")
    assert kind == "application/json"
    document = msgspec.json.decode(body, type=Stat)
    assert document.state == "running"
    assert document.source.state == "streaming"
    assert [p.name for p in document.processes] == ["reader", "broker", "monitor", "server-0", "server-1", "server-2"]
    assert all(p.state == "running" for p in document.processes)
    assert json.loads(body) == msgspec.to_builtins(document)


def test_there_is_nothing_else(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(relay, "/etc/passwd")
