"""Orderly stops with rows still queued: all of them arrive after the next start, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.protocol.classic import Discard
from tests.support.consumer import Consumer
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience

Start = Callable[..., RelayProcess]
ROWS = 100_000


def attach(relay: RelayProcess, name: str) -> RelayClient:
    return RelayClient("127.0.0.1", relay.port, name, SECRET)


def numbers(consumer: Consumer) -> list[int]:
    return [row.after["id"] for row in consumer.rows if row.after]


def fill(server: DatabaseServer, db: str, table: str, rows: int) -> None:
    """Rows 1 to `rows`, in several transactions."""
    server.execute(f"CREATE TABLE {db}.{table} (id INT PRIMARY KEY, v INT)")
    for first in range(1, rows + 1, 5000):
        last = min(first + 4999, rows)
        server.execute(
            f"INSERT INTO {db}.{table} VALUES " + ", ".join(f"({i}, {i % 7})" for i in range(first, last + 1))
        )


def wait_until_matched(relay: RelayProcess, server: DatabaseServer, db: str) -> None:
    """Returns when a marker row that comes last has been decided for the client "marker"."""
    with attach(relay, "marker") as client:
        client.add_filter(db, "marker")
        server.execute(f"CREATE TABLE {db}.marker (id INT PRIMARY KEY)", f"INSERT INTO {db}.marker VALUES (1)")
        assert client.poll(wait=patience(30)), "the marker row did not come"


def end(relay: RelayProcess, ending: str) -> None:
    if ending == "kill":
        relay.kill()
    else:
        assert relay.stop() == 0


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_hundred_thousand_queued_rows_survive(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, ending: str
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    with attach(relay, "late") as client:
        client.add_filter(db, "many")
    fill(mariadb1011, db, "many", ROWS)
    wait_until_matched(relay, mariadb1011, db)
    end(relay, ending)
    relay.start()
    late = Consumer(relay.port, "late", lambda c: None)
    late.wait_for(ROWS)
    late.stop()
    assert numbers(late) == list(range(1, ROWS + 1))
    assert relay.stat()["clients"][0]["matched"] == ROWS


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("discard", [Discard.OLDEST, Discard.NEWEST])
def test_a_full_limited_queue_survives_as_it_was(
    mariadb1011: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    ending: str,
    discard: Discard,
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    with attach(relay, "limited") as client:
        client.add_filter(db, "many", limit=1000, discard=discard)
    fill(mariadb1011, db, "many", 12_000)
    wait_until_matched(relay, mariadb1011, db)
    end(relay, ending)
    relay.start()
    limited = Consumer(relay.port, "limited", lambda c: None)
    limited.wait_for(1000)
    limited.stop()
    kept = range(11_001, 12_001) if discard == Discard.OLDEST else range(1, 1001)
    assert numbers(limited) == list(kept)
    [facts] = [c for c in relay.stat()["clients"] if c["name"] == "limited"]
    assert facts["matched"] == 12_000
    assert facts["dropped"]["limit_oldest" if discard == Discard.OLDEST else "limit_newest"] == 11_000
