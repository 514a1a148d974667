"""SIGKILL and SIGSTOP of the relay's processes under load: of each kind, of all at once, of the supervisor."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from examples.dbserver import KINDS
from tests.faults import whole
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, times
from tests.relayproc import RelayProcess
from tests.test_kill import living
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]
MakeDb = Callable[..., str]

# What may come twice when it dies. A process of the CDC port begins the last transaction of its clients again.
VICTIMS = {
    "reader": Allows.NOTHING,
    "broker": Allows.NOTHING,
    "server-": Allows.IN_FLIGHT,
    "cdc-": Allows.IN_FLIGHT,
    "exporter": Allows.NOTHING,
    "logger": Allows.NOTHING,
    "monitor": Allows.NOTHING,
}
ON = [(victims, list(KINDS)[number % len(KINDS)]) for number, victims in enumerate(VICTIMS)]


def signalled(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it was just replaced; the next round finds the new one
        os.kill(pid, number)


@pytest.mark.parametrize(("victims", "kind"), ON)
def test_killed(
    request: pytest.FixtureRequest,
    make_db: MakeDb,
    start_relay: Start,
    ordeal: Ordeal,
    tmp_path: Path,
    victims: str,
    kind: str,
) -> None:
    server = request.getfixturevalue(kind)
    db, dice = make_db(server), random.Random(5)
    settings = whole.settings(tmp_path / "data", db)
    relay = start_relay(server, settings)
    fault = f"SIGKILL of the {victims.rstrip('-')}"
    with ordeal(fault, relay, server, db, VICTIMS[victims], pause=0.002, cdc=settings["CDC.Port"]) as trial:
        while len(trial.faults) < times(60):
            time.sleep(dice.uniform(0.005, 0.3))
            if pids := living(relay, victims):
                with trial.fault():
                    signalled(dice.choice(pids), signal.SIGKILL)
    whole.check(trial, relay, tmp_path / "data", db)


@pytest.mark.parametrize(("victims", "kind"), ON)
def test_stopped_and_continued(
    request: pytest.FixtureRequest,
    make_db: MakeDb,
    start_relay: Start,
    ordeal: Ordeal,
    tmp_path: Path,
    victims: str,
    kind: str,
) -> None:
    """A process that stands still is nobody's death: what waits for it waits, and nothing is repeated."""
    server = request.getfixturevalue(kind)
    db, dice = make_db(server), random.Random(6)
    settings = whole.settings(tmp_path / "data", db)
    relay = start_relay(server, settings)
    fault = f"SIGSTOP of the {victims.rstrip('-')}, then SIGCONT"
    with ordeal(fault, relay, server, db, Allows.NOTHING, pause=0.002, cdc=settings["CDC.Port"]) as trial:
        pids = living(relay, victims)
        while len(trial.faults) < times(40):
            time.sleep(dice.uniform(0.005, 0.2))
            with trial.fault():
                pid = dice.choice(pids)
                signalled(pid, signal.SIGSTOP)
                time.sleep(dice.choice((0.001, 0.01, 0.1, 0.8)))
                signalled(pid, signal.SIGCONT)
    assert not any(process["restarts"] for process in relay.stat()["processes"])
    whole.check(trial, relay, tmp_path / "data", db)


def test_all_killed_at_once(
    request: pytest.FixtureRequest, make_db: MakeDb, start_relay: Start, ordeal: Ordeal, tmp_path: Path
) -> None:
    """All children together, which the supervisor outlives."""
    server = request.getfixturevalue("mariadb118")
    db, dice = make_db(server), random.Random(7)
    settings = whole.settings(tmp_path / "data", db)
    relay = start_relay(server, settings)
    with ordeal(
        "SIGKILL of all children at once", relay, server, db, Allows.IN_FLIGHT, pause=0.002, cdc=settings["CDC.Port"]
    ) as trial:
        while len(trial.faults) < times(40):
            time.sleep(dice.uniform(0.01, 1.0))
            pids = living(relay, "")
            if len(pids) < 2:
                continue
            dice.shuffle(pids)
            with trial.fault():
                for pid in pids:
                    signalled(pid, signal.SIGKILL)
    whole.check(trial, relay, tmp_path / "data", db)


def test_the_supervisor_killed(
    request: pytest.FixtureRequest, make_db: MakeDb, start_relay: Start, ordeal: Ordeal, tmp_path: Path
) -> None:
    """And all with it; the next start finds the queues in shared memory."""
    server = request.getfixturevalue("mysql97")
    db, dice = make_db(server), random.Random(8)
    settings = whole.settings(tmp_path / "data", db)
    relay = start_relay(server, settings)
    with ordeal(
        "SIGKILL of the supervisor", relay, server, db, Allows.IN_FLIGHT, pause=0.002, cdc=settings["CDC.Port"]
    ) as trial:
        while len(trial.faults) < times(20):
            time.sleep(dice.uniform(0.01, 1.5))
            with trial.fault():
                relay.kill()
            relay.start()
    whole.check(trial, relay, tmp_path / "data", db)


def test_the_supervisor_stopped_and_continued(
    request: pytest.FixtureRequest, make_db: MakeDb, start_relay: Start, ordeal: Ordeal, tmp_path: Path
) -> None:
    """Children work on without it; what dies meanwhile is replaced when it goes on."""
    server = request.getfixturevalue("mariadb1011")
    db, dice = make_db(server), random.Random(9)
    settings = whole.settings(tmp_path / "data", db)
    relay = start_relay(server, settings)
    with ordeal(
        "SIGSTOP of the supervisor, a child killed meanwhile",
        relay,
        server,
        db,
        Allows.IN_FLIGHT,
        pause=0.002,
        cdc=settings["CDC.Port"],
    ) as trial:
        while len(trial.faults) < times(30):
            time.sleep(dice.uniform(0.01, 0.3))
            pids = living(relay, "")
            if not pids:
                continue
            with trial.fault():
                relay.signal(signal.SIGSTOP)
                signalled(dice.choice(pids), signal.SIGKILL)
                time.sleep(dice.uniform(0.0, 0.5))
                relay.signal(signal.SIGCONT)
    whole.check(trial, relay, tmp_path / "data", db)


def test_stopped_for_good(
    request: pytest.FixtureRequest, make_db: MakeDb, start_relay: Start, ordeal: Ordeal, tmp_path: Path
) -> None:
    """Processes that stand still for a minute are ended and replaced."""
    server = request.getfixturevalue("mysql97")
    db = make_db(server)
    settings = whole.settings(tmp_path / "data", db)
    relay = start_relay(server, settings)
    with ordeal(
        "SIGSTOP until it is replaced", relay, server, db, Allows.IN_FLIGHT, pause=0.1, cdc=settings["CDC.Port"]
    ) as trial:
        pids = relay.pids()
        victims = {name: pid for name, pid in pids.items() if name in ("reader", "broker", "server-0", "cdc-0")}
        with trial.fault():
            for pid in victims.values():
                signalled(pid, signal.SIGSTOP)
            until(
                lambda: all((pid := relay.pids().get(name)) and pid != old for name, old in victims.items()),
                150,
                "processes that are not replaced",
                1,
            )
    whole.check(trial, relay, tmp_path / "data", db)
