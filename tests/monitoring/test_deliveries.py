"""What is reported of a client: its connection, its deliveries and repeats, its longest queue."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay.binlog.events.position import BinlogPosition
from relay.client import RelayClient
from relay.ingest.reader_state import ReaderState
from relay.monitoring import stat, stat_collect, state_view
from relay.monitoring.deliveries import Delivery, deliveries
from relay.monitoring.state_view import StateView
from relay.runtime.process_status import StatusPages
from tests.support.classic_client import Client
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.server_processes import Serving
from tests.support.waiting import patience, until


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "data") as running:
        yield running


def known(serving: Serving, client: Client) -> list[Delivery]:
    """The deliveries of a client, newest first."""
    return deliveries(serving.arena, serving.folder / "journal", client.client_id)


def told(serving: Serving, client: Client) -> stat.Client:
    """The client in the stat document."""
    document = stat_collect.collect(serving.config, serving.arena, serving.folder, [], StatusPages())
    return next(each for each in document.clients if each.id == client.client_id)


def test_clients_that_did_not_change_are_the_same_objects_in_the_next_document(serving: Serving) -> None:
    one, two, three = (serving.client(name, "shop.orders") for name in ("one", "two", "three"))
    two.add_filter("shop", "people", kinds=1, limit=5)
    state = StateView(serving.arena, serving.folder)
    first = state.clients()
    assert [each.id for each in first] == [one.client_id, two.client_id, three.client_id]
    assert [len(each.filters) for each in first] == [1, 2, 1]
    assert (first[1].filters[1].table, first[1].filters[1].kinds, first[1].filters[1].limit) == ("people", "I", 5)
    two.add_filter("shop", "items")
    second = state.clients()
    assert [new is old for new, old in zip(second, first, strict=True)] == [True, False, True]
    assert [each.table for each in second[1].filters] == ["orders", "people", "items"]
    serving.insert((1, "a"), table="items")
    until(lambda: state.clients()[1].waiting == 1)
    assert two.poll_many(wait=5)
    second = state.clients()
    assert (second[1].served, second[1].in_flight, second[1].waiting) == (1, 1, 0)
    four = serving.client("four", "shop.orders")
    third = state.clients()
    assert [each.id for each in third] == [*(each.id for each in second), four.client_id]
    assert [new is old for new, old in zip(third[:3], second, strict=True)] == [True, True, True]


def test_what_could_not_be_read_of_the_clients_is_read_again(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    serving.client("one", "shop.orders")
    state = StateView(serving.arena, serving.folder)
    with monkeypatch.context() as fault:
        fault.setattr(state_view, "for_reading", fail)
        assert [each.filters for each in state.clients()] == [()]
        assert state.gaps() == []
    assert [[f.table for f in each.filters] for each in state.clients()] == [["orders"]]
    with closing(ReaderState(serving.folder / "state.db")) as reader_state:
        reader_state.add_gap(1.0, BinlogPosition("a", 4), BinlogPosition("b", 5), "lost")
    assert [gap.cause for gap in state.gaps()] == ["lost"]


def fail(path: Path) -> sqlite3.Connection:
    raise sqlite3.OperationalError(f"{path} is locked")


def test_a_reply_with_rows_is_a_delivery_of_its_first_rows_table(serving: Serving) -> None:
    client = serving.client("reader", "shop.*")
    before = time.time()
    serving.insert((1, "a"), (2, "b"))
    assert client.poll()["id"] == 1
    assert client.poll()["id"] == 2
    serving.update(((1, "a"), (1, "b")), table="items")
    serving.delete((3, "c"), table="people")
    until(lambda: told(serving, client).waiting == 2)
    assert len(client.poll_many(confirmed=2)) == 2
    assert client.poll_many(confirmed=4, wait=0) == []
    found = known(serving, client)
    shown = [(each.schema, each.table, each.kind, each.rows) for each in found]
    assert shown == [("shop", "items", "update", 2), ("shop", "orders", "insert", 1), ("shop", "orders", "insert", 1)]
    assert before - 1 < found[2].at <= found[1].at <= found[0].at < time.time() + 1
    assert found[2].gap_ms is None
    for later, earlier in pairwise(found):
        assert later.gap_ms == pytest.approx((later.at - earlier.at) * 1000, abs=0.01)


def test_the_last_ten_deliveries_are_known_also_when_the_server_was_killed(serving: Serving) -> None:
    client = serving.client("reader", "shop.*")
    for number in range(25):
        serving.insert((number, "a"), table=f"t{number}")
        assert client.poll()["id"] == number
    expected = [f"t{number}" for number in range(24, 14, -1)]
    assert [each.table for each in known(serving, client)] == expected
    assert known(serving, client)[-1].gap_ms is None
    name = f"server-{client.client_id % 2}"
    serving.kill(name)
    serving.start(name)
    assert [each.table for each in known(serving, client)] == expected


def test_a_table_is_not_told_once_its_rows_are_gone_from_the_journal(serving: Serving) -> None:
    client = serving.client("reader", "shop.*")
    serving.insert((1, "a"))
    client.poll()
    while len(serving.writer.segments()) == 1:
        serving.insert_long((2, "x" * 200_000), table="others")
    end = serving.writer.segments()[-1].base
    client.poll()
    serving.cut(end)
    serving.insert((3, "c"))
    until(lambda: told(serving, client).waiting > 0)
    while client.poll()["id"] != 3:
        pass
    found = known(serving, client)
    assert [(each.schema, each.table, each.kind) for each in found][-2:] == [("", "", "insert")] * 2
    assert (found[0].schema, found[0].table, found[0].rows) == ("shop", "orders", 1)


def test_rows_that_are_handed_out_again_count_again(serving: Serving) -> None:
    client = serving.client("reader", "shop.orders")
    serving.insert((1, "a"), (2, "b"), (3, "c"))
    until(lambda: told(serving, client).waiting == 3)
    assert len(client.poll_many()) == 3
    client.close()
    again = serving.client("reader")
    assert len(again.poll_many(rows=2)) == 2
    facts = told(serving, again)
    assert (facts.served, facts.confirmed, facts.in_flight) == (5, 0, 3)
    assert [each.rows for each in known(serving, again)] == [2, 3]


def test_who_is_connected_is_told_with_the_address(serving: Serving) -> None:
    registered = time.time()
    clients = [serving.client(f"reader-{number}", "shop.orders") for number in range(4)]  # some of either server
    for client in clients:
        facts = told(serving, client)
        assert (facts.connected, facts.status, facts.address) == (True, "connected", "127.0.0.1")
        assert registered - 1 < facts.first_seen < time.time() + 1
        first_seen = facts.first_seen
        taken_over = serving.client(facts.name)
        client.close()
        serving.insert((1, "a"))
        taken_over.poll()
        assert told(serving, client).address == "127.0.0.1", "the end of the older connection ends nothing"
        taken_over.close()
        until(lambda client=client: not told(serving, client).connected)  # type: ignore[misc]
        assert told(serving, client).address == ""
        assert told(serving, client).first_seen == first_seen


def test_a_client_without_a_connection_is_away_once_its_last_poll_is_old(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serving.client("reader", "shop.orders")
    never = serving.client("never", "shop.orders")
    client.ask(4)
    clock = time.monotonic_ns
    polled = clock()
    for each in (client, never):
        each.close()
        until(lambda each=each: not told(serving, each).connected)  # type: ignore[misc]
    monkeypatch.setattr(time, "monotonic_ns", lambda: polled + 1_000_000_000)
    assert told(serving, client).status == "polling"
    assert told(serving, never).status == "away"
    monkeypatch.setattr(time, "monotonic_ns", lambda: polled + 3_000_000_000)
    assert told(serving, client).status == "away"


def test_nobody_has_deliveries_who_is_not_known(serving: Serving) -> None:
    assert deliveries(serving.arena, serving.folder / "journal", 77) == []
    assert known(serving, serving.client("new")) == []


def test_counts_of_a_client_outlive_an_orderly_stop(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "reader", SECRET) as client:
        client.add_filter(db, "t")
        mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2), (3)")
        assert client.poll(wait=patience(20))
        before = relay.stat()["clients"][0]
    assert (before["served"], before["max_waiting"], before["status"]) == (1, 3, "connected")
    assert relay.stop() == 0
    relay.start()
    after = relay.stat()["clients"][0]
    kept = ("id", "name", "first_seen", "served", "max_waiting", "filters")
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert (after["status"], after["address"], after["connected"]) == ("away", "", False)
