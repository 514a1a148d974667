"""SIGKILL of any process under load, and of all processes: nothing is lost or out of order; all accounts balance."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from tests.support.consumer import Consumer
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until
from tests.support.workload import Workload
from tests.whole.test_end_to_end import assert_changes

Start = Callable[..., RelayProcess]
KILLS = int(os.environ.get("RELAY_KILLS", "200"))  # of the slow tests


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it was just replaced; the next round finds the new one
        os.kill(pid, signal.SIGKILL)


def living(relay: RelayProcess, prefix: str) -> list[int]:
    """The children whose names begin so; none while the monitor, which tells them, is being replaced itself."""
    try:
        return [pid for name, pid in relay.pids().items() if name.startswith(prefix)]
    except OSError:
        return []


def check_books(relay: RelayProcess, seconds: float = 20) -> None:
    """Once all is delivered: every client's rows add up, and no row was dropped."""

    def settled() -> list[dict[str, Any]]:
        clients: list[dict[str, Any]] = relay.stat()["clients"]
        return [] if any(c["waiting"] or c["in_flight"] for c in clients) else clients

    clients = until(settled, seconds, lambda: relay.stat()["clients"])
    for client in clients:
        dropped = sum(client["dropped"].values())
        assert client["matched"] == client["confirmed"] + client["in_flight"] + client["waiting"] + dropped, client
        assert dropped == 0, client


@contextmanager
def running(workload: Workload, steps: int) -> Iterator[threading.Thread]:
    """The workload in a thread, to its end."""
    failure: list[BaseException] = []

    def work() -> None:
        try:
            workload.run(steps)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    thread.join()
    workload.close()
    if failure:
        raise failure[0]


def kill_under_load(relay: RelayProcess, server: DatabaseServer, db: str, victims: str, kills: int, steps: int) -> None:
    consumers = [
        Consumer(relay.port, "all", lambda c: c.add_filter(db)),
        Consumer(relay.port, "updates", lambda c: c.add_filter(db, "beta", kinds="U")),
    ]
    dice = random.Random(5)
    workload = Workload(server, db, seed=3, ddl=False)
    with running(workload, steps) as work:
        done = 0
        while done < kills or work.is_alive():
            pids = living(relay, victims)
            if pids and done < kills:
                kill(dice.choice(pids))
                done += 1
            time.sleep(dice.uniform(0.005, 0.3))
    wanted = workload.changes
    consumers[0].wait_for(len(wanted), 180)
    for consumer in consumers:
        consumer.stop()
    assert_changes(consumers[0], wanted)
    assert_changes(consumers[1], [c for c in wanted if c.kind == "update" and c.table == "beta"])
    check_books(relay)
    restarts = sum(p["restarts"] for p in relay.stat()["processes"])
    assert restarts > 0, "nothing was killed"


@pytest.mark.parametrize("victims", ["reader", "broker", "state-writer", "server-", ""])
def test_killed_processes_come_back_and_every_row_arrives(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, victims: str
) -> None:
    kill_under_load(start_relay(mariadb1011), mariadb1011, make_db(mariadb1011), victims, kills=12, steps=600)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("victims", ["reader", "broker", "state-writer", "server-", ""])
def test_hundreds_of_kills(
    server: DatabaseServer, db: str, full_metadata: None, start_relay: Start, victims: str
) -> None:
    kill_under_load(start_relay(server), server, db, victims, kills=KILLS, steps=50 * KILLS)


def kill_family(relay: RelayProcess, server: DatabaseServer, db: str, kills: int, steps: int) -> None:
    consumer = Consumer(relay.port, "all", lambda c: c.add_filter(db))
    dice = random.Random(11)
    workload = Workload(server, db, seed=4, ddl=False)
    with running(workload, steps):
        for _ in range(kills):
            time.sleep(dice.uniform(0.05, 0.8))
            relay.kill()
            relay.start()
    wanted = workload.changes
    consumer.wait_for(len(wanted), 180)
    consumer.stop()
    assert_changes(consumer, wanted)
    check_books(relay)


def test_a_killed_supervisor_takes_its_children_along_and_a_new_start_goes_on(
    server: DatabaseServer, db: str, start_relay: Start
) -> None:
    kill_family(start_relay(server), server, db, kills=4, steps=600)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_family_is_killed_many_times(server: DatabaseServer, db: str, start_relay: Start) -> None:
    kill_family(start_relay(server), server, db, kills=KILLS // 4, steps=50 * KILLS)
