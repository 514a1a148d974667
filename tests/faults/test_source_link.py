"""The link to the source breaks in every way that a network has, under load."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest

from examples.dbserver import DatabaseServer
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, times
from tests.faults.proxy import FaultProxy, Place
from tests.relayproc import RelayProcess
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]


@pytest.fixture
def proxy(server: DatabaseServer) -> Iterator[FaultProxy]:
    """Stands between the relay and `server`."""
    with FaultProxy(server.port) as made:
        yield made


def through(proxy: FaultProxy, tls: str = "prefer") -> dict[str, object]:
    return {"Server.Port": proxy.port, "Server.SourceTLS": tls, "Source.Heartbeat": "1s"}


def test_cut_links(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy) -> None:
    relay = start_relay(server, through(proxy))
    dice = random.Random(1)
    with ordeal("Link to the source cut", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for number in range(times(60)):
            time.sleep(dice.uniform(0.02, 0.3))
            with trial.fault():
                proxy.cut(reset=number % 2 == 0)


@pytest.mark.parametrize("tls", ["off", "prefer"])
def test_a_reset_at_any_byte(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy, tls: str
) -> None:
    relay = start_relay(server, through(proxy, tls))
    dice = random.Random(2)
    with ordeal("Link reset at the n-th byte", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for number in range(times(40)):
            proxy.reset_at(int(10 ** dice.uniform(0, 4.5)))
            if number % 2:  # within login and the questions before the dump
                proxy.cut()
            with trial.fault():
                proxy.wait_sprung()
            until(lambda: relay.stat()["source"]["state"] == "streaming", what="it does not connect again")
            time.sleep(dice.uniform(0, 0.2))


@pytest.mark.parametrize("place", ["event", "transaction"])
def test_a_reset_inside(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy, place: Place
) -> None:
    relay = start_relay(server, through(proxy, "off"))
    dice = random.Random(3)
    with ordeal(f"Link reset inside of {place}s", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for _ in range(times(60)):
            with trial.fault():
                proxy.reset_in(place)
                proxy.wait_sprung()
            time.sleep(dice.uniform(0.1, 0.3))


def test_half_open_links(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy
) -> None:
    relay = start_relay(server, through(proxy))
    dice = random.Random(5)
    with ordeal("Half-open link to the source", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for _ in range(times(5)):
            time.sleep(dice.uniform(0.5, 1.5))
            with trial.fault():
                assert proxy.half_open()
                time.sleep(1)  # until rows have been committed that it does not hear of
            trial.catch_up()


def test_a_link_that_stands_still(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy
) -> None:
    relay = start_relay(server, through(proxy))
    dice = random.Random(4)
    with ordeal("Link to the source at a standstill", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for number in range(times(6)):
            # Shorter than three heartbeats, and longer.
            with trial.fault(), proxy.standstill():
                time.sleep(dice.uniform(0.5, 2) if number % 2 else dice.uniform(4, 5))
            trial.catch_up()


def test_a_slow_link(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy) -> None:
    relay = start_relay(server, through(proxy))
    with ordeal("Slow link to the source", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for rate in [2_000, 10_000, 50_000][: times(3)]:
            with trial.fault(), proxy.slow(rate):
                time.sleep(6)
