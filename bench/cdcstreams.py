"""The CDC port with thousands of streams: what one costs, and what those who start cost those who are there."""

from __future__ import annotations

import re
import resource
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench import cdc
from bench.run import Run
from tests.cdcclient import SECRET, USER, CdcClient, credentials
from tests.cdcservice import Service, relay_on

TABLES = 200
AT_ONCE = 1000
STREAMS = 10_000
IDLE_SECONDS = 10
KIB_A_STREAM = 16.0
IDLE_PERCENT = 5.0
LAST_ROW = b'"note": "last"}\n'
_SPARE = 500  # descriptors that are no stream


def measure(run: Run) -> None:
    """Start a relay on the server, and thousands of streams of it."""
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
        with waits(running, f"{db}.alone") as alone:
            time.sleep(1)
        with waits(running, f"{db}.beside") as seen:
            report.step(f"{AT_ONCE} streams at once, from the beginning")
            begin = time.perf_counter()
            crowd = [stream(running, tables[number % TABLES]) for number in range(AT_ONCE)]
            cdc.take(crowd, lambda _, tail: tail.endswith(LAST_ROW))
            seconds = time.perf_counter() - begin
        report.figure(f"{AT_ONCE} streams at once, from the beginning", [seconds], "s")
        there, here = statistics.median(seen) * 1e3, statistics.median(alone) * 1e3
        report.ratio("a row of another stream meanwhile", [there], [here], "ms", of="the same with nothing else")
        before = private(process)
        more = descriptors(STREAMS + _SPARE) - _SPARE - AT_ONCE
        report.step(f"{more} streams more")
        others = [stream(running, tables[number % TABLES]) for number in range(more)]
        cdc.take(others, lambda _, tail: tail.endswith(LAST_ROW))
        report.figure("memory a stream", [(private(process) - before) / more], "KiB", at_most=KIB_A_STREAM)
        busy = sum(process.cpu_times()[:2])
        time.sleep(IDLE_SECONDS)
        busy = sum(process.cpu_times()[:2]) - busy
        report.figure(
            f"processor with {AT_ONCE + more} streams idle", [busy / IDLE_SECONDS * 100], "%", at_most=IDLE_PERCENT
        )
        for each in (*crowd, *others):
            each.close()


def stream(running: Service, table: str) -> socket.socket:
    """One that has said all that it has to."""
    made = socket.create_connection(("127.0.0.1", running.port))
    made.sendall(credentials(USER, SECRET) + f"REGISTER UUID=x, TYPE=JSON\nREQUEST-DATA {table}\n".encode())
    return made


@contextmanager
def waits(running: Service, table: str) -> Iterator[list[float]]:
    """Seconds from a statement to its row, of a new table, at a client, again and again while the block runs."""
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


def private(process: psutil.Process) -> float:
    """KiB of memory that is the process's own: the journal, which it maps, is not in it."""
    [size] = re.findall(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return float(size)


def descriptors(wanted: int) -> int:
    """How many this process may have, at most those wanted."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
