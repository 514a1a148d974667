"""Both clients: typed rows, confirmation, reconnecting, errors that help."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from relay.client import RelayClient, Row
from relay.errors import ErrorCode, ExitCode, RelayError
from relay.protocol.classic import Discard, TableFilter
from tests.support import ROOT
from tests.support.blocked import Blocked
from tests.support.classic_client import SECRET
from tests.support.server_processes import Serving
from tests.support.waiting import patience


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Two servers."""
    with Serving(tmp_path) as running:
        yield running


@pytest.fixture(params=["blocking", "asyncio"])
def client_type(request: pytest.FixtureRequest) -> Callable[..., RelayClient]:
    """Makes a client; the one for asyncio is called as if it blocked."""
    return RelayClient if request.param == "blocking" else Blocked.client


@pytest.fixture
def connect(serving: Serving, client_type: Callable[..., RelayClient]) -> Callable[[str], RelayClient]:
    """A new client of that name."""
    return lambda name: client_type("127.0.0.1", serving.port, name, SECRET)


Connect = Callable[[str], RelayClient]


def numbers(rows: list[Row]) -> list[int]:
    """The ids of inserted rows."""
    return [row.after["id"] for row in rows if row.after]


def all_rows(client: RelayClient, count: int) -> list[Row]:
    """The next `count` rows, in as many requests as it takes."""
    rows: list[Row] = []
    while len(rows) < count:
        more = client.poll_many(count - len(rows), wait=patience(20))
        assert more
        rows += more
    return rows


def test_rows_are_typed(serving: Serving, connect: Connect) -> None:
    with connect("typed") as client:
        client.add_filter("shop", "orders")
        serving.insert((1, "one"))
        serving.update(((1, "one"), (1, None)))
        serving.delete((1, None))
        rows = all_rows(client, 3)
    assert [(row.kind, row.before, row.after) for row in rows] == [
        ("insert", None, {"id": 1, "word": "one"}),
        ("update", {"id": 1, "word": "one"}, {"id": 1, "word": None}),
        ("delete", {"id": 1, "word": None}, None),
    ]
    assert {(row.schema, row.table) for row in rows} == {("shop", "orders")}
    assert [row.sequence for row in rows] == [1, 2, 3]


def test_poll_waits_for_a_row_or_gives_none(serving: Serving, connect: Connect) -> None:
    with connect("one") as client:
        client.add_filter("shop")
        assert client.poll() is None
        serving.insert((1, "x"), (2, "y"))
        assert numbers([row for row in (client.poll(20), client.poll(20)) if row]) == [1, 2]
        assert client.poll(0.05) is None


def test_filters_are_listed_and_removed(connect: Connect) -> None:
    with connect("filters") as client:
        client.add_filter("shop", "orders", kinds="id", limit=5, discard=Discard.OLDEST)
        client.add_filter("shop")
        assert client.filters() == [TableFilter(5, 1, 5, "shop", "orders"), TableFilter(7, 2, 0, "shop", "*")]
        assert client.remove_filter("shop", "orders", kinds="I") == 0
        assert client.remove_filter("shop", "orders") == 1
        assert len(client.filters()) == 1


def test_leaving_the_block_confirms_and_an_exception_does_not(serving: Serving, connect: Connect) -> None:
    with connect("leaving") as client:
        client.add_filter("shop")
        serving.insert(*((number, "x") for number in range(1, 7)))
        assert numbers(all_rows(client, 2)) == [1, 2]
    with suppress(ZeroDivisionError), connect("leaving") as client:
        assert numbers(all_rows(client, 2)) == [3, 4]
        raise ZeroDivisionError
    with connect("leaving") as client:
        assert numbers(all_rows(client, 4)) == [3, 4, 5, 6]
    with connect("leaving") as client:
        assert client.poll() is None


def test_iteration_that_is_left_goes_on_where_it_was(serving: Serving, connect: Connect) -> None:
    with connect("break") as client:
        client.add_filter("shop")
        serving.insert(*((number, "x") for number in range(10)))
        seen: list[int] = []
        for last in (3, 7, 9):
            for row in client:
                seen += numbers([row])
                if seen[-1] == last:
                    break
        assert seen == list(range(10))


def test_batches_have_rows_and_are_confirmed_by_the_next(serving: Serving, connect: Connect) -> None:
    with connect("batches") as client:
        client.add_filter("shop")
        serving.insert(*((number, "x") for number in range(5)))
        batches = client.batches(2)
        seen = [number for _ in range(2) for number in numbers(next(batches))]
    assert seen == list(range(len(seen)))
    assert 2 <= len(seen) <= 4


def test_connection_that_is_lost_is_made_again_and_nothing_is_lost_or_repeated(
    serving: Serving, connect: Connect
) -> None:
    with connect("again") as client:
        client.add_filter("shop")
        serving.insert(*((number, "x") for number in range(30)))
        seen = numbers(all_rows(client, 10))
        for name in ("server-0", "server-1"):
            serving.kill(name)
            serving.start(name)
        seen += numbers(all_rows(client, 10))
        for name in ("server-0", "server-1"):
            serving.kill(name, signal.SIGTERM)
            serving.start(name)
        seen += numbers(all_rows(client, 10))
    assert seen == list(range(30))


def test_wrong_secret_is_told_with_a_hint(serving: Serving, client_type: Callable[..., RelayClient]) -> None:
    with pytest.raises(RelayError, match="wrong secret") as caught:
        client_type("127.0.0.1", serving.port, "a", "wrong").connect()
    assert caught.value.exit_code == ExitCode.REFUSED
    assert "AuthSecret" in caught.value.hint


def test_refusals_are_errors_with_the_reason(connect: Connect) -> None:
    with connect("refused") as client:
        with pytest.raises(RelayError, match="is empty"):
            client.add_filter("")
        with pytest.raises(RelayError, match="not a combination of I, U and D"):
            client.add_filter("shop", kinds="X")
        assert client.filters() == []


def test_name_used_twice_is_told_instead_of_fought_for(connect: Connect) -> None:
    with connect("twice") as first, connect("twice") as second:
        with pytest.raises(RelayError, match="closed the connection"):
            first.ping()
        second.ping()


def test_no_relay_is_told_at_once(client_type: Callable[..., RelayClient]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(RelayError) as caught:
            client_type("127.0.0.1", port, "a", "b").connect()
    assert caught.value.code == ErrorCode.NOT_RUNNING


def test_port_of_something_else_is_an_error(client_type: Callable[..., RelayClient]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        client = client_type("127.0.0.1", other.getsockname()[1], "a", "b", timeout=patience(5))
        other.settimeout(patience(5))

        def greet() -> None:
            connection, _ = other.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)
            connection.recv(1000)
            connection.close()

        greeter = threading.Thread(target=greet)
        greeter.start()
        with pytest.raises(RelayError) as caught:
            client.connect()
        greeter.join()
    assert caught.value.code == ErrorCode.PROTOCOL


def test_example_prints_rows_and_ends_by_ctrl_c(serving: Serving, tmp_path: Path) -> None:
    conf = (ROOT / "examples" / "client.conf").read_text()
    for old, new in (("Port = 6001", f"Port = {serving.port}"), ("change-me", SECRET)):
        assert old in conf
        conf = conf.replace(old, new)
    (tmp_path / "client.conf").write_text(conf)
    with RelayClient("127.0.0.1", serving.port, "example", SECRET) as before:
        before.add_filter("shop")  # as the example does, so that it finds rows when it starts
    serving.insert((1, "one"))
    serving.update(((1, "one"), (1, "two")))
    command = [sys.executable, "-m", "examples.client", str(tmp_path / "client.conf")]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "example waits for IUD of shop.*\n"
        lines = [program.stdout.readline() for _ in range(2)]
        assert [line.split()[:2] for line in lines] == [["insert", "shop.orders"], ["update", "shop.orders"]]
        assert "one -> two" in lines[1]
        program.send_signal(signal.SIGINT)
        assert program.wait(patience(10)) == 0
    finally:
        program.kill()
        program.communicate()
