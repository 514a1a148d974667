"""The cost of clients before they read: the broker's CPU time per event, and the effect of slow clients on the reader.

Two relays read the same source: one without clients, and one with clients that never read, so that their queues reach
their maximum. 100 of these have no limit, 100 drop the newest rows, 1000 drop the oldest and have ten filters each. The
first relay's share is subtracted to get a client's cost, and is the peer where there should be no cost. Both have their
data in memory, so that no disk decides how fast readers catch up.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.run import MEMORY, Run
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from relay._native import Arena
from relay.client import RelayClient
from relay.protocol.classic import Discard
from relay.runtime.shm import find
from tests.support.relay_process import SECRET, RelayProcess, process_cpu_seconds, write_conf

FEW, MANY, FILTERS = 100, 1000, 10
LIMIT = 200  # rows
MORE_ROUNDS = 4  # where a small share, or a short time, is measured
PATIENCE = 60.0  # seconds


@dataclass(frozen=True)
class Group:
    """Clients with a filter on bench.<table>, and with others on tables that do not exist."""

    table: str
    clients: int
    queues: str
    limit: int = 0
    discard: Discard = Discard.NEWEST
    filters: int = 1


NOBODY = Group("fan_nobody", 0, "")
UNLIMITED = Group("fan_unlimited", FEW, "without a limit")
NEWEST = Group("fan_newest", FEW, "that drop the newest", LIMIT)
OLDEST = Group("fan_oldest", MANY, "that drop the oldest", LIMIT, Discard.OLDEST, FILTERS)
GROUPS = (UNLIMITED, NEWEST, OLDEST)


@dataclass(frozen=True)
class Pace:
    """How events arrive: all at once at a stopped broker, or each when its transaction commits."""

    words: str
    stopped: bool
    events: int  # per transaction; each has one row
    slices: int  # per round: a sleep after each event costs as much as 100 clients, and varies


BULK, LIVE = Pace("in bulk", True, 100, 1), Pace("live", False, 1, 5)


def measure(run: Run) -> None:
    """Starts both relays and measures them in turns."""
    source = Source(run.server)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY, prefix="relay-bench-") as memory,
        Watched(Path(memory) / "bare", run.server) as bare,
        Watched(Path(memory) / "crowd", run.server) as crowd,
    ):
        run.report.step(f"{sum(group.clients for group in GROUPS)} clients ask for rows")
        for group in GROUPS:
            crowd.subscribe(group)
        uninterested(run, source, bare, crowd)
        interested(run, source, bare, crowd)
        slow(run, source, bare, crowd)


def uninterested(run: Run, source: Source, bare: Watched, crowd: Watched) -> None:
    """Events that no client asked for. Two measurements without clients show the error of such a ratio."""
    for pace, events in ((BULK, run.rows(150_000)), (LIVE, run.rows(15_000))):
        without, among, again = [], [], []
        rounds = run.rounds + MORE_ROUNDS
        for number in range(rounds):
            run.report.step(f"events that nobody asked for, {pace.words}, round {number + 1} of {rounds}")
            without.append(broker_cpu(source, bare, crowd, NOBODY.table, pace, events))
            among.append(broker_cpu(source, crowd, bare, NOBODY.table, pace, events))
            again.append(broker_cpu(source, bare, crowd, NOBODY.table, pace, events))
        what = f"broker CPU an event, {pace.words}, "
        run.report.ratio(what + "no client, measured again", again, without, "ns", of="no client")
        noise = max(one / other for one, other in zip(again, without, strict=True))
        clients = f"{sum(group.clients for group in GROUPS)} clients, none interested"
        run.report.ratio(what + clients, among, without, "ns", of="no client", at_most=max(1.05, noise))


def interested(run: Run, source: Source, bare: Watched, crowd: Watched) -> None:
    """Events that each client of a group asked for, minus their cost without clients."""
    for group in GROUPS:
        for pace, events in ((BULK, run.rows(20_000)), (LIVE, run.rows(10_000))):
            samples = []
            rounds = run.rounds * pace.slices
            for number in range(rounds):
                run.report.step(f"{group.clients} clients {group.queues}, {pace.words}, round {number + 1} of {rounds}")
                cost = {}
                for relay, other in ((bare, crowd), (crowd, bare))[:: -1 if number % 2 else 1]:
                    cost[relay] = broker_cpu(source, relay, other, group.table, pace, events // pace.slices)
                samples.append((cost[crowd] - cost[bare]) / group.clients)
            what = f"broker CPU an event and client, {pace.words}, {group.clients} {group.queues}"
            run.report.figure(what, samples, "ns", at_most=30)


def broker_cpu(source: Source, measured: Watched, other: Watched, table: str, pace: Pace, events: int) -> float:
    """Nanoseconds of the measured relay's broker per event; the other relay gets the events afterwards."""
    for relay in (measured, other):
        relay.wait_idle(source)
    other.stop("reader")
    if pace.stopped:
        measured.stop("broker")
    before = measured.cpu("broker")
    source.write(table, events, pace.events)
    measured.wait_read(source)
    measured.resume("broker")
    measured.wait_idle(source)
    taken = measured.cpu("broker") - before
    other.resume("reader")
    return taken / events


def slow(run: Run, source: Source, bare: Watched, crowd: Watched) -> None:
    """The speed of a reader that catches up, while the queues of the broker are full and no client empties them.

    Both readers are paused while the source writes. A stopped process would not do: its receive buffer overflows, and
    what is lost then comes seconds later.
    """
    for group in (UNLIMITED, NEWEST):
        for rows, single in ((run.rows(2_400_000), False), (run.rows(400_000), True)):
            shape = "one row an event" if single else "narrow"
            rates: dict[Watched, list[float]] = {bare: [], crowd: []}
            costs: dict[Watched, list[float]] = {bare: [], crowd: []}
            rounds = run.rounds + MORE_ROUNDS
            for number in range(rounds):
                text = f"reading {shape}, {group.clients} clients {group.queues}, round {number + 1} of {rounds}"
                run.report.step(text)
                for relay in (bare, crowd):
                    relay.wait_idle(source)
                    relay.pause()
                if single:
                    source.write(group.table, rows, BULK.events)
                else:
                    source.write_many(group.table, rows)
                for relay in (bare, crowd)[:: -1 if number % 2 else 1]:
                    relay.unpause(source, rows)
                    began, before = time.monotonic(), relay.cpu("reader")
                    relay.wait_read(source)
                    rates[relay].append(rows / (time.monotonic() - began))
                    costs[relay].append((relay.cpu("reader") - before) / rows)
                    relay.wait_idle(source)
            beside = f", {group.clients} slow clients {group.queues}"
            run.report.ratio(
                f"{shape}, rows/s{beside}", rates[crowd], rates[bare], "rows/s", of="no client", at_least=0.95
            )
            run.report.ratio(f"{shape}, reader CPU a row{beside}", costs[crowd], costs[bare], "ns", of="no client")


class Source:
    """Writes rows to the tables of all groups, and counts them."""

    def __init__(self, server: DatabaseServer) -> None:
        self.rows = 0
        self._server = server
        for group in (NOBODY, *GROUPS):
            create(server, group.table, NARROW)
            server.execute(
                f"DROP PROCEDURE IF EXISTS bench.write_{group.table}",
                f"""CREATE PROCEDURE bench.write_{group.table}(IN first INT, IN count INT, IN events INT)
                    BEGIN
                      DECLARE n INT DEFAULT first;
                      SET autocommit = 0;
                      WHILE n < first + count DO
                        INSERT INTO bench.{group.table} SELECT {NARROW_VALUES};
                        SET n = n + 1;
                        IF (n - first) % events = 0 THEN COMMIT; END IF;
                      END WHILE;
                      COMMIT;
                    END""",
            )

    def write(self, table: str, events: int, a_transaction: int) -> None:
        """Writes events of one row."""
        self._server.execute(f"CALL bench.write_{table}({self.rows}, {events}, {a_transaction})")
        self.rows += events

    def write_many(self, table: str, rows: int) -> None:
        """Writes events of many rows."""
        insert(self._server, table, NARROW_VALUES, self.rows, rows)
        self.rows += rows


class Watched:
    """A relay that is watched through its shared memory, so that waiting for it costs it nothing."""

    def __init__(self, folder: Path, server: DatabaseServer) -> None:
        folder.mkdir()
        settings = {"Relay.MaxClients": sum(group.clients for group in GROUPS), "Relay.SegmentBytes": "64MiB"}
        self._relay = RelayProcess(write_conf(folder, server, settings))
        self._data = folder / "data"

    def __enter__(self) -> Self:
        """Starts it, at the source's end."""
        with ExitStack() as failed:
            failed.callback(self._relay.end)
            self._relay.start()
            self._pids = self._relay.pids()
            block = find(self._data)
            assert block is not None
            self._arena = Arena(block.view)
            failed.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it permanently."""
        for process in ("reader", "broker"):
            self.resume(process)
        self._relay.end()

    def subscribe(self, group: Group) -> None:
        """Registers a group's clients, without keeping connections."""
        for number in range(group.clients):
            with RelayClient("127.0.0.1", self._relay.port, f"{group.table}-{number}", SECRET) as client:
                client.add_filter("bench", group.table, limit=group.limit, discard=group.discard)
                for other in range(1, group.filters):
                    client.add_filter("bench", f"{group.table}-{number}-{other}")

    def stop(self, process: str) -> None:
        """Stops one of its processes (SIGSTOP)."""
        os.kill(self._pids[process], signal.SIGSTOP)

    def resume(self, process: str) -> None:
        """Continues it."""
        os.kill(self._pids[process], signal.SIGCONT)

    def pause(self) -> None:
        """Lets its reader disconnect from the source."""
        self._arena.paused = True
        wait(lambda: self._arena.source_state == "paused")

    def unpause(self, source: Source, rows: int) -> None:
        """Lets its reader connect again; waits until the first of the source's last `rows` rows has come."""
        self._arena.paused = False
        wait(lambda: sum(self._arena.rows().values()) > source.rows - rows)

    def cpu(self, process: str) -> float:
        """Nanoseconds of CPU time of one of its processes, all its threads together."""
        return process_cpu_seconds(self._pids[process]) * 1e9

    def wait_read(self, source: Source) -> None:
        """Waits until its reader has all rows."""
        wait(lambda: sum(self._arena.rows().values()) == source.rows)

    def wait_idle(self, source: Source) -> None:
        """Waits until its broker has decided everything and sleeps."""
        self.wait_read(source)
        time.sleep(0.01)  # rows are counted before their commit
        wait(lambda: self._arena.broker_waiting and self._arena.broker_scan == self._arena.committed)


def wait(condition: Callable[[], bool]) -> None:
    """Waits for the condition; checks a thousand times per second."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the relay does not keep up"
        time.sleep(0.001)
