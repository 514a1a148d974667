"""The parts of the HTTP interface that need no relay."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from relay.base.log import Log
from relay.monitoring import http
from relay.monitoring.http import Content, Latest
from relay.monitoring.stat import Stat
from relay.runtime.process_status import Stop
from tests.support.sample_stat import document


def test_a_document_serves_everybody_for_a_moment() -> None:
    now, collected = [100.0], []

    def collect() -> Stat:
        collected.append(now[0])
        return document()

    def made(of: Stat) -> Content:
        return Content(msgspec.json.encode(of))

    latest = Latest(collect, lambda: now[0])
    first = latest.content("stat", made)
    now[0] += http.FRESH / 2
    assert latest.content("stat", made) is first and latest.document() is latest.document()
    assert collected == [100.0]
    latest.document(now=True)
    assert collected == [100.0, now[0]]
    now[0] += http.FRESH
    assert latest.content("stat", made) is not first
    assert len(collected) == 3


async def asked(path: str, collect: Callable[[], Stat], log: Log, host: str = "") -> bytes:
    """What a server over such documents, called relay.example, answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        application = http.application(Latest(collect), None, log, lambda: ["relay.example"])  # type: ignore[arg-type]
        http.Server(application).serve(listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        named = f"Host: {host}\r\n" if host else ""
        writer.write(f"GET {path} HTTP/1.0\r\n{named}\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer


def test_a_defect_is_an_answer_and_a_line_in_the_log() -> None:
    logged: list[tuple[str, dict[str, object]]] = []

    def collect() -> Stat:
        raise ZeroDivisionError("a secret of ours")

    def log(event: str, **fields: object) -> None:
        logged.append((event, fields))

    answer = asyncio.run(asked("/api/stat", collect, log))
    assert answer.startswith(b"HTTP/1.1 500 ") and b"secret" not in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "Internal Server Error"}
    ((event, fields),) = logged
    assert (event, fields["path"], fields["error"]) == (
        "request_failed",
        "/api/stat",
        "ZeroDivisionError('a secret of ours')",
    )


def test_health_complains_of_nothing_that_has_passed() -> None:
    documents = iter([document(stop=Stop("binlog_purged", "gone", "accept the gap")), document()])

    assert asyncio.run(asked("/readyz", lambda: next(documents), quiet)).startswith(b"HTTP/1.1 200 ")


def test_a_peer_that_takes_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "STALL_MILLISECONDS", 300)

    async def stalled() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as peer:
            listener.setblocking(False)
            server = http.Server(http.application(Latest(document), None, quiet))  # type: ignore[arg-type]
            server.serve(listener)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(listener.getsockname())
            peer.setblocking(False)
            while not server.connections:
                await asyncio.sleep(0.01)
            while server.connections:
                with suppress(BlockingIOError, ConnectionError):
                    peer.send(b"GET /api/stat HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(stalled(), 60))


def quiet(event: str, **fields: object) -> None:
    """A log that nobody reads."""


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("127.0.0.1:6081", True), ("192.0.2.7", True), ("[::1]:6081", True), ("LOCALHOST:6081", True), ("", True),
        ("relay.example:6081", True), ("Relay.Example.", True), ("evil.example", False),
        ("localhost.evil.example", False), ("10.0.0.1.evil.example", False),
    ],
)  # fmt: skip
def test_a_name_that_somebody_else_made_to_point_here_is_not_answered(host: str, answered: bool) -> None:
    for path in ("/", "/api/stat", "/metrics", "/static/main.js", "/nowhere"):
        answer = asyncio.run(asked(path, document, quiet, host))
        assert (answer.split()[1] != b"421") == answered, path
        assert answered or b"HTTPHosts" in answer
    for path in ("/healthz", "/readyz"):
        assert asyncio.run(asked(path, document, quiet, host)).split()[1] in (b"200", b"503")
