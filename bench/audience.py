"""What other clients cost: ten that want the same rows, and many that wait for rows of another table."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

from bench import delays
from bench.clients import Client, put_load, wait_queued
from bench.delivery import BATCH_ROWS, WAIT_MS, stopped
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, create, insert, one_by_one
from tests.support.relay_process import SECRET, RelayProcess, write_conf

MANY = 10
BAR = 4  # times the cost of one client
WAITING, BAR_WAITING = 1000, 1.2  # clients that wait for rows of another table; times the cost without them
LONG_WAIT_MS = 3_600_000
RATE = 2000  # commits/s
SETTLE_SECONDS = 2.0  # until the relay has opened or closed their connections
TABLES = {1: "audience_one", MANY: "audience_many"}


def measure(run: Run) -> None:
    """Rows of both tables by turns: in bulk, events of many rows; live, a transaction for each row."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(WAITING + 200, hard)), hard))
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off", "Relay.MaxClients": WAITING + 2 * MANY}
    create(run.server, "audience_none", NARROW)
    with started(write_conf(run.scratch, run.server, settings)) as relay:
        clients = {
            count: [Client(relay.port, SECRET, f"{table}-{number}", table) for number in range(count)]
            for count, table in TABLES.items()
        }
        for count, table in TABLES.items():
            create(run.server, table, NARROW)
            insert(run.server, table, NARROW_VALUES, 0, 1)  # a definition is proven once
            wait_queued(relay, [f"{table}-{number}" for number in range(count)], 1)
            _take(clients[count], 1)
        for pace, rows, single in (("in bulk", run.rows(400_000), False), ("live", run.rows(20_000), True)):
            costs: dict[int, list[float]] = {count: [] for count in TABLES}
            for number in range(run.rounds):
                for count, table in TABLES.items():
                    run.report.step(f"{count} clients {pace}, round {number + 1} of {run.rounds}")
                    first = number * rows + 1 + (10**8 if single else 0)
                    costs[count].append(_cost(run, relay, clients[count], table, first, rows, single) / rows)
            what = f"{MANY} clients with the same filter, {pace}, CPU of all processes a row"
            run.report.ratio(what, costs[MANY], costs[1], "ns", of="one client", at_most=BAR)
        among_waiting(run, relay)
        for each in (client for some in clients.values() for client in some):
            each.close()


def among_waiting(run: Run, relay: RelayProcess) -> None:
    """Rows at a steady rate to one client, by turns alone and while many others wait."""
    delays.create(run.server, "audience_live")
    rows = run.rows(6000)
    alone, among = list[float](), list[float]()
    with closing(Client(relay.port, SECRET, "live", "audience_live")) as client:
        for number in range(run.rounds):
            run.report.step(f"{WAITING} clients that wait, round {number + 1} of {run.rounds}")
            for costs, others in ((alone, 0), (among, WAITING)):
                with waiting(relay, others):
                    time.sleep(SETTLE_SECONDS)
                    before = relay.cpu_seconds()
                    delays.delivered(run.server, client, "many", RATE, rows, "audience_live")
                    costs.append((relay.cpu_seconds() - before) / rows * 1e9)
    what = f"{RATE} commits/s, while {WAITING} clients wait for another table, CPU of all processes a row"
    run.report.ratio(what, among, alone, "ns", of="without them", at_most=BAR_WAITING)


@contextmanager
def waiting(relay: RelayProcess, count: int) -> Iterator[None]:
    """So many clients wait for rows of a table that gets none."""
    with ExitStack() as stack:
        for number in range(count):
            client = Client(relay.port, SECRET, f"waits-{number}", "audience_none")
            stack.callback(client.close)
            client.socket.sendall(client.poll_many(1, LONG_WAIT_MS))
        yield


def _cost(
    run: Run, relay: RelayProcess, clients: Sequence[Client], table: str, first: int, rows: int, single: bool
) -> float:
    """Nanoseconds of CPU time, of all threads, in which clients that wait already get all rows."""
    with ThreadPoolExecutor(1) as pool:
        if single:
            insert_each = one_by_one(run.server, table)
            before = relay.cpu_seconds()
            taken = pool.submit(_take, clients, rows)
            time.sleep(0.1)
            insert_each(first, rows)
        else:
            with stopped(relay) as release:
                insert(run.server, table, NARROW_VALUES, first, rows)
                before = relay.cpu_seconds()
                taken = pool.submit(_take, clients, rows)
                time.sleep(0.1)
                release()
        taken.result()
    return (relay.cpu_seconds() - before) * 1e9


def _take(clients: Sequence[Client], rows: int) -> None:
    """Take and confirm that many rows for each client."""
    load = put_load(
        "many", 60, [each.socket for each in clients], [each.poll_many(BATCH_ROWS, WAIT_MS) for each in clients]
    )
    assert load.rows == rows * len(clients), f"{load.rows} of {rows * len(clients)} rows came"
