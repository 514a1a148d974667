"""The state writer beside broker and servers: what waits for it, and what kills leave."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relay.datadir import sync
from relay.protocol import classic
from relay.protocol.classic import Command, FilterName, Result, TableFilter
from tests.support.classic_client import Client
from tests.support.server_processes import Serving

LONG = 60.0  # more than anything here takes


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "data", workers=1) as serving:
        yield serving


def test_rows_do_not_wait_for_the_state_writer_and_acknowledgements_do(serving: Serving) -> None:
    known = serving.client("known", "shop.*")
    other = serving.client("other")
    serving.insert((1, "a"))
    assert known.ids(1) == [1]
    os.kill(serving.pid("state-writer"), signal.SIGSTOP)
    try:
        other.sock.settimeout(1.0)
        other.send(*_filter("stats"))
        with pytest.raises(TimeoutError):
            other.receive()
        for number in range(2, 30):
            serving.insert((number, "a"))
            assert known.ids(1) == [number]
    finally:
        os.kill(serving.pid("state-writer"), signal.SIGCONT)
    other.sock.settimeout(LONG)
    assert other.receive().result == Result.OK


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_queue_that_counts_with_filters_that_were_not_stored_goes_on_with_them(serving: Serving, change: str) -> None:
    """The queue is longer than its ring: what is beyond it is found again by the filters."""
    client = serving.client("late", *(["shop.*"] if change == "add" else ["shop.*", "stats.*"]))
    for number in range(300):
        serving.insert((number, "a"))
    serving.settle()
    os.kill(serving.pid("state-writer"), signal.SIGSTOP)
    if change == "add":
        client.send(*_filter("stats"))
    else:
        client.send(Command.REMOVE_FILTER, classic.encode_filter_name(FilterName(7, "stats", "*")))
    client.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.receive()
    for number in range(300, 310):
        serving.insert((number, "a"), schema="stats", table="visits")
    serving.settle()
    for name in ("broker", "state-writer"):
        serving.kill(name)
    for name in ("state-writer", "broker"):
        serving.start(name)
    client.sock.settimeout(LONG)
    assert client.receive().result == Result.OK
    serving.insert((310, "a"))
    expected = [*range(310 if change == "add" else 300), 310]
    assert client.ids(len(expected)) == expected
    assert serving.arena.stop() is None


def _filter(schema: str) -> tuple[int, bytes]:
    return Command.ADD_FILTER, classic.encode_filter(TableFilter(7, 2, 0, schema, "*"))


@pytest.mark.parametrize("seed", range(2))
def test_acknowledged_filters_outlive_kills_at_random_moments(serving: Serving, seed: int) -> None:
    dice = random.Random(seed)
    acknowledged: dict[str, set[str]] = {}
    clients: dict[str, Client] = {}
    for round in range(40):
        name = f"client {dice.randrange(6)}"
        if name not in clients:
            clients[name] = client = serving.connect()
            client.sock.settimeout(LONG)
            assert client.authenticate(name).result == Result.OK
        client = clients[name]
        client.send(*_filter(f"schema{round}"))
        if dice.random() < 0.6:
            time.sleep(dice.choice([0.0, 0.0, dice.uniform(0, 0.003)]))
            victim = dice.choice(["broker", "state-writer"])
            serving.kill(victim)
            if sync.doubtful(serving.folder, victim):  # as the supervisor does
                serving.kill("broker")
                sync.rewrite(serving.folder / "state.db")
                serving.start("broker")
            serving.start(victim)
        assert client.receive().result == Result.OK
        acknowledged.setdefault(name, set()).add(f"schema{round}")
    serving.kill("broker")
    with closing(sqlite3.connect(f"file:{serving.folder / 'state.db'}?mode=ro", uri=True)) as database:
        found: dict[str, set[str]] = {}
        for name, schema in database.execute(
            "SELECT name, schema_name FROM clients JOIN filters ON clients.id = filters.client"
        ):
            found.setdefault(name, set()).add(schema)
    assert found == acknowledged
