"""The memory that clients and queued rows take, and the CPU time of clients that wait for rows."""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack, closing
from pathlib import Path

import psutil

from bench.clients import Client, put_load, wait_queued
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from relay.client import RelayClient
from relay.monitoring.history import INTERVAL
from relay.protocol.classic import Discard
from tests.support.relay_process import SECRET, RelayProcess, write_conf

CLIENTS, FIRST = 1000, 100  # the first ones make the processes load and allocate what they keep
DESCRIPTORS = CLIENTS + 200
IDLE_SECONDS = 10.0
WAIT_MS = 60_000  # of a PollMany; longer than a measurement
SAMPLE_SECONDS = INTERVAL + 1  # until the monitor has noticed
SETTLE_SECONDS = 1.5  # for the last checkpoint and periodic work on connections
SLOTS = 1 << 14  # of the limited queue's ring: the next power of two above its limit
LONG_ROW = ("id BIGINT PRIMARY KEY", "filling TEXT")
LONG_ROW_VALUES = "n, REPEAT('x', 8192)"  # one row fills an event
SPILLED, SPILLED_CLIENTS = 10_000_000, 10
FLOWING, WARM_UP, FLOWS = 100_000, 4, 16  # rows per round; rounds before and after the first look at memory


def measure(run: Run) -> None:
    """One relay for all measurements. It learns of the clients first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(DESCRIPTORS, hard)), hard))
    for table in ("capacity_idle", "capacity_spilled", "capacity_flowing"):
        create(run.server, table, NARROW)
    create(run.server, "capacity_ranges", LONG_ROW)
    settings: dict[str, object] = {
        "Relay.Workers": 2,
        "Relay.SegmentBytes": "256MiB",
        "Relay.JournalMaxBytes": "100GiB",
        "Relay.MaxClients": CLIENTS + SPILLED_CLIENTS + 2,
    }
    with started(write_conf(run.scratch, run.server, settings)) as relay:
        known_and_idle(run, relay)
        limited(run, relay)
        flowing(run, relay)
        spilled(run, relay)


def known_and_idle(run: Run, relay: RelayProcess) -> None:
    """Memory of known and of connected clients; CPU time of all processes while they are idle."""
    run.report.step(f"{CLIENTS} clients become known")
    # Blocks and rings are allocated for the largest number of clients; each client is charged its share.
    most = CLIENTS + SPILLED_CLIENTS + 2
    share = shared_block(relay).stat().st_blocks * 512 / most
    names = [f"idle-{number}" for number in range(CLIENTS)]
    before = known = 0
    for some in (names[:FIRST], names[FIRST:]):
        before = known
        for name in some:
            Client(relay.port, SECRET, name, "capacity_idle").close()
        time.sleep(SAMPLE_SECONDS)
        known = own_memory(relay)
    silent: list[float] = []
    waiting: list[float] = []
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(relay.port, SECRET, name, "capacity_idle"))) for name in names]
        time.sleep(SETTLE_SECONDS)
        connected = own_memory(relay)
        for number in range(run.rounds):
            run.report.step(f"{CLIENTS} connected clients that are silent, round {number + 1} of {run.rounds}")
            silent.append(idle_percent(relay))
        for client in clients:
            client.socket.sendall(client.poll_many(1, WAIT_MS))
        time.sleep(SETTLE_SECONDS)
        for number in range(run.rounds):
            run.report.step(f"{CLIENTS} clients that wait in PollMany, round {number + 1} of {run.rounds}")
            waiting.append(idle_percent(relay))
    report = run.report
    report.figure(
        "memory of a known client without a limit",
        [((known - before) / (CLIENTS - FIRST) + share) / 1024],
        "KiB",
        at_most=16,
    )
    report.figure("  of it in the shared block", [share / 1024], "KiB")
    report.figure("  a connection on top of it", [(connected - known) / CLIENTS / 1024], "KiB")
    report.figure(f"CPU with {CLIENTS} clients connected and silent", silent, "% of a core", at_most=1)
    report.figure(f"CPU with {CLIENTS} clients waiting in PollMany", waiting, "% of a core", at_most=1)


def idle_percent(relay: RelayProcess) -> float:
    """CPU time of all processes, as a percentage, over a while."""
    used, began = relay.cpu_seconds(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (relay.cpu_seconds() - used) / (time.monotonic() - began) * 100


def limited(run: Run, relay: RelayProcess) -> None:
    """A queue in memory that is longer than any ring allocated in advance, full of events of one row."""
    ranges = SLOTS - 1
    run.report.step(f"queueing {ranges} ranges")
    before = shared_block(relay).stat().st_blocks * 512
    with RelayClient("127.0.0.1", relay.port, "ranges", SECRET) as client:
        client.add_filter("bench", "capacity_ranges", limit=ranges, discard=Discard.NEWEST)
        insert(run.server, "capacity_ranges", LONG_ROW_VALUES, 1, ranges)
        wait_queued(relay, ["ranges"], ranges)
        grown = shared_block(relay).stat().st_blocks * 512 - before
    run.report.figure("memory a queued row range", [grown / SLOTS], "bytes", at_most=32)


def flowing(run: Run, relay: RelayProcess) -> None:
    """Memory of the processes while rows flow through a client, over several rounds."""
    rows = run.rows(FLOWING)
    used: list[int] = []
    with closing(Client(relay.port, SECRET, "flowing", "capacity_flowing")) as client:
        for number in range(WARM_UP + FLOWS):
            run.report.step(f"{rows} rows through a client, round {number + 1} of {WARM_UP + FLOWS}")
            insert(run.server, "capacity_flowing", NARROW_VALUES, number * rows, rows)
            wait_queued(relay, ["flowing"], rows)
            load = put_load("many", 60, [client.socket], [client.poll_many(1000, 1000)])
            assert load.rows == rows, f"{load.rows} of {rows} rows came"
            if number >= WARM_UP:
                used.append(own_memory(relay))
    quarter = FLOWS // 4
    early, late = sum(used[:quarter]) / quarter, sum(used[-quarter:]) / quarter
    run.report.figure(
        f"memory of all processes after {FLOWS} rounds of {rows} rows",
        [late / early * 100 - 100],
        "% growth",
        at_most=5,
    )


def spilled(run: Run, relay: RelayProcess) -> None:
    """Queues much longer than their rings."""
    rows = run.rows(SPILLED // SPILLED_CLIENTS)
    run.report.step(f"queueing {rows} rows for each of {SPILLED_CLIENTS} clients")
    names = [f"spilled-{number}" for number in range(SPILLED_CLIENTS)]
    for name in names:
        Client(relay.port, SECRET, name, "capacity_spilled").close()
    insert(run.server, "capacity_spilled", NARROW_VALUES, 1, rows)
    wait_queued(relay, names, rows)
    total = shared_block(relay).stat().st_blocks * 512 + own_memory(relay)
    run.report.figure(
        f"memory of the relay with {rows * SPILLED_CLIENTS / 1e6:.3g} million queued rows",
        [total / 1e6],
        "MB",
        at_most=100,
    )
    run.report.note(
        f"All {CLIENTS + SPILLED_CLIENTS + 2} known clients and all processes are in the last figure; the journal,"
        " a mapped file, is not."
    )


def shared_block(relay: RelayProcess) -> Path:
    """The file of the relay's shared memory."""
    return Path("/dev/shm") / (relay.conf.parent / "data" / "arena").read_text().strip()


def own_memory(relay: RelayProcess) -> int:
    """Bytes of anonymous memory of all processes; a page shared since a fork counts once.

    It excludes the journal, which is one file for all clients.
    """
    total = 0
    for process in (psutil.Process(relay.pid), *psutil.Process(relay.pid).children(recursive=True)):
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss_Anon:"))
    return total
