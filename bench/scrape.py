"""The cost of monitoring: polls with and without a scrape of /metrics and /api/stat per second."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import NamedTuple

from bench.clients import Client, put_load, wait_queued
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from tests.support.relay_process import SECRET, RelayProcess, process_cpu_seconds, write_conf

PATHS = ("/metrics", "/api/stat")
INTERVAL = 1.0
TABLE = "scraped"
CLIENTS = 4
ROUNDS = 9
PATIENCE = 60.0


def measure(run: Run) -> None:
    """Starts a relay and scrapes it."""
    create(run.server, TABLE, NARROW)
    settings: dict[str, object] = {"Relay.Workers": 2, "Relay.SegmentBytes": "256MiB"}
    with started(write_conf(run.scratch, run.server, settings)) as relay:
        measure_in_turns(run, relay, run.rows(60_000))


def measure_in_turns(run: Run, relay: RelayProcess, rows: int) -> None:
    """Rates with scrapes as a share of those without, in rounds of `rows` rows per client, in turns."""
    report = run.report
    monitor = relay.pids()["monitor"]
    alone: list[Round] = []
    scraped: list[Round] = []
    names = [f"scraped-{number}" for number in range(CLIENTS)]
    with ExitStack() as stack:
        clients = [Client(relay.port, SECRET, name, TABLE) for name in names]
        for client in clients:
            stack.callback(client.close)
        for number in range(ROUNDS):
            report.step(f"{rows} rows without and with scrapes, round {number + 1} of {ROUNDS}")
            for rounds in (alone, scraped) if number % 2 == 0 else (scraped, alone):
                insert(run.server, TABLE, NARROW_VALUES, 1 + (len(alone) + len(scraped)) * rows, rows)
                wait_queued(relay, names, rows)
                with scraping(relay) if rounds is scraped else nullcontext():
                    rounds.append(_round(relay, monitor, clients, rows))
    report.note(f"{CLIENTS} clients of PollMany, one row a reply; {' and '.join(PATHS)} every {INTERVAL:g} s.")
    rates = [each.rate for each in alone]
    report.ratio("replies with scrapes", [each.rate for each in scraped], rates, "replies/s", of="without")
    # Other load on the host distorts rates, but not CPU time.
    mine, others = ([1 / each.cpu for each in rounds] for rounds in (scraped, alone))
    report.ratio("replies a CPU second, but for the monitor's", mine, others, "replies/s", of="without", at_least=0.95)
    monitors = [each.monitor * 100 for each in scraped]
    report.figure("CPU of the monitor meanwhile", monitors, "% of a core", at_most=5)


class Round(NamedTuple):
    """Replies per second, CPU seconds per reply of all but the monitor, and the monitor's share of a core."""

    rate: float
    cpu: float
    monitor: float


def _round(relay: RelayProcess, monitor: int, clients: list[Client], rows: int) -> Round:
    requests = [client.poll_many(1, 1000) for client in clients]  # a wait, so that a slow broker ends no client
    watching, all_of_it = process_cpu_seconds(monitor), relay.cpu_seconds()
    load = put_load("many", PATIENCE, [client.socket for client in clients], requests)
    watching, all_of_it = process_cpu_seconds(monitor) - watching, relay.cpu_seconds() - all_of_it
    assert load.rows == rows * len(clients), f"{load.rows} of {rows * len(clients)} rows came"
    return Round(load.replies / load.seconds, (all_of_it - watching) / load.replies, watching / load.seconds)


@contextmanager
def scraping(relay: RelayProcess) -> Iterator[None]:
    """Requests all paths each second, at once the first time."""
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
