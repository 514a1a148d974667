"""A long run of the CDC port with restarts, kills and cuts: what a client has seen in total equals the journal."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from examples.dbserver import KINDS, DatabaseServer
from tests.support.cdc_client import CdcClient, Reset, Row, triplet_of
from tests.support.cdc_source import Service, relay_on
from tests.support.chance import seeds
from tests.support.journal_images import Image, image_of, truth
from tests.support.waiting import patience

KILLS = int(os.environ.get("RELAY_KILLS", "25"))
SEEDS = seeds(2)
TABLE = "CREATE TABLE IF NOT EXISTS {}.t (id INT PRIMARY KEY, v INT, s VARCHAR(40))"
MOST_ADDED = 6
"""Columns that the table gets besides its own: four followers keep all rows in memory."""
LAST = -1
"""The id of the row after which there are no more."""


class Follower(threading.Thread):
    """One stream of a table over as many connections as it takes, each from the last triplet that was seen.

    `seen` is every row once, in order; what a resume repeats is held to what was seen before. `repeated` counts it.
    """

    def __init__(self, port: int, table: str, form: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.seen: list[Row] = []
        self.fields: list[list[str]] = []
        self.connections = self.repeated = 0
        self.error: BaseException | None = None
        self._port, self._table, self._form = port, table, form
        self._random = random.Random(seed)
        self.stopped = threading.Event()

    def run(self) -> None:
        try:
            while not self.stopped.is_set() and not (self.seen and self._is_last(self.seen[-1])):
                try:
                    self._connection()
                except (ConnectionError, Reset, EOFError, TimeoutError):
                    time.sleep(0.1)  # a process is gone, and the next one is not there yet
        except BaseException as error:
            self.error = error

    def _connection(self) -> None:
        gtid = triplet_of(self.seen[-1]) if self.seen else ""
        with CdcClient(self._port, timeout=2) as client:
            client.stream(self._table, gtid, self._form)
            self.connections += 1
            rows = self._rows(client)
            try:
                self._repeated(gtid, rows)
                for _ in range(self._random.choice((1, 10, 100, 10_000))):
                    if self._is_last(self.seen[-1]):
                        return
                    self.seen.append(next(rows))
            except (TimeoutError, StopIteration):
                return  # nothing goes on for now: as good a place as any
            if self._random.random() < 0.5:
                client.abort()

    def _repeated(self, gtid: str, rows: Iterator[Row]) -> None:
        """What an inclusive resume says again: the transaction, from its first row of this table to the last seen."""
        if not gtid:
            self.seen.append(next(rows))
            return
        begin = len(self.seen)
        while begin and triplet_of(self.seen[begin - 1]) == gtid:
            begin -= 1
        for place in range(begin, len(self.seen)):
            assert next(rows) == self.seen[place]
            self.repeated += 1

    def _rows(self, client: CdcClient) -> Iterator[Row]:
        if self._form == "AVRO":
            for schema, row in client.records():
                assert list(row) == [each["name"] for each in schema["fields"]]
                yield row
            return
        names: list[str] = []
        for line in client.lines():
            if line.is_schema:
                names = [each["name"] for each in line.document["fields"]]
            else:
                assert list(line.document) == names
                yield line.document

    def _is_last(self, row: Row) -> bool:
        return bool(row["id"] == LAST)


class Writer(threading.Thread):
    """Random transactions on two tables, with statements that change or empty the first one, until `stopped`."""

    def __init__(self, running: Service, db: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.error: BaseException | None = None
        self.altered = 0
        self._server, self._db, self._random = running.server, db, random.Random(seed)
        self._ids = itertools.count(1)
        self._columns = itertools.count(1)

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                try:
                    self._session()
                except (pymysql.OperationalError, pymysql.InterfaceError, FileNotFoundError):
                    time.sleep(0.1)  # the server is being restarted
        except BaseException as error:
            self.error = error

    def _session(self) -> None:
        with self._server.connect(database=self._db, autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute(TABLE.format(self._db))  # the server's end may have come between DROP and CREATE
            while not self.stopped.is_set():
                if self._random.random() < 0.03:
                    self._alter(cursor)
                for _ in range(self._random.randint(1, 6)):
                    self._statement(cursor)
                connection.commit() if self._random.random() < 0.9 else connection.rollback()
                time.sleep(self._random.choice((0, 0, 0.01, 0.05)))

    def _statement(self, cursor: pymysql.cursors.Cursor) -> None:
        kind = self._random.random()
        if kind < 0.5:
            many = 3 if kind > 0.01 else 5000  # over the ends of segments
            numbers = [(next(self._ids), self._random.randint(-9, 9), self._random.random()) for _ in range(many)]
            rows = [f"({number}, {value}, 'ü{text}')" for number, value, text in numbers]
            cursor.execute(f"INSERT INTO t (id, v, s) VALUES {', '.join(rows)}")
        elif kind < 0.7:
            cursor.execute("UPDATE t SET v = v + 1, s = NULL ORDER BY id DESC LIMIT %s", (self._random.randint(1, 9),))
        elif kind < 0.8:
            cursor.execute("DELETE FROM t ORDER BY id DESC LIMIT 1")
        else:
            cursor.execute("INSERT INTO other (v) VALUES (1), (2)")

    def _alter(self, cursor: pymysql.cursors.Cursor) -> None:
        self.altered += 1
        kind = self._random.random()
        if kind < 0.1:
            cursor.execute(f"DROP TABLE {self._db}.t")
            cursor.execute(TABLE.format(self._db))
            return
        if kind < 0.3:
            cursor.execute(self._random.choice(("TRUNCATE TABLE t", "RENAME TABLE t TO x, x TO t")))
            return
        if kind < 0.5:
            cursor.execute(f"ALTER TABLE t MODIFY v {self._random.choice(('INT', 'BIGINT'))}")
            return
        number = next(self._columns)
        change = f"ADD COLUMN c{number} VARCHAR(20) DEFAULT 'new {number}'"
        cursor.execute("SHOW COLUMNS FROM t LIKE 'c%'")
        if len(added := cursor.fetchall()) >= MOST_ADDED:
            change += f", DROP COLUMN {added[0][0]}"
        cursor.execute(f"ALTER TABLE t {change}")


def disturb(running: Service, rng: random.Random, number: int) -> None:
    """Something happens to the relay, to a process of it, or to the source."""
    if number % 8 == 7:
        running.server.restart()
    elif number % 4 == 3:
        running.relay.kill()
        running.relay.start()
    elif number % 4 == 1:
        assert running.relay.stop(30) == 0
        running.relay.start()
    else:
        pids = running.relay.pids()
        name = rng.choice([name for name in pids if name.startswith("cdc") or name == "reader"])
        with suppress(ProcessLookupError):
            os.kill(pids[name], signal.SIGKILL)


def workload(running: Service, db: str, disturbances: int, seed: int) -> list[Follower]:
    """Followers of both forms under load while things happen; they have seen the last row when this returns."""
    running.server.execute(
        TABLE.format(db),
        f"CREATE TABLE {db}.other (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        f"INSERT INTO {db}.t VALUES (0, 0, 'the beginning')",
    )
    running.await_rows(f"{db}.t", 1)
    rng = random.Random(seed)
    writer = Writer(running, db, seed)
    followers = [Follower(running.port, f"{db}.t", form, seed + n) for n, form in enumerate(("JSON", "AVRO") * 2)]
    writer.start()
    for follower in followers:
        follower.start()
    try:
        for number in range(disturbances):
            time.sleep(rng.uniform(0.2, 1.5))
            disturb(running, rng, number)
        time.sleep(1)
        writer.stopped.set()
        writer.join(patience(30))
        assert writer.error is None and writer.altered, writer.error
        end = f"INSERT INTO {db}.t (id, v, s) VALUES ({LAST}, 0, 'the end')"
        running.server.execute(TABLE.format(db), end)
        for follower in followers:
            follower.join(patience(60))
            if follower.error:
                raise follower.error
            assert not follower.is_alive(), f"{len(follower.seen)} rows, and no end"
    finally:
        writer.stopped.set()
        for follower in followers:
            follower.stopped.set()
    return followers


def resumes(running: Service, db: str, whole: list[Row], times: int, seed: int) -> None:
    """From any transaction that was seen, in either form, comes what came before."""
    rng = random.Random(seed)
    for number in range(times):
        gtid = triplet_of(rng.choice(whole))
        begin = next(place for place, row in enumerate(whole) if triplet_of(row) == gtid)
        with running.client() as client:
            if number % 2:
                records = client.stream(f"{db}.t", gtid, "AVRO").records()
                rows = [next(records)[1] for _ in whole[begin:]]
            else:
                rows = client.stream(f"{db}.t", gtid).rows(len(whole) - begin)
        assert rows == whole[begin:]


def compare(found: list[Image], expected: list[Image]) -> None:
    """The same images in the same order; the first that differs is told."""
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
        assert ours == theirs, f"row {place}"
    assert len(found) == len(expected)


@pytest.fixture(params=list(KINDS))
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    with (
        DatabaseServer(request.param, options=("--binlog-row-metadata=FULL",)) as server,
        relay_on(server, tmp_path, {"CDC.Workers": 2, "Relay.SegmentBytes": "256KiB"}) as made,
    ):
        yield made


def test_all_that_clients_saw_together_is_the_journal(running: Service) -> None:
    hold(running, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_all_that_clients_saw_in_a_long_life_is_the_journal(running: Service, seed: int) -> None:
    hold(running, KILLS, seed)


def hold(running: Service, disturbances: int, seed: int = SEEDS[0]) -> None:
    """Clients live through so many disturbances; what they have seen is held to the journal."""
    db = running.database()
    followers = workload(running, db, disturbances, seed)
    resumes(running, db, followers[0].seen, 2 * disturbances, seed)
    assert running.relay.stop() == 0
    expected = truth(running.journal, db, "t")
    for follower in followers:
        assert follower.connections > 1 and follower.repeated
        compare([image_of(row) for row in follower.seen], expected)
