"""The CDC port with thousands of streams: the cost of one, and the effect of starting streams on running ones."""

from __future__ import annotations

import resource
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from bench import cdc
from bench.machine import anonymous_bytes
from bench.run import Run
from tests.support.cdc_client import SECRET, USER, CdcClient, credentials
from tests.support.cdc_source import Service, relay_on

TABLES = 200
AT_ONCE = 1000
STREAMS = 10_000
IDLE_SECONDS = 10
KIB_A_STREAM = 16.0
IDLE_PERCENT = 5.0
LAST_ROW = b'"note": "last"}\n'
_SPARE = 500  # descriptors that are not streams


def measure(run: Run) -> None:
    """Starts a relay on the server, and thousands of streams."""
    report, server = run.report, run.server
    with relay_on(server, run.scratch, {"CDC.MaxStreams": STREAMS + _SPARE}) as running:
        report.step(f"{TABLES} tables, and the history between their rows")
        db = running.database()
        tables = [f"{db}.t{number}" for number in range(TABLES)]
        server.execute(*[f"CREATE TABLE {table} (id INT PRIMARY KEY, note VARCHAR(9))" for table in tables])
        server.execute(*[f"INSERT INTO {table} VALUES (1, 'first')" for table in tables])
        cdc.fill(server, "cdc_between", run.rows(1_000_000))
        server.execute(*[f"INSERT INTO {table} VALUES (2, 'last')" for table in tables])
        running.await_rows(tables[-1], 2)
        process = psutil.Process(running.relay.pids()["cdc-0"])
        with measured_delays(running, f"{db}.alone") as alone:
            time.sleep(1)
        with measured_delays(running, f"{db}.beside") as seen:
            report.step(f"{AT_ONCE} streams at once, from the beginning")
            begin = time.perf_counter()
            crowd = [stream(running, tables[number % TABLES]) for number in range(AT_ONCE)]
            cdc.receive_until(crowd, lambda _, tail: tail.endswith(LAST_ROW))
            seconds = time.perf_counter() - begin
        report.figure(f"{AT_ONCE} streams at once, from the beginning", [seconds], "s")
        there, here = statistics.median(seen) * 1e3, statistics.median(alone) * 1e3
        report.ratio("a row of another stream meanwhile", [there], [here], "ms", of="the same with nothing else")
        before = anonymous_bytes(process.pid)
        more = descriptors(STREAMS + _SPARE) - _SPARE - AT_ONCE
        report.step(f"{more} streams more")
        others = [stream(running, tables[number % TABLES]) for number in range(more)]
        cdc.receive_until(others, lambda _, tail: tail.endswith(LAST_ROW))
        report.figure(
            "memory a stream", [(anonymous_bytes(process.pid) - before) / 1024 / more], "KiB", at_most=KIB_A_STREAM
        )
        busy = sum(process.cpu_times()[:2])
        time.sleep(IDLE_SECONDS)
        busy = sum(process.cpu_times()[:2]) - busy
        report.figure(
            f"processor with {AT_ONCE + more} streams idle", [busy / IDLE_SECONDS * 100], "%", at_most=IDLE_PERCENT
        )
        for each in (*crowd, *others):
            each.close()


def stream(running: Service, table: str) -> socket.socket:
    """A stream that has sent all its commands."""
    made = socket.create_connection(("127.0.0.1", running.port))
    made.sendall(credentials(USER, SECRET) + f"REGISTER UUID=x, TYPE=JSON\nREQUEST-DATA {table}\n".encode())
    return made


@contextmanager
def measured_delays(running: Service, table: str) -> Iterator[list[float]]:
    """Repeats while the block runs: seconds from a statement on a new table to its row at a client."""
    found: list[float] = []
    ended = threading.Event()

    def work() -> None:
        with running.server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT)")
            with CdcClient(running.port, b"\n", 60).login().register() as client:
                client.request(table)
                while not found or not ended.is_set():
                    begin = time.perf_counter()
                    cursor.execute(f"INSERT INTO {table} VALUES ()")
                    while client.line()[:9] != b'{"domain"':
                        pass
                    found.append(time.perf_counter() - begin)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def descriptors(wanted: int) -> int:
    """The number of descriptors that this process may have, at most `wanted`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
