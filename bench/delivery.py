"""From the source to one client, live: rows per second, and the delay after the commit."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import readers
from bench.clients import Client, put_load, wait_queued
from bench.readers import BUILT
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, WIDE, WIDE_VALUES, Shape, create, insert, next_file
from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.protocol.classic import Command
from tests.support.relay_process import SECRET, RelayProcess, write_conf

BATCH_ROWS = 1000  # of a PollMany
WAIT_MS = 1000  # wait of a PollMany: an empty reply is the end of the rows, not a delay of the broker
COMMITS = 1000  # number of timed commits
MODES = {"binlog": "C program on the binlog", "many": "waiting PollMany", "poll": "classic, polling without pause"}
BARS_MS = {("many", 50): 0.1, ("many", 99): 0.5, ("poll", 50): 0.14, ("poll", 99): 2.8}
SETTLE_SECONDS = 0.3


def measure(run: Run) -> None:
    """PollMany from a live binlog, then single commits, with one relay. All connections use TCP without TLS."""
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    with started(write_conf(run.scratch, run.server, settings)) as relay:
        _throughput(run, relay)
        _latency(run, relay)


# -- PollMany --


def _throughput(run: Run, relay: RelayProcess) -> None:
    """Rows in the binlog when the relay continues to read, up to the last one at the client."""
    shapes = {
        "narrow": (NARROW, NARROW_VALUES, run.rows(600_000)),
        "wide": (WIDE, WIDE_VALUES, run.rows(200_000)),
        "objects": (NARROW, NARROW_VALUES, run.rows(200_000)),
    }
    ours: dict[str, list[float]] = {name: [] for name in shapes}
    floor: dict[str, list[float]] = {name: [] for name in shapes}
    native = {name: Client(relay.port, SECRET, f"live-{name}", f"live_{name}") for name in ("narrow", "wide")}
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
                    insert(run.server, f"live_{name}", values, number * count + 1, count)
                    floor[name].append(count / readers.floor(Shape(name, count, 0, file, run.server)))
                    take = partial(_take_objects, library) if name == "objects" else partial(_take_all, native[name])
                    ours[name].append(count / take(count, release))
    for client in native.values():
        client.close()
    for name, bar in (("narrow", 4e6), ("wide", 1.2e6)):
        what = f"live binlog to a native consumer, {name}"
        run.report.figure(what, ours[name], "rows/s", at_least=bar)
        run.report.ratio(f"  {what}", ours[name], floor[name], "rows/s", of="C program that only reads the binlog")
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
        rows += len(client.poll_many(BATCH_ROWS, WAIT_MS / 1000))
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


# -- Commit to delivery --


def _latency(run: Run, relay: RelayProcess) -> None:
    """Single-row transactions a few milliseconds apart, from the commit's return at the writer to the row's arrival."""
    columns = ("id BIGINT AUTO_INCREMENT PRIMARY KEY", *NARROW[1:])
    for table in ("delay", "delay_floor"):
        create(run.server, table, columns)
    client = Client(relay.port, SECRET, "delay", "delay")
    samples: dict[str, list[Delays]] = {mode: [] for mode in MODES}
    commits = max(run.rows(COMMITS), 100)
    for number in range(run.rounds):
        for mode, what in MODES.items():
            run.report.step(f"commit to {what}, {commits} transactions, round {number + 1} of {run.rounds}")
            samples[mode].append(
                _floor(run, relay, commits) if mode == "binlog" else _delivered(run, client, mode, commits)
            )
    client.close()
    for mode, what in MODES.items():
        for percent in (50, 99):
            ours = [each.percentile(percent) for each in samples[mode]]
            run.report.figure(f"commit to {what}, p{percent}", ours, "ms", at_most=BARS_MS.get((mode, percent)))
    # A row may arrive before the commit returns, so proportions are computed from the statement.
    for mode in ("many", "poll"):
        for percent in (50, 99):
            ours, floor = ([each.percentile(percent, whole=True) for each in samples[m]] for m in (mode, "binlog"))
            what = f"statement sent to {MODES[mode]}, p{percent}"
            run.report.ratio(what, ours, floor, "ms", of=MODES["binlog"])
    run.report.note(
        "Commit to delivery counts from the moment at which the writer, a C program on a Unix socket, has the commit's"
        " answer; commits are 1 to 3 ms apart. The bar of classic polling is the original relay's on such a machine:"
        " p50 0.06 to 0.14 ms, p99 1.2 to 2.8 ms in a first record of it, 0.12 and 0.27 to 0.63 ms in a second."
    )


@dataclass
class Delays:
    """The delays of one run: milliseconds to each row's arrival, sorted, from the commit's return and the statement."""

    from_return: list[float]
    from_statement: list[float]

    def percentile(self, percent: int, *, whole: bool = False) -> float:
        """The delay that this percentage of the rows does not exceed; `whole`: from the statement."""
        delays = self.from_statement if whole else self.from_return
        return delays[len(delays) * percent // 100]


def _floor(run: Run, relay: RelayProcess, commits: int) -> Delays:
    """The delays of a program that only looks at what the source sends, while the relay reads nothing."""
    connection = readers.connect(run.server)
    with stopped(relay):
        dump = readers.dump_command(next_file(run.server), follow=True)
        delays = _delays(run.server, "binlog", "delay_floor", commits, connection._sock.fileno(), dump)
    connection.close()
    time.sleep(SETTLE_SECONDS)
    return delays


def _delivered(run: Run, client: Client, mode: str, commits: int) -> Delays:
    """The delays of the relay's client."""
    request = client.poll_many(BATCH_ROWS, 10 * WAIT_MS) if mode == "many" else client.request(Command.POLL)
    delays = _delays(run.server, mode, "delay", commits, client.socket.fileno(), request)
    client.exchange(client.request(Command.POLL))  # confirms the last rows
    return delays


def _delays(server: DatabaseServer, mode: str, table: str, commits: int, fd: int, request: bytes) -> Delays:
    """The delays of the transactions that bench/delay.c makes."""
    statement = f"INSERT INTO bench.{table} (customer, amount, created, note) VALUES (1, 2, '2026-01-01', 'a note')"
    query = b"\x03" + statement.encode()
    packet = len(query).to_bytes(4, "little") + query
    writer: Any = server.connect()  # uses PyMySQL's private socket
    fds = (writer._sock.fileno(), fd)
    done = subprocess.run(
        [BUILT / "delay", mode, str(commits), *map(str, fds)],
        input=b"".join(len(each).to_bytes(4, "little") + each for each in (packet, request)),
        stdout=subprocess.PIPE,
        pass_fds=fds,
        check=True,
    )
    writer.close()
    times = list(struct.iter_unpack("<QQQ", done.stdout))
    return Delays(
        sorted((arrived - returned) / 1e6 for _, returned, arrived in times),
        sorted((arrived - sent) / 1e6 for sent, _, arrived in times),
    )
