"""SIGKILL and SIGSTOP of the relay's processes under load: of each kind, of all at once, of the supervisor."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from examples.dbserver import KINDS, DatabaseServer
from tests.faults import whole
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, Trial, times
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until
from tests.whole.test_kill import living

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]
MakeDb = Callable[..., str]
Broken = Callable[..., AbstractContextManager[Trial]]

# What may come twice when it dies. A process of the CDC port begins the last transaction of its clients again. If the
# reader dies within a flush of the journal, all processes restart.
VICTIMS = {
    "reader": Allows.IN_FLIGHT,
    "broker": Allows.NOTHING,
    "state-writer": Allows.NOTHING,
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


@pytest.fixture
def broken(
    request: pytest.FixtureRequest, kind: str, make_db: MakeDb, start_relay: Start, ordeal: Ordeal, tmp_path: Path
) -> Broken:
    """broken(fault, allows): around what breaks a relay with everything on, under load, before a server of `kind`; in
    the end each part of it has every row once."""
    server: DatabaseServer = request.getfixturevalue(kind)

    @contextmanager
    def around(fault: str, allows: Allows, pause: float = 0.002) -> Iterator[Trial]:
        db, data = make_db(server), tmp_path / "data"
        settings = whole.settings(data, db)
        relay = start_relay(server, settings)
        with ordeal(fault, relay, server, db, allows, pause=pause, cdc=settings["CDC.Port"]) as trial:
            yield trial
        whole.check(trial, relay, data, db)

    return around


@pytest.mark.parametrize(("victims", "kind"), ON)
def test_killed(broken: Broken, victims: str) -> None:
    dice = random.Random(5)
    with broken(f"SIGKILL of the {victims.rstrip('-')}", VICTIMS[victims]) as trial:
        while len(trial.faults) < times(60):
            time.sleep(dice.uniform(0.005, 0.3))
            if pids := living(trial.relay, victims):
                with trial.fault():
                    signalled(dice.choice(pids), signal.SIGKILL)


@pytest.mark.parametrize(("victims", "kind"), ON)
def test_stopped_and_continued(broken: Broken, victims: str) -> None:
    """A process that stands still is nobody's death: what waits for it waits, and nothing is repeated."""
    dice = random.Random(6)
    with broken(f"SIGSTOP of the {victims.rstrip('-')}, then SIGCONT", Allows.NOTHING) as trial:
        pids = living(trial.relay, victims)
        while len(trial.faults) < times(40):
            time.sleep(dice.uniform(0.005, 0.2))
            with trial.fault():
                pid = dice.choice(pids)
                signalled(pid, signal.SIGSTOP)
                time.sleep(dice.choice((0.001, 0.01, 0.1, 0.8)))
                signalled(pid, signal.SIGCONT)
        trial.catch_up()
        assert not any(process["restarts"] for process in trial.relay.stat()["processes"])


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_all_killed_at_once(broken: Broken) -> None:
    """All children together, which the supervisor outlives."""
    dice = random.Random(7)
    with broken("SIGKILL of all children at once", Allows.IN_FLIGHT) as trial:
        while len(trial.faults) < times(40):
            time.sleep(dice.uniform(0.01, 1.0))
            pids = living(trial.relay, "")
            if len(pids) < 2:
                continue
            dice.shuffle(pids)
            with trial.fault():
                for pid in pids:
                    signalled(pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["mysql97"])
def test_the_supervisor_killed(broken: Broken) -> None:
    """And all with it; the next start finds the queues in shared memory."""
    dice = random.Random(8)
    with broken("SIGKILL of the supervisor", Allows.IN_FLIGHT) as trial:
        while len(trial.faults) < times(20):
            time.sleep(dice.uniform(0.01, 1.5))
            with trial.fault():
                trial.relay.kill()
            trial.relay.start()


@pytest.mark.parametrize("kind", ["mariadb1011"])
def test_the_supervisor_stopped_and_continued(broken: Broken) -> None:
    """Children work on without it; what dies meanwhile is replaced when it goes on."""
    dice = random.Random(9)
    with broken("SIGSTOP of the supervisor, a child killed meanwhile", Allows.IN_FLIGHT) as trial:
        while len(trial.faults) < times(30):
            time.sleep(dice.uniform(0.01, 0.3))
            pids = living(trial.relay, "")
            if not pids:
                continue
            with trial.fault():
                trial.relay.signal(signal.SIGSTOP)
                signalled(dice.choice(pids), signal.SIGKILL)
                time.sleep(dice.uniform(0.0, 0.5))
                trial.relay.signal(signal.SIGCONT)


@pytest.mark.parametrize("kind", ["mysql97"])
def test_stopped_for_good(broken: Broken) -> None:
    """Processes that stand still for a minute are ended and replaced."""
    with broken("SIGSTOP until it is replaced", Allows.IN_FLIGHT, pause=0.1) as trial:
        pids = trial.relay.pids()
        victims = {name: pid for name, pid in pids.items() if name in ("reader", "broker", "server-0", "cdc-0")}
        with trial.fault():
            for pid in victims.values():
                signalled(pid, signal.SIGSTOP)
            until(
                lambda: all((pid := trial.relay.pids().get(name)) and pid != old for name, old in victims.items()),
                150,
                "processes that are not replaced",
                1,
            )
