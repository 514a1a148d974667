"""A first start before the source is reached: an acknowledged filter holds, whenever reading begins."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay._native import JournalReader
from relay.binlog import BinlogError, Stream
from relay.client import RelayClient
from relay.config.load import load
from relay.errors import ErrorCode, RelayError
from relay.journal.frames import Source
from relay.schema import source_tables
from relay.schema.facts import Reply
from tests.support.cdc_client import credentials
from tests.support.reader_process import Reader
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until

ROWS = 100  # committed after the acknowledgement


class Subscriber:
    """Attaches as soon as the port lets it, and takes what comes from then on."""

    def __init__(self, port: int) -> None:
        self.acknowledged = threading.Event()
        self.rejections: list[str] = []
        self.ids: list[int] = []
        self._port, self._stop = port, False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop:
            try:
                with RelayClient("127.0.0.1", self._port, "early", SECRET, timeout=patience(30), patience=0) as client:
                    client.add_filter("d", "t")
                    self.acknowledged.set()
                    while not self._stop:
                        self.ids += [int((row.after or {})["id"]) for row in client.poll_many(wait=0.2)]
            except RelayError as error:
                self.rejections.append(str(error))
                time.sleep(0.01)

    def stop(self) -> None:
        self._stop = True
        self._thread.join(patience(40))


@pytest.mark.parametrize("down", [True, False], ids=["source down", "between port and ready"])
def test_an_acknowledged_filter_holds_for_all_that_is_committed_from_then_on(
    kind: str, own_server: Callable[..., DatabaseServer], relay_conf: Callable[..., Path], down: bool
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    relay = RelayProcess(relay_conf(server))
    if down:
        server.stop()
    subscriber = Subscriber(load(str(relay.conf), {}, {})[0].server.server_port)
    relay.begin()
    try:
        if down:
            subscriber.acknowledged.wait(3)
            server.start()
        wanted: list[int] = []
        numbers = itertools.count()
        with server.connect() as writing, writing.cursor() as cursor:

            def written() -> bool:
                number, holds = next(numbers), subscriber.acknowledged.is_set()
                cursor.execute(f"INSERT INTO d.t VALUES ({number})")
                if holds:
                    wanted.append(number)
                return len(wanted) == ROWS

            until(written, 60, lambda: f"no filter was acknowledged: {subscriber.rejections[-1:]}", 0.002)
        until(lambda: wanted[-1] in subscriber.ids, what="the last row does not come")
        relay.await_ready()
        subscriber.stop()
        lost = sorted(set(wanted) - set(subscriber.ids))
        assert not lost, f"{len(lost)} of {len(wanted)} rows were lost: {lost[:20]}"
    finally:
        relay.end()


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_login_before_the_source_was_ever_reached_is_refused_by_name(
    kind: str, own_server: Callable[..., DatabaseServer], start_relay: Callable[..., RelayProcess]
) -> None:
    server = own_server(kind)
    server.stop()
    relay = start_relay(server)
    with pytest.raises(RelayError) as refused:
        RelayClient("127.0.0.1", relay.port, "early", SECRET, timeout=patience(20), patience=0).connect()
    assert "has not reached its source yet" in str(refused.value)


def test_a_first_start_on_a_busy_source_lacks_nothing(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    make_reader: Callable[..., Reader],
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
    stop = False

    def write() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            while not stop:
                cursor.execute("INSERT INTO d.t VALUES ()")

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        make_reader(server).streaming()
    finally:
        stop = True
        for writer in writers:
            writer.join()
    assert "lacks transactions" not in "".join(capfd.readouterr())


def test_a_first_start_in_a_database_that_is_being_set_up_begins_behind_it(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    make_reader: Callable[..., Reader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)")
    read, columns = source_tables.query_all, iter("bc")

    def after_a_step(*arguments: Any) -> Iterator[list[Reply]]:
        for column in columns:  # in the reader, which is forked from here: each time that it reads the definitions
            server.execute("INSERT INTO d.t (a) VALUES (1)", f"ALTER TABLE d.t ADD {column} INT FIRST")
            break
        return read(*arguments)

    monkeypatch.setattr(source_tables, "query_all", after_a_step)
    running = make_reader(server).streaming()
    server.execute("INSERT INTO d.t VALUES (3, 2, 1)")
    running.until(running.rows)
    assert running.rows() == [("c,b,a", 1)]


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_first_start_that_loses_the_source_while_it_looks_for_statements_is_tried_again(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    make_reader: Callable[..., Reader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d")
    read, fetch, steps = source_tables.query_all, Stream.fetch, iter(["CREATE TABLE d.t (a INT)"])
    lost = iter([BinlogError(ErrorCode.SOURCE_UNREACHABLE, "read the binlog", "the connection is lost")])

    def after_a_step(*arguments: Any) -> Iterator[list[Reply]]:
        for statement in steps:
            server.execute(statement)
        return read(*arguments)

    def fails_once(stream: Stream) -> int:
        for error in lost:
            raise error
        return fetch(stream)

    monkeypatch.setattr(source_tables, "query_all", after_a_step)
    monkeypatch.setattr(Stream, "fetch", fails_once)
    running = make_reader(server).streaming()
    server.execute("INSERT INTO d.t VALUES (1)")
    running.until(running.rows)
    assert running.rows() == [("a", 1)]


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_nobody_may_rely_on_the_journal_before_its_beginning_is_on_disk(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    server = own_server(kind)
    server.stop()
    running = make_reader(server)
    running.until(lambda: running.arena.source_state == "reconnecting")
    assert running.arena.committed == 0
    server.start()
    running.until(lambda: running.arena.committed)
    assert JournalReader(running.journal_dir).flushed() >= running.arena.committed > 0
    assert any(isinstance(frame, Source) and frame.identity for frame in running.frames())


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_login_on_the_cdc_port_waits_for_the_source(
    kind: str, own_server: Callable[..., DatabaseServer], start_relay: Callable[..., RelayProcess]
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.stop()
    port = free_port()
    start_relay(server, {"CDC.Enabled": "yes", "CDC.Port": port, "CDC.Address": "127.0.0.1"})
    with socket.create_connection(("127.0.0.1", port), 3) as client:
        client.sendall(credentials(USER, PASSWORD))
        with pytest.raises(TimeoutError):
            client.recv(100)
        server.start()
        client.settimeout(patience(20))
        assert client.recv(100) == b"OK\n"
        server.execute("INSERT INTO d.t VALUES (1)")
        client.sendall(b"REGISTER UUID=11-1, TYPE=JSON")
        assert client.recv(100) == b"OK\n"
        client.sendall(b"REQUEST-DATA d.t\n")
        got = b""
        while b'"id": 1' not in got:
            part = client.recv(4096)
            assert part, got
            got += part
