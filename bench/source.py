"""What a source that writes at full speed loses to readers of its binlog on the same cores, and which readers keep up.

Slices in turns: the source alone, then with one reader connected and no other running; the C program that only reads
comes before each relay. Shares are relative to the round's slices alone. All readers use TCP without TLS.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from statistics import mean
from typing import Any

import psutil
from pymysql.err import OperationalError

from bench import readers
from bench.clients import Client
from bench.report import Report
from bench.run import Run
from bench.shapes import NARROW, Shape, create
from examples.dbserver import DatabaseServer
from relay._native import Arena
from relay.runtime import shm
from tests.support.relay_process import SECRET, RelayProcess, write_conf

SLICE_SECONDS = 2.0
MORE_ROUNDS = 6  # the source's rate varies more from slice to slice than the bar allows the relay to cost
WRITERS = 4
POINTS = 5.0  # percent of the commit rate that the relay may cost more than the C program
LAG_MS = 100.0  # the most that the relay may be behind, at the worst moment and after the last commit, to pass
SAMPLE_SECONDS = 0.02
SETTLE_SECONDS = 60.0
TABLE = "bench.source"
SHAPES = {"single-row": 1, "100-row": 100}
ALONE, C_PROGRAM, LIBRARY = "alone", "C program", "mysql-replication"
NO_CLIENT, ONE_CLIENT = "relay", "relay and a client"
TURNS = (*(ALONE, C_PROGRAM, NO_CLIENT, C_PROGRAM, ONE_CLIENT) * 2, ALONE, LIBRARY)


@dataclass
class Reading:
    """The current reader of the binlog: no process, or these, and their arena if they are a relay."""

    processes: Sequence[psutil.Process] = ()
    arena: Arena | None = None

    def transactions(self) -> int:
        """The number of transactions that a relay has read and published."""
        return self.arena.traffic()["transactions"] if self.arena is not None else 0


@dataclass
class Slice:
    """The result of a slice.

    For a relay: the longest lag while the source wrote, and the time to catch up afterwards.
    """

    rate: float  # commits/s
    cpu: float  # microseconds of source and reader per transaction
    lag_ms: float
    after_ms: float


def measure(run: Run) -> None:
    """Single-row transactions, and transactions of 100 rows."""
    _prepare(run.server)
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    relays: dict[str, RelayProcess] = {}
    try:
        for name, folder in ((NO_CLIENT, "none"), (ONE_CLIENT, "one")):
            (run.scratch / folder).mkdir()
            relay = relays[name] = RelayProcess(write_conf(run.scratch / folder, run.server, settings))
            relay.start()  # from here on its position is the end of the binlog
            relay.stop()
        for name, rows in SHAPES.items():
            _compare(run, relays, name, rows)
    finally:
        for relay in relays.values():
            relay.end()


def _prepare(server: DatabaseServer) -> None:
    """Creates the tables, and the procedure that commits transactions of `many` rows until the time is over."""
    create(server, "source", NARROW)
    create(server, "numbers", ("n INT PRIMARY KEY",))
    server.execute(
        "INSERT INTO bench.numbers WITH RECURSIVE numbers (n) AS"
        " (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 99) SELECT n FROM numbers",
        "DROP PROCEDURE IF EXISTS bench.write_until",
        f"""CREATE PROCEDURE bench.write_until(IN ended DATETIME(6), IN first BIGINT, IN many INT)
            BEGIN
              DECLARE done BIGINT DEFAULT 0;
              WHILE SYSDATE(6) < ended DO
                IF many = 1 THEN
                  INSERT INTO {TABLE} VALUES (first + done, 1, 12.34, '2026-01-01', 'a note');
                ELSE
                  INSERT INTO {TABLE}
                    SELECT first + done * many + n, n, 12.34, '2026-01-01', 'a note' FROM bench.numbers WHERE n < many;
                END IF;
                SET done = done + 1;
              END WHILE;
              SELECT done;
            END""",
    )


def _compare(run: Run, relays: dict[str, RelayProcess], name: str, rows: int) -> None:
    """Runs rounds of slices and reports their results."""
    server = run.server
    seconds = SLICE_SECONDS * min(run.scale, 1)
    contestants: dict[str, Callable[[], AbstractContextManager[Reading]]] = {
        ALONE: lambda: _nobody(server),
        C_PROGRAM: lambda: _c_program(server),
        NO_CLIENT: lambda: _relay(server, relays[NO_CLIENT], client=False),
        ONE_CLIENT: lambda: _relay(server, relays[ONE_CLIENT], client=True),
        LIBRARY: lambda: _library(server),
    }
    rounds: list[dict[str, list[Slice]]] = []
    count = run.rounds + MORE_ROUNDS
    for number in range(count):
        run.report.step(f"{name} transactions, round {number + 1} of {count}")
        taken: dict[str, list[Slice]] = {contestant: [] for contestant in contestants}
        for contestant in TURNS:
            # Each slice begins with an empty table and an empty file of the binlog.
            server.execute(f"TRUNCATE {TABLE}", "FLUSH BINARY LOGS")
            with contestants[contestant]() as reading:
                taken[contestant].append(_write(server, rows, seconds, reading))
        rounds.append(taken)
    _show(run.report, name, rounds)


def _show(report: Report, name: str, rounds: list[dict[str, list[Slice]]]) -> None:
    """Each round is one sample: the mean of its slices of a kind, and the longest lag."""

    def rates(contestant: str) -> list[float]:
        return [mean(each.rate for each in taken[contestant]) for taken in rounds]

    def shares(contestant: str) -> list[float]:
        return [own / alone * 100 for own, alone in zip(rates(contestant), rates(ALONE), strict=True)]

    for contestant in (ALONE, C_PROGRAM, NO_CLIENT, ONE_CLIENT, LIBRARY):
        what = f"{name}, {contestant}"
        if contestant == ALONE:
            report.figure(what, rates(ALONE), "commits/s")
        else:
            report.figure(f"{what}: the source's rate", shares(contestant), "% of alone")
        cpu = [mean(each.cpu for each in taken[contestant]) for taken in rounds]
        report.figure(f"{what}: CPU, source and reader, a transaction", cpu, "us")
        if contestant not in (NO_CLIENT, ONE_CLIENT):
            continue
        more = [least - own for own, least in zip(shares(contestant), shares(C_PROGRAM), strict=True)]
        report.figure(f"{what}: lost beyond the C program", more, "points", at_most=POINTS)
        lag = [max(each.lag_ms for each in taken[contestant]) for taken in rounds]
        report.figure(f"{what}: longest lag", lag, "ms", at_most=LAG_MS)
        after = [max(each.after_ms for each in taken[contestant]) for taken in rounds]
        report.figure(f"{what}: level after the last commit", after, "ms", at_most=LAG_MS)


def _write(server: DatabaseServer, rows: int, seconds: float, reading: Reading) -> Slice:
    """One slice: all writers at once. Samples their progress and the reader's meanwhile."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(WRITERS))
        connections = [stack.enter_context(closing(server.connect())) for _ in range(WRITERS + 1)]
        samples = Samples(connections.pop(), reading)
        processes = [psutil.Process(server.pid), *reading.processes]
        used, stolen, begin = _cpu(processes), _stolen(), time.monotonic()
        working = [pool.submit(_insert, connection, at, rows, seconds) for at, connection in enumerate(connections)]
        while not all(each.done() for each in working):
            samples.take()
            time.sleep(SAMPLE_SECONDS)
        commits = sum(each.result() for each in working)
        ended = time.monotonic()
        given = ended - begin - (_stolen() - stolen)
        while not samples.caught_up(commits):
            assert time.monotonic() < ended + SETTLE_SECONDS, "the relay does not catch up"
            time.sleep(0.001)
        after = time.monotonic() - ended
        cpu = (_cpu(processes) - used) / commits
        return Slice(commits / given, cpu * 1e6, samples.lag_ms(), after * 1000)


def _insert(connection: Any, number: int, rows: int, seconds: float) -> int:
    with connection.cursor() as cursor:
        until = f"SYSDATE(6) + INTERVAL {int(seconds * 1e6)} MICROSECOND"
        cursor.execute(f"CALL bench.write_until({until}, {number}000000000, {rows})")
        return int(cursor.fetchall()[0][0])


def _cpu(processes: Sequence[psutil.Process]) -> float:
    """Seconds of CPU time of the processes so far, user and system."""
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def _stolen() -> float:
    """Seconds per core that the host of a virtual machine gave to other machines, so that no program here could run."""
    return float(psutil.cpu_times().steal) / (os.cpu_count() or 1)


class Samples:
    """The numbers of transactions that the source had committed and the reader had read, over time, source first."""

    def __init__(self, connection: Any, reading: Reading) -> None:
        self._cursor = connection.cursor()
        self._reading = reading
        self._committed: list[tuple[float, int]] = []  # monotonic seconds, transactions
        self._read: list[tuple[float, int]] = []
        self._begin = self._source(), reading.transactions()

    def _source(self) -> int:
        self._cursor.execute("SELECT @@global.gtid_executed")
        return int(str(self._cursor.fetchone()[0]).rpartition("-")[2])

    def _reader(self) -> int:
        return self._reading.transactions() - self._begin[1]

    def take(self) -> None:
        """Queries the source even without a reader, so that the cost is in every slice."""
        self._committed.append((time.monotonic(), self._source() - self._begin[0]))
        self._read.append((time.monotonic(), self._reader()))

    def caught_up(self, transactions: int) -> bool:
        """Whether a relay has read this many since the beginning; unknown for other readers."""
        return self._reading.arena is None or self._reader() >= transactions

    def lag_ms(self) -> float:
        """The longest time for which the source was seen to have what the relay lacked."""
        longest = 0.0
        for now, count in self._read:
            lacking = next((at for at, committed in self._committed if committed > count), now)
            longest = max(longest, now - lacking)
        return longest * 1000


@contextmanager
def _nobody(server: DatabaseServer) -> Iterator[Reading]:
    """No reader is connected."""
    assert not _dumps(server), "somebody still reads the binlog"
    yield Reading()


@contextmanager
def _c_program(server: DatabaseServer) -> Iterator[Reading]:
    """bench/floor.c, which follows the binlog and does nothing with it."""
    with closing(readers.connect(server)) as connection:
        fd = connection._sock.fileno()
        with _piped("floor", fd, given=readers.dump_command(_file(server), follow=True)) as process:
            _connected(server)
            yield Reading([process])
    _disconnected(server)


@contextmanager
def _library(server: DatabaseServer) -> Iterator[Reading]:
    """mysql-replication in its own process, with every row decoded."""
    shape = Shape("source", 0, 0, _file(server), server)
    pid = os.fork()
    if pid == 0:
        try:
            for event in readers.library_stream(shape):
                len(event.rows)
        finally:
            os._exit(1)
    process = psutil.Process(pid)
    try:
        _connected(server)
        yield Reading([process])
    finally:
        process.kill()
        os.waitpid(pid, 0)
    _disconnected(server)


@contextmanager
def _relay(server: DatabaseServer, relay: RelayProcess, *, client: bool) -> Iterator[Reading]:
    """A relay that has read everything so far, with one client in PollMany that takes everything, or with none."""
    relay.start()
    block = shm.find(relay.conf.parent / "data")
    assert block is not None
    supervisor = psutil.Process(relay.pid)
    with ExitStack() as stack:
        if client:
            known = Client(relay.port, SECRET, "source", "source")
            stack.callback(known.close)
            fd = known.socket.fileno()
            stack.enter_context(_piped("load", "many", "3600", fd, given=known.poll_many(1000, 60_000)))
        _connected(server)
        _settled(relay)
        yield Reading([supervisor, *supervisor.children()], Arena(block.view))
    relay.stop()
    _disconnected(server)


@contextmanager
def _piped(program: str, *arguments: str | int, given: bytes) -> Iterator[psutil.Process]:
    """Runs a program of the benchmark within the block, with a descriptor as its last argument and with input."""
    command = [str(readers.BUILT / program), *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[int(arguments[-1])])
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def _settled(relay: RelayProcess) -> None:
    """Waits until the relay has read, counted and delivered everything."""

    def at_rest() -> bool:
        found = relay.stat()
        journal, delivered = found["journal"], not any(each["waiting"] for each in found["clients"])
        caught_up = found["source"]["lag_bytes"] == 0 and journal["flushed"] == journal["committed"]
        return caught_up and delivered and found["usage"]["position"] >= journal["flushed"]

    _await(at_rest, "the relay does not come to rest")


def _file(server: DatabaseServer) -> str:
    return str(server.execute("SHOW BINARY LOG STATUS")[0][0])


def _dumps(server: DatabaseServer) -> list[int]:
    """The source's connections that send the binlog."""
    found = server.execute("SELECT ID FROM information_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'")
    return [int(row[0]) for row in found]


def _connected(server: DatabaseServer) -> None:
    _await(lambda: len(_dumps(server)) == 1, "nobody reads the binlog")


def _disconnected(server: DatabaseServer) -> None:
    """Kills the source's dump threads. They would notice only at their next packet that the reader is gone."""
    for connection in _dumps(server):
        with suppress(OperationalError):  # it has noticed
            server.execute(f"KILL {connection}")
    _await(lambda: not _dumps(server), "the source still sends its binlog")


def _await(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
