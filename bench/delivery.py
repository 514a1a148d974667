"""From the source to one client, live: rows per second."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from bench import everytype, readers
from bench.clients import Client, put_load, wait_queued
from bench.decoding import PRINTER, PRINTER_BAR, printed
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, WIDE, WIDE_VALUES, Shape, create, insert, next_file
from relay.client import RelayClient
from tests.support.relay_process import SECRET, RelayProcess, process_cpu_seconds, write_conf

CPU_BARS = {"narrow": 0.2, "wide": 0.6}  # microseconds of a server, a row
BATCH_ROWS = 1000  # of a PollMany
TRANSACTIONS = 12  # the stages work at the same time: one on a transaction, the next on the one before
WAIT_MS = 1000  # wait of a PollMany: an empty reply is the end of the rows, not a delay of the broker


def measure(run: Run) -> None:
    """PollMany from a live binlog. All connections use TCP without TLS."""
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    with started(write_conf(run.scratch, run.server, settings)) as relay:
        _throughput(run, relay)


# -- PollMany --


def _throughput(run: Run, relay: RelayProcess) -> None:
    """Rows in the binlog when the relay continues to read, up to the last one at the client."""
    shapes = {
        "narrow": (NARROW, NARROW_VALUES, run.rows(600_000)),
        "wide": (WIDE, WIDE_VALUES, run.rows(200_000)),
        "objects": (NARROW, NARROW_VALUES, run.rows(200_000)),
        "every_type": (*everytype.table(everytype.COLUMNS | everytype.VECTOR), run.rows(60_000)),
    }
    ours: dict[str, list[float]] = {name: [] for name in shapes}
    peer: dict[str, list[float]] = {name: [] for name in shapes}
    cost: dict[str, list[float]] = {name: [] for name in shapes}
    servers = [pid for name, pid in relay.pids().items() if name.startswith("server")]
    native = {
        name: Client(relay.port, SECRET, f"live-{name}", f"live_{name}") for name in ("narrow", "wide", "every_type")
    }
    with RelayClient("127.0.0.1", relay.port, "live-objects", SECRET) as library:
        library.add_filter("bench", "live_objects")
        for name, (columns, values, _) in shapes.items():
            create(run.server, f"live_{name}", columns)
            insert(run.server, f"live_{name}", values, 0, 1)  # a definition is proven once
        wait_queued(relay, [f"live-{name}" for name in shapes], 1)
        for client in native.values():
            put_load("many", 10, [client.socket], [client.poll_many(BATCH_ROWS, 0)])
        library.poll_many()
        for number in range(run.rounds):
            for name, (_, values, count) in shapes.items():
                run.report.step(f"PollMany, {count} rows ({name}), round {number + 1} of {run.rounds}")
                with stopped(relay) as release:
                    file = next_file(run.server)
                    each = -(-count // TRANSACTIONS)
                    insert(run.server, f"live_{name}", values, number * count + 1, count, each)
                    read = printed if name == "every_type" else readers.floor
                    peer[name].append(count / read(Shape(name, count, 0, file, run.server)))
                    take = partial(_take_objects, library) if name == "objects" else partial(_take_all, native[name])
                    used = sum(map(process_cpu_seconds, servers))
                    ours[name].append(count / take(count, release))
                    cost[name].append(1e6 * (sum(map(process_cpu_seconds, servers)) - used) / count)
    for client in native.values():
        client.close()
    for name, bar in (("narrow", 3.5e6), ("wide", 1.2e6)):
        what = f"live binlog to a native consumer, {name}"
        run.report.figure(what, ours[name], "rows/s", at_least=bar)
        run.report.ratio(f"  {what}", ours[name], peer[name], "rows/s", of="C program that only reads the binlog")
        run.report.figure(f"  {what}, CPU of the servers", cost[name], "us a row", at_most=CPU_BARS[name])
    what = "live binlog to a native consumer, every type"
    run.report.ratio(what, ours["every_type"], peer["every_type"], "rows/s", of=PRINTER, at_least=PRINTER_BAR)
    run.report.figure("live binlog to Python objects, narrow", ours["objects"], "rows/s", at_least=0.5e6)


def _take_all(client: Client, count: int, release: Callable[[], float]) -> float:
    """Seconds until a native consumer, which polls already when the reader is released, has all rows."""
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(put_load, "many", 60, [client.socket], [client.poll_many(BATCH_ROWS, WAIT_MS)])
        time.sleep(0.1)
        begin = release()
        taken = load.result()
    assert taken.rows == count, f"{taken.rows} of {count} rows came"
    return taken.ended - begin


def _take_objects(client: RelayClient, count: int, release: Callable[[], float]) -> float:
    """Seconds until the client library has made objects of all rows."""
    rows, begin = 0, release()
    while rows < count:
        rows += len(client.poll_many(wait=WAIT_MS / 1000))
    return time.monotonic() - begin


@contextmanager
def stopped(relay: RelayProcess) -> Iterator[Callable[[], float]]:
    """A stopped relay. The yielded function releases it and returns the time (monotonic seconds).

    The supervisor is stopped too: it would regard the reader as hung.
    """
    pids = (relay.pid, relay.pids()["reader"])

    def release() -> float:
        now = time.monotonic()
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
        return now

    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield release
    finally:
        release()
