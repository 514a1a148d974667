"""The connection to the source fails in all ways of a network, under load."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from examples.dbserver import DatabaseServer
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, Trial, times
from tests.support.fault_proxy import CutPoint, FaultProxy
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]


@pytest.fixture
def broken(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy) -> Ordeal:
    """broken(fault, tls): around what breaks the link of a relay to its source, under load; each row comes once."""

    def around(fault: str, tls: str = "prefer") -> AbstractContextManager[Trial]:
        relay = start_relay(server, {"Server.Port": proxy.port, "Server.SourceTLS": tls, "Source.Heartbeat": "1s"})
        return ordeal(fault, relay, server, db, Allows.NOTHING, pause=0.01)

    return around


def test_cut_links(broken: Ordeal, proxy: FaultProxy) -> None:
    dice = random.Random(1)
    with broken("Link to the source cut") as trial:
        for number in range(times(60)):
            time.sleep(dice.uniform(0.02, 0.3))
            with trial.fault():
                proxy.cut(reset=number % 2 == 0)


@pytest.mark.parametrize("tls", ["off", "prefer"])
def test_a_reset_at_any_byte(broken: Ordeal, proxy: FaultProxy, tls: str) -> None:
    dice = random.Random(2)
    with broken("Link reset at the n-th byte", tls) as trial:
        for number in range(times(40)):
            proxy.reset_at(int(10 ** dice.uniform(0, 4.5)))
            if number % 2:  # within login and the questions before the dump
                proxy.cut()
            with trial.fault():
                proxy.wait_sprung()
            until(lambda: trial.relay.stat()["source"]["state"] == "streaming", what="it does not connect again")
            time.sleep(dice.uniform(0, 0.2))


@pytest.mark.parametrize("place", ["event", "transaction"])
def test_a_reset_inside(broken: Ordeal, proxy: FaultProxy, place: CutPoint) -> None:
    dice = random.Random(3)
    with broken(f"Link reset inside of {place}s", "off") as trial:
        for _ in range(times(60)):
            with trial.fault():
                proxy.reset_in(place)
                proxy.wait_sprung()
            time.sleep(dice.uniform(0.1, 0.3))


def test_half_open_links(broken: Ordeal, proxy: FaultProxy) -> None:
    dice = random.Random(5)
    with broken("Half-open link to the source") as trial:
        for _ in range(times(5)):
            time.sleep(dice.uniform(0.5, 1.5))
            with trial.fault():
                assert proxy.half_open()
                time.sleep(1)  # until rows have been committed that it does not hear of
            trial.catch_up()


def test_a_link_that_stands_still(broken: Ordeal, proxy: FaultProxy) -> None:
    dice = random.Random(4)
    with broken("Link to the source at a standstill") as trial:
        for number in range(times(6)):
            # Shorter than three heartbeats, and longer.
            with trial.fault(), proxy.standstill():
                time.sleep(dice.uniform(0.5, 2) if number % 2 else dice.uniform(4, 5))
            trial.catch_up()


def test_a_slow_link(broken: Ordeal, proxy: FaultProxy) -> None:
    with broken("Slow link to the source") as trial:
        for rate in [2_000, 10_000, 50_000][: times(3)]:
            with trial.fault(), proxy.slow(rate):
                time.sleep(6)
