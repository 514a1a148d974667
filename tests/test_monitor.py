"""The page and /api/stat of a running relay."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.stat import Stat
from tests.relayproc import SECRET, RelayProcess

Start = Callable[..., RelayProcess]


def get(relay: RelayProcess, path: str) -> tuple[str, bytes]:
    with urllib.request.urlopen(f"http://127.0.0.1:{relay.http_port}{path}", timeout=10) as reply:
        return reply.headers["Content-Type"], reply.read()


def test_names_are_data_and_never_markup(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "<script>alert(1)</script>", SECRET) as client:
        client.add_filter("<b>shop</b>", "a&b")
        kind, body = get(relay, "/")
    assert kind == "text/html; charset=utf-8"
    assert b"<script>" not in body
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert b"&lt;b&gt;shop&lt;/b&gt;.a&amp;b (IUD)" in body


def test_the_stat_document_is_of_its_type_and_names_all_processes(
    mariadb1011: DatabaseServer, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, {"Relay.Workers": 3})
    kind, body = get(relay, "/api/stat")
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
