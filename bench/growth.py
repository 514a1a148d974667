"""How cost grows with cores, clients, tables and row width. No bars: `python -m bench growth`, outside the record.

CPU seconds, except for replies/s and the path from the socket to the journal. Clients and tables: the broker's own
code, in this process, on a constructed journal. Row widths: a native program that makes replies of the source's rows.
"""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench import readers
from bench.clients import Client, put_load, wait_queued
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, bulk_shape, create, insert
from relay._native import Arena, Broker, UsageReader
from relay.protocol.classic import ALL_KINDS, Command
from tests.support.journal_builder import ID, INSERT, NAME, NOON, Made, body, row
from tests.support.relay_process import SECRET, write_conf

WIDTHS = (2, 5, 20, 100)  # columns
CLIENTS = (0, 1, 10, 100, 1000)
TABLES = (1, 100, 10_000)
CORES = ((1, 1), (2, 1), (2, 2), (2, 4))  # cores, servers
POLLERS, POLL_SECONDS = 4, 1.5
STEP_BYTES = 8 << 20  # as in relay/broker.py
SEGMENT_BYTES = 64 << 20
PRIME = 7919  # adjacent rows of the journal are of different tables
OPEN_END = 2**64 - 1


def measure(run: Run) -> None:
    """All four parts."""
    widths(run)
    clients(run)
    tables(run)
    cores(run)


def widths(run: Run) -> None:
    """From the socket to the journal, and from there to reply payloads: half of the columns INT, half VARCHAR."""
    for columns in WIDTHS:
        rows = run.rows(800_000) // columns
        names = [f"c{number}" for number in range(columns)]
        kinds = ["BIGINT PRIMARY KEY", *("VARCHAR(32)" if number % 2 else "INT" for number in range(1, columns))]
        values = ["n", *("CONCAT('text ', n)" if number % 2 else "n" for number in range(1, columns))]
        run.report.step(f"{columns} columns: writing {rows} rows")
        defined = tuple(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
        shape = bulk_shape(run.server, "grown", defined, ", ".join(values), rows)
        ingested, decoded = [], []
        for _ in range(run.rounds):
            with _folder(run.scratch / "width") as folder:
                writer, seconds = readers.ingest(shape, folder)
                ingested.append(seconds / rows * 1e9)
                decoded.append(_timed(partial(readers.payloads, shape, folder, writer.committed())) / rows * 1e9)
        run.report.figure(f"{columns} columns: socket to journal", ingested, "ns a row")
        run.report.figure(f"{columns} columns: journal to replies", decoded, "ns a row")


def clients(run: Run) -> None:
    """Events of one row in one table, on which every client has a filter; no client empties its ring."""
    events = run.rows(20_000)
    costs: dict[int, list[float]] = {count: [] for count in CLIENTS}
    for number in range(run.rounds):
        for count in CLIENTS:
            run.report.step(f"{count} clients, round {number + 1} of {run.rounds}")
            with _folder(run.scratch / "clients") as folder:
                made = Made(folder, SEGMENT_BYTES)
                costs[count].append(_broker(made, [made.table], count, events) / events * 1e9)
    for count, samples in costs.items():
        run.report.figure(f"{count} interested clients: broker", samples, "ns an event")


def tables(run: Run) -> None:
    """Events of one row, each in another table than the last: one client with a filter on all tables; table usage."""
    events = run.rows(200_000)
    for count in TABLES:
        walked, counted = [], []
        for number in range(run.rounds):
            run.report.step(f"{count} tables, round {number + 1} of {run.rounds}")
            with _folder(run.scratch / "tables") as folder:
                made = Made(folder, SEGMENT_BYTES)
                known = [made.define(ID, NAME, table=f"table_{each}") for each in range(count)]
                walked.append(_broker(made, known, 1, events) / events * 1e9)
                made.flush()
                counted.append(_timed(partial(_count, made)) / events * 1e9)
        run.report.figure(f"{count} tables: broker", walked, "ns an event")
        run.report.figure(f"{count} tables: table usage", counted, "ns an event")


def cores(run: Run) -> None:
    """Classic polls of four clients, with one core or two for relay and clients."""
    create(run.server, "grown", NARROW)
    allowed = os.sched_getaffinity(0)
    rates: dict[tuple[int, int], list[float]] = {each: [] for each in CORES}
    costs: dict[tuple[int, int], list[float]] = {each: [] for each in CORES}
    try:
        for number in range(run.rounds):
            for count, workers in CORES:
                if count > len(allowed):
                    continue
                run.report.step(f"{count} cores, {workers} servers, round {number + 1} of {run.rounds}")
                os.sched_setaffinity(0, sorted(allowed)[:count])
                with _folder(run.scratch / "cores") as folder:
                    rate, cost = _polls(run, folder, workers)
                rates[count, workers].append(rate)
                costs[count, workers].append(cost)
    finally:
        os.sched_setaffinity(0, allowed)
    for (count, workers), samples in rates.items():
        if samples:
            run.report.figure(f"{count} cores, {workers} servers, {POLLERS} clients", samples, "replies/s")
            run.report.figure("  CPU of the relay", costs[count, workers], "us a reply")


def _polls(run: Run, folder: Path, workers: int) -> tuple[float, float]:
    """Replies per second, and microseconds of the whole relay per reply."""
    settings = {"Relay.Workers": workers, "Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    rows = run.rows(60_000)
    with started(write_conf(folder, run.server, settings)) as relay:
        names = [f"grown-{number}" for number in range(POLLERS)]
        polling = [Client(relay.port, SECRET, name, "grown") for name in names]
        run.server.execute("TRUNCATE bench.grown")
        insert(run.server, "grown", NARROW_VALUES, 1, rows)
        wait_queued(relay, names, rows)
        used = relay.cpu_seconds()
        requests = [client.request(Command.POLL) for client in polling]
        load = put_load("poll", POLL_SECONDS, [client.socket for client in polling], requests)
        cost = (relay.cpu_seconds() - used) / load.replies
        for client in polling:
            client.close()
    return load.replies / load.seconds, cost * 1e6


def _broker(made: Made, tables: list[int], count: int, events: int) -> float:
    """CPU seconds of a broker that decides `events` transactions of one row, over all tables in turn.

    The clients have filters on all tables, and exist before the rows.
    """
    shape = (max(count, 1), 1, 0)
    arena = Arena(mmap.mmap(-1, Arena.size(*shape)), *shape)
    arena.attach_writer(made.writer)
    broker = Broker(arena, str(made.folder), lambda offset, size: None)
    for number in range(count):
        slot = broker.add_client(number + 1, f"client-{number}")
        broker.set_filters(slot, [("*", "*", ALL_KINDS, 0, 0, 0, OPEN_END)])
    broker.step(STEP_BYTES)  # the first step sets its position: here
    for number in range(events):
        made.place += 100
        table = tables[number * PRIME % len(tables)]
        made.writer.rows(table, INSERT, made.place, NOON, 1, body(INSERT, 2, row(number)))
        made.writer.commit(made.place, NOON)

    def walk() -> None:
        while broker.pending():
            broker.step(STEP_BYTES)

    spent = _timed(walk)
    assert not count or arena.client_stats(0)["matched"] == events, "the broker has not decided every row"
    return spent


def _count(made: Made) -> None:
    reader = UsageReader(made.folder)
    while not reader.read(made.writer.flushed(), STEP_BYTES):
        reader.take()


def _used() -> float:
    """CPU seconds so far of this process and of the programs that it ran."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


def _timed(work: Callable[[], object]) -> float:
    """CPU seconds of the function."""
    begin = _used()
    work()
    return _used() - begin


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """A new folder, removed after the block, because journals are large."""
    path.mkdir()
    yield path
    shutil.rmtree(path)
