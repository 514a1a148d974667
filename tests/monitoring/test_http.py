"""The HTTP interface of a running relay: its responses, and that no client harms another."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urljoin

import msgspec
import psutil
import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient
from relay.monitoring import http as http_port
from relay.monitoring.documents import ClientDetail, Failure, Health, History, TableDetail, TableSchema
from relay.monitoring.schema_report import TableHistory
from relay.monitoring.stat import Stat
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess, write_conf
from tests.support.sample_stat import HOSTILE
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]
Answer = tuple[int, dict[str, str], bytes]

PATHS = {
    "/api/stat": Stat,
    "/api/history": History,
    "/api/schema": list[TableSchema],
    "/healthz": Health,
    "/readyz": Health,
}


@pytest.fixture(scope="module")
def relay(mariadb1011: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One for all tests that leave it as it was."""
    process = RelayProcess(write_conf(tmp_path_factory.mktemp("relay"), mariadb1011))
    process.start()
    try:
        until(lambda: ask(process, "/readyz")[0] == 200, what="ready")
        yield process
    finally:
        process.end()


def ask(relay: RelayProcess, path: str, method: str = "GET", **headers: str) -> Answer:
    """Status, headers in lower case, body."""
    connection = http.client.HTTPConnection("127.0.0.1", relay.http_port, timeout=patience(10))
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    finally:
        connection.close()


def document(relay: RelayProcess, path: str, type: Any, status: int = 200) -> Any:
    found, headers, body = ask(relay, path)
    assert (found, headers["content-type"]) == (status, "application/json"), body
    return msgspec.json.decode(body, type=type)


def dial(relay: RelayProcess, sent: bytes = b"") -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", relay.http_port), timeout=patience(10))
    peer.sendall(sent)
    return peer


def test_every_document_is_of_its_type(relay: RelayProcess) -> None:
    for path, type in PATHS.items():
        document(relay, path, type)
    assert document(relay, "/healthz", Health) == Health(True, [])
    assert document(relay, "/readyz", Health) == Health(True, [])
    stat = document(relay, "/api/stat?fresh=1", Stat)
    assert (stat.state, stat.source.state) == ("running", "streaming")
    assert [process.name for process in stat.processes] == [
        "reader",
        "broker",
        "state-writer",
        "monitor",
        "server-0",
        "server-1",
    ]
    assert {process.state for process in stat.processes} == {"running"}
    whole = ask(relay, "/api/stat")[2]
    assert json.loads(whole) == msgspec.to_builtins(msgspec.json.decode(whole, type=Stat)), "it has nothing else"
    status, headers, body = ask(relay, "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"\nrelay_source_rows_total{" in body


def test_the_page_and_all_that_it_asks_for_is_there(relay: RelayProcess) -> None:
    status, headers, page = ask(relay, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    wanted = {"/" + path for path in re.findall(r'(?:src|href)="(static/[^"]+)"', page.decode())}
    asked: dict[str, str] = {}
    while wanted:
        path = wanted.pop()
        status, headers, body = ask(relay, path)
        assert status == 200, path
        asked[path] = headers["content-type"]
        if path.endswith(".js"):
            imported = re.findall(r'from "(\.[^"]+)"', body.decode())
            wanted |= {urljoin(path, name) for name in imported} - asked.keys()
    assert {path.rpartition(".")[2]: kind for path, kind in asked.items()} == {
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }


def test_every_answer_is_guarded_and_kept_nowhere(relay: RelayProcess) -> None:
    for path in [*PATHS, "/", "/metrics", "/nothing", "/static/nothing", "/api/client"]:
        _, headers, _ = ask(relay, path)
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "tornado" not in headers["server"].lower()


def test_nothing_can_be_written(relay: RelayProcess) -> None:
    for path in [*PATHS, "/", "/metrics", "/api/client?id=1", "/api/table?schema=a&table=b"]:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            status, headers, _ = ask(relay, path, method)
            assert (status, headers["allow"]) == (405, "GET, HEAD"), (method, path)


def test_head_is_get_without_a_body(relay: RelayProcess) -> None:
    status, headers, body = ask(relay, "/healthz", "HEAD")
    assert (status, headers["content-length"], body) == (200, str(len(ask(relay, "/healthz")[2])), b"")


def test_a_body_is_packed_for_those_who_can_unpack(relay: RelayProcess) -> None:
    _, plain, body = ask(relay, "/metrics")
    _, packed, fewer = ask(relay, "/metrics", accept_encoding="deflate, gzip;q=0.5")
    assert "content-encoding" not in plain and packed["content-encoding"] == "gzip"
    assert plain["vary"] == packed["vary"] == "Accept-Encoding"
    assert len(fewer) < len(body) // 3
    assert gzip.decompress(fewer).startswith(b"# HELP relay_info")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api", 404),
        ("/api/stat/", 404),
        ("/index.html", 404),
        ("/static/../web.py", 404),
        ("/static/%2e%2e/web.py", 404),
        ("/static/__init__.py", 404),
        ("/static//etc/passwd", 404),
        ("/api/client", 400),
        ("/api/client?id=-1", 400),
        ("/api/client?id=one", 400),
        ("/api/client?id=" + "9" * 5000, 400),
        ("/api/client?id=4711", 404),
        ("/api/table?schema=shop", 400),
        ("/api/table?schema=%ff&table=a", 400),
        ("/api/table?schema=shop&table=nothing", 404),
        ("/%00", 404),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_said_so(relay: RelayProcess, path: str, status: int) -> None:
    assert document(relay, path, Failure, status).error


def test_garbage_is_answered_or_hung_up_on_and_harms_nobody(relay: RelayProcess) -> None:
    nonsense = [
        b"\0" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET\r\n\r\n",
        b"GET /api/stat HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000,
    ]
    for sent in nonsense:
        with dial(relay) as peer:
            try:
                peer.sendall(sent)
                with suppress(OSError):  # "not connected": it has hung up
                    peer.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: peer.recv(65536), b""))
            except ConnectionError:  # it has read enough of this
                answer = b""
        assert not answer or answer.startswith(b"HTTP/1.1 4"), (sent[:60], answer[:200])
    assert document(relay, "/healthz", Health).ok
    assert not re.search(r"(?m)^\S+ \w+ monitor ", relay.stderr.read_text()), "nothing of it is news"


def test_connections_that_say_nothing_push_out_each_other_and_not_those_that_ask(relay: RelayProcess) -> None:
    asking = http.client.HTTPConnection("127.0.0.1", relay.http_port, timeout=patience(10))
    with ExitStack() as stack:
        stack.callback(asking.close)
        silent = []
        for number in range(http_port.MAX_CONNECTIONS + 50):
            silent.append(stack.enter_context(dial(relay, b"GET / HT")))
            if number % 50 == 0:
                asking.request("GET", "/healthz")
                own = asking.sock
                assert asking.getresponse().read()
        asking.request("GET", "/healthz")
        assert asking.getresponse().status == 200 and asking.sock is own, "it was kept all the time"
        assert silent[0].recv(1) == b"", "the one that was quiet for longest is gone"
        of_monitor = psutil.Process(relay.pids()["monitor"]).net_connections("tcp")
        assert sum(bool(c.raddr) and c.laddr.port == relay.http_port for c in of_monitor) <= http_port.MAX_CONNECTIONS


def test_peers_that_never_read_keep_nobody_waiting(relay: RelayProcess) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    monitor = psutil.Process(relay.pids()["monitor"])
    before = monitor.memory_info().rss
    with ExitStack() as stack:
        for _ in range(20):
            peer = stack.enter_context(dial(relay))
            peer.setblocking(False)
            try:
                while True:
                    peer.send(request * 100)
            except BlockingIOError:  # it takes no more requests, because nobody takes its answers
                pass
        assert document(relay, "/healthz", Health).ok
        document(relay, "/api/stat", Stat)
        assert monitor.memory_info().rss - before < 64 << 20
    assert document(relay, "/healthz", Health).ok


def test_the_monitor_ends_at_once_whoever_is_connected(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    with dial(relay, b"GET /api/stat HTTP/1.1\r\nHost: a\r\n\r\n"), dial(relay, b"GET / HT"), dial(relay):
        assert relay.stop() == 0
    assert " killed " not in relay.stderr.read_text()


def test_a_killed_monitor_is_replaced_and_nobody_else_notices(relay: RelayProcess) -> None:
    before = relay.pids()
    with RelayClient("127.0.0.1", relay.port, "reader", SECRET) as client:
        os.kill(before["monitor"], signal.SIGKILL)
        until(lambda: relay.pids()["monitor"] != before["monitor"], what="another monitor")
        assert client.poll() is None
    after = relay.pids()
    assert {name for name in after if after[name] != before[name]} == {"monitor"}


def test_a_paused_relay_lives_but_is_not_ready(relay: RelayProcess) -> None:
    with AdminClient("127.0.0.1", relay.port, ADMIN_SECRET) as admin:
        admin.pause()
        until(lambda: relay.stat()["state"] == "paused", what="paused")
        time.sleep(http_port.FRESH)  # what was collected before may still be told
        ready = document(relay, "/readyz", Health, 503)
        assert ready == Health(False, ["the relay is paused", "the source is paused"])
        assert document(relay, "/healthz", Health).ok
        admin.resume()
    until(lambda: ask(relay, "/readyz")[0] == 200, what="ready again")


def test_a_client_and_a_table_are_told_in_detail(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], relay: RelayProcess
) -> None:
    db = make_db(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, HOSTILE, SECRET) as client:
        client.add_filter(db, "*")
        mariadb1011.execute(
            f"CREATE TABLE {db}.`a&b \"<i>` (id INT UNSIGNED PRIMARY KEY, `<b>` ENUM('x', 'y') NOT NULL)",
            f"INSERT INTO {db}.`a&b \"<i>` VALUES (1, 'x'), (2, 'y')",
        )
        until(lambda: client.poll() is not None, what="the first row")
        until(lambda: client.poll() is not None, what="the second row")
        (known,) = [known for known in relay.stat()["clients"] if known["name"] == HOSTILE]
        detail = document(relay, f"/api/client?id={known['id']}", ClientDetail)
        assert detail.client.name == HOSTILE
        assert [(d.schema, d.table, d.kind, d.rows) for d in detail.deliveries] == 2 * [(db, 'a&b "<i>', "insert", 1)]
        assert len(detail.history.at) == len(detail.history.waiting) == len(detail.history.confirmed) > 0
        path = f"/api/table?schema={db}&table=a%26b%20%22%3Ci%3E"
        until(lambda: ask(relay, path)[0] == 200, what="the table was counted")
        table = document(relay, path, TableDetail)
        assert [(f.name, f.kinds) for f in table.clients] == [(HOSTILE, "IUD")]
        assert sum(table.minutes.insert) == 2 and table.usage.total.insert == 2
        assert {len(part) for part in msgspec.structs.astuple(table.minutes)} == {60}
        (schema,) = [t for t in document(relay, "/api/schema", list[TableSchema]) if t.schema == db]
        assert schema == table.definition
        assert [(c.name, c.type, c.primary, c.unsigned, c.labels) for c in schema.columns] == [
            ("id", "int(10) unsigned", True, True, []),
            ("<b>", "enum('x','y')", False, False, ["x", "y"]),
        ]
        history = document(relay, path.replace("/api/table", "/api/schema/history"), TableHistory)
        assert (history.table, history.damaged) == ('a&b "<i>', "")
        assert [(c.name, c.type, c.key) for c in history.versions[0].columns] == [
            ("id", "int unsigned", True),
            ("<b>", "enum('x','y')", False),
        ]
