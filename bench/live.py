"""A running relay: idle clients, memory."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from bench import scrape
from bench.clients import Client, wait_queued
from bench.report import Report
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from tests.relayproc import SECRET, RelayProcess, write_conf

WORKERS = 2
IDLE_CLIENTS, IDLE_SECONDS = 100, 5.0
MAX_CLIENTS = 1000
SLOT_BYTES = 32  # of a ring, for the rows of one event


def measure(report: Report, server: DatabaseServer, scratch: Path, scale: float) -> None:
    """Start a relay on the server and print all that is measured of it."""
    for table in ("idle", "scraped"):
        create(server, table, NARROW)
    settings: dict[str, object] = {
        "Relay.Workers": WORKERS,
        "Relay.SegmentBytes": "256MiB",
        "Relay.MaxClients": MAX_CLIENTS,
    }
    relay = RelayProcess(write_conf(scratch, server, settings))
    try:
        relay.start()
        memory_and_idling(report, server, relay)
        scrape.measure(report, server, relay, "scraped", int(60_000 * scale))
        relay.stop()
    finally:
        relay.end()


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
