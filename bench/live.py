"""A running relay under load: PollMany, latency, idle clients, memory."""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from bench import scrape
from bench.clients import Client, arrival_times, put_load, wait_queued
from bench.report import Report, si
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from tests.relayproc import SECRET, RelayProcess, write_conf

WORKERS = 2
IDLE_CLIENTS, IDLE_SECONDS = 100, 5.0
LATENCY_ROWS = 1000
MAX_CLIENTS = 1000
SLOT_BYTES = 32  # of a ring, for the rows of one event


def measure(report: Report, server: DatabaseServer, scratch: Path, scale: float) -> None:
    """Start a relay on the server and print all that is measured of it."""
    for table in ("many", "slow", "idle", "scraped"):
        create(server, table, NARROW)
    settings: dict[str, object] = {
        "Relay.Workers": WORKERS,
        "Relay.SegmentBytes": "256MiB",
        "Relay.MaxClients": MAX_CLIENTS,
    }
    relay = RelayProcess(write_conf(scratch, server, settings))
    try:
        relay.start()
        many(report, server, relay, int(1_500_000 * scale))
        latency(report, server, relay)
        memory_and_idling(report, server, relay)
        scrape.measure(report, server, relay, "scraped", int(60_000 * scale))
        relay.stop()
    finally:
        relay.end()


def many(report: Report, server: DatabaseServer, relay: RelayProcess, rows: int) -> None:
    """One client that asks for a thousand rows at a time."""
    report.heading("PollMany, 1000 rows a reply, one client")
    client = Client(relay.port, SECRET, "many", "many")
    report.step(f"queueing {rows} rows")
    insert(server, "many", NARROW_VALUES, 1, rows)
    wait_queued(relay, ["many"], rows)
    # It waits: an empty reply would be the end of the queue, and not a broker that is not quick enough for a moment.
    load = put_load("many", 60, [client.socket], [client.poll_many(1000, 1000)])
    assert load.rows == rows, f"{load.rows} of {rows} rows came"
    report.line("narrow rows/s", si(load.rows / load.seconds), load.rows / load.seconds / 1e6, "1 M rows/s", 1.0)
    report.line("  bytes/s", si(load.bytes / load.seconds))
    client.close()


def latency(report: Report, server: DatabaseServer, relay: RelayProcess) -> None:
    """From the commit's return at the writer to the row at a client that waits in PollMany."""
    report.heading(f"commit to delivery, one waiting PollMany client, {LATENCY_ROWS} single-row transactions")
    client = Client(relay.port, SECRET, "slow", "slow")
    pid, pipe = arrival_times(client, LATENCY_ROWS)
    connection = server.connect()
    committed = []
    pause = random.Random(1)
    with connection.cursor() as cursor:
        for number in range(LATENCY_ROWS):
            time.sleep(pause.uniform(0.001, 0.003))
            cursor.execute(f"INSERT INTO bench.slow VALUES ({number}, 1, 2, '2026-01-01', 'x')")
            committed.append(time.monotonic_ns())
    connection.close()
    with os.fdopen(pipe, "rb") as times:
        data = times.read()
    os.waitpid(pid, 0)
    arrived = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    taken = sorted((there - here) / 1e6 for here, there in zip(committed, arrived, strict=True))
    report.limit("p50", taken[len(taken) // 2], "ms", 0.2)
    report.line("p99", f"{taken[len(taken) * 99 // 100]:.3g} ms")
    client.close()


def memory_and_idling(report: Report, server: DatabaseServer, relay: RelayProcess) -> None:
    """What a client and a queued row cost in memory, and what clients cost that wait for rows that do not come."""
    report.heading(f"{IDLE_CLIENTS} clients")
    before = footprint(relay)
    with ExitStack() as stack:
        clients = [Client(relay.port, SECRET, f"idle-{number}", "idle") for number in range(IDLE_CLIENTS)]
        for client in clients:
            stack.callback(client.close)
        known = footprint(relay)
        # Blocks and rings of all clients that there may be are made beforehand; each stands for its share of them.
        share = shared_block(relay).stat().st_blocks * 512 / MAX_CLIENTS
        report.limit("memory a client without a limit", ((known - before) / IDLE_CLIENTS + share) / 1024, "KiB", 64)
        for client in clients:
            client.socket.sendall(client.poll_many(1, 60_000))
        time.sleep(1)
        used = relay.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        percent = (relay.cpu_seconds() - used) / IDLE_SECONDS * 100
        report.limit("CPU while all wait in PollMany, all processes", percent, "% of a core", 1)
    rows, events = 100_000, relay.stat()["events"]
    insert(server, "idle", NARROW_VALUES, 1, rows)
    wait_queued(relay, [f"idle-{number}" for number in range(IDLE_CLIENTS)], rows)
    ranges = sum(relay.stat()["events"].values()) - sum(events.values())
    report.line(f"memory a queued row: {SLOT_BYTES} bytes an event", f"{SLOT_BYTES * ranges / rows:.3g} bytes")
    growth = (footprint(relay) - known) / rows / IDLE_CLIENTS
    report.line(f"  measured growth, {rows} rows for each client", f"{growth:.3g} bytes")


def shared_block(relay: RelayProcess) -> Path:
    """The relay's shared memory."""
    return Path("/dev/shm") / (relay.conf.parent / "data" / "arena").read_text().strip()


def footprint(relay: RelayProcess) -> int:
    """Bytes of memory that serve clients: the shared block as far as it is allocated, and the processes' own memory.

    The journal is not in it: it is a file, one for all clients.
    """
    total = shared_block(relay).stat().st_blocks * 512
    for process in (psutil.Process(relay.pid), *psutil.Process(relay.pid).children(recursive=True)):
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Anonymous:"))
    return total
