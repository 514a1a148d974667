"""What looking on costs: polls with and without a scrape of /metrics and /api/stat a second."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from statistics import median
from typing import NamedTuple

import psutil

from bench.clients import Client, put_load, wait_queued
from bench.report import Report, si
from bench.shapes import NARROW_VALUES, insert
from examples.dbserver import DatabaseServer
from tests.relayproc import SECRET, RelayProcess

PATHS = ("/metrics", "/api/stat")
INTERVAL = 1.0
CLIENTS = 4
ROUNDS = 5
PATIENCE = 60.0


def measure(report: Report, server: DatabaseServer, relay: RelayProcess, table: str, rows: int) -> None:
    """Rates with scrapes as a share of those without, in rounds of `rows` rows for each client, by turns."""
    what = f"{CLIENTS} clients of PollMany, one row a reply"
    report.heading(f"{what}, {' and '.join(PATHS)} scraped every {INTERVAL:g} s: replies/s")
    monitor = psutil.Process(relay.pids()["monitor"])
    alone: list[Round] = []
    scraped: list[Round] = []
    names = [f"scraped-{number}" for number in range(CLIENTS)]
    with ExitStack() as stack:
        clients = [Client(relay.port, SECRET, name, table) for name in names]
        for client in clients:
            stack.callback(client.close)
        for number in range(ROUNDS):
            report.step(f"{rows} rows without and with scrapes, round {number + 1} of {ROUNDS}")
            for rounds in (alone, scraped) if number % 2 == 0 else (scraped, alone):
                insert(server, table, NARROW_VALUES, 1 + (len(alone) + len(scraped)) * rows, rows)
                wait_queued(relay, names, rows)
                with scraping(relay) if rounds is scraped else nullcontext():
                    rounds.append(_round(relay, monitor, clients, rows))
    rates = [each.rate for each in alone]
    report.line("without", si(median(rates)))
    ratio = median(there.rate / here.rate for here, there in zip(alone, scraped, strict=True))
    report.line("with scrapes", si(median(each.rate for each in scraped)), ratio, "that")
    report.line("  spread of the rounds without", f"{(max(rates) - min(rates)) / median(rates) * 100:.2g} %")
    cost = f"{median(each.cpu for each in scraped) * 1e6:.1f} us"
    # Of rates, a machine that does something else makes anything; CPU time stays what it is.
    ratio = median(here.cpu / there.cpu for here, there in zip(alone, scraped, strict=True))
    report.line("  replies a CPU second, but for the monitor's", cost + " each", ratio, "without scrapes", 0.95)
    report.limit("  CPU of the monitor meanwhile", median(each.monitor for each in scraped) * 100, "% of a core", 5)


class Round(NamedTuple):
    """Replies a second, CPU seconds a reply of all but the monitor, and the monitor's share of a core."""

    rate: float
    cpu: float
    monitor: float


def _round(relay: RelayProcess, monitor: psutil.Process, clients: list[Client], rows: int) -> Round:
    requests = [client.poll_many(1, 1000) for client in clients]  # who waits is not done where the broker is slower
    watching, all_of_it = _cpu(monitor), relay.cpu_seconds()
    load = put_load("many", PATIENCE, [client.socket for client in clients], requests)
    watching, all_of_it = _cpu(monitor) - watching, relay.cpu_seconds() - all_of_it
    assert load.rows == rows * len(clients), f"{load.rows} of {rows * len(clients)} rows came"
    return Round(load.replies / load.seconds, (all_of_it - watching) / load.replies, watching / load.seconds)


@contextmanager
def scraping(relay: RelayProcess) -> Iterator[None]:
    """Somebody asks for all paths each second, at once the first time."""
    enough = threading.Event()

    def scrape() -> None:
        while True:
            for path in PATHS:
                with urllib.request.urlopen(f"http://127.0.0.1:{relay.http_port}{path}", timeout=10) as reply:
                    reply.read()
            if enough.wait(INTERVAL):
                return

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
