"""The current state equals `SELECT *`, value by value, after random workloads on tables of every type, with kills.

The failure's text contains the seed: RELAY_SEED=n repeats that workload, though not the moments of the kills.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import relay.lake
from examples.dbserver import KINDS, DatabaseServer
from examples.lakeside import source_position, wait_caught_up
from relay.lake import paths
from relay.lake.columns import fields_of_all, key_columns
from relay.lake.documents import Table, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark import changes, current, reading
from relay.spark import merge as merging
from relay.spark.merge import merge
from tests.spark.states import applied
from tests.support.chance import SEED
from tests.support.lake_rows import bag, difference, in_lake, selected
from tests.support.random_tables import RandomWorkload
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience

pytestmark = pytest.mark.spark

STEPS, LIVES, KILLS = 40, 4, 5
CHANGES_OF_MERGES, CHANGES_OF_SNAPSHOTS, CHANGES_OF_EXPORTS = 60, 40, 400  # to a lake; a kill comes before one of them
MARKERS = ("create", "truncate", "drop", "reset")
PATIENCE = patience(60.0)  # seconds for the lake to have everything


class World:
    """A server with a random life, a relay with a lake, and Spark."""

    def __init__(self, server: DatabaseServer, db: str, lake: Path, spark: SparkSession, seed: int) -> None:
        self.server, self.db, self.lake, self.spark, self.seed = server, db, str(lake), spark, seed
        self.log = LakeLog(open_storage(self.lake))
        self.chance = random.Random(seed)
        self.life = RandomWorkload(server, db, seed)

    def settings(self) -> dict[str, object]:
        return {
            "Lake.Path": self.lake,
            "Lake.Tables": f"{self.db}.*",
            "Lake.RollSeconds": 1,
            "Source.Tables": f"{self.db}.*",
        }

    def follow(self, relay: RelayProcess) -> None:
        """From now on no definition changes before the relay has read what was written under it.

        MariaDB's events do not tell UUID and INET columns: what they are is asked, and has to be so still.
        """

        def wait() -> None:
            written = source_position(self.server)
            while (read := relay.stat()["source"])["file"] != written.file or read["position"] < written.position:
                time.sleep(0.02)

        self.life.before_ddl = wait

    def level(self) -> list[TableState]:
        """Wait until the lake has every row; its tables."""
        names = [Table(self.db, table.name) for table in self.life.tables]
        try:
            state = wait_caught_up(self.log, self.server, names, PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"seed {self.seed}: {error}") from error
        return [state.tables[paths.table_key(name)] for name in names]

    def check(self) -> None:
        """Every table equals its source, now that the lake is level."""
        try:
            wrong = [f"{known.table}: {text}" for known in self.level() if (text := self._differs(known))]
        except Exception as error:
            error.add_note(f"seed {self.seed}")
            raise
        assert not wrong, f"seed {self.seed}:\n" + "\n".join(wrong)

    def _differs(self, known: TableState) -> str:
        """How a table differs from the source; nothing, if it is equal. The files are read by Spark or by the relay."""
        with patch.object(reading, "MANY", 1), patch.object(reading, "MOST_BYTES", self.chance.choice((0, 1 << 25))):
            return self._difference(known)

    def _difference(self, known: TableState) -> str:
        fields, table = known.version.fields, known.table
        source = Counter(selected(self.server, self.db, table.table, fields))
        if known.version.key:
            arrow = current(self.spark, self.lake, table).toArrow()
            lake = Counter(in_lake(arrow.to_pydict(), fields, arrow.num_rows))
            without_spark = relay.lake.current(self.log, table).read_all()
            if wrong := difference(
                lake, Counter(in_lake(without_spark.to_pydict(), fields, len(without_spark))), fields
            ):
                return f"without Spark: {wrong}"
            if wrong := difference(lake, self._upserted(known), fields):
                return f"by upserts: {wrong}"
        else:
            rows = changes(self.spark, self.lake, table).where(f.col("_seq") >= known.reset)
            arrow = rows.where(~f.col("_change_type").isin(*MARKERS)).orderBy("_seq").toArrow()
            columns = arrow.to_pydict()
            every = in_lake(columns, fields, arrow.num_rows)
            lake = bag(zip(columns["_seq"], columns["_change_type"], every, strict=True))
        return difference(source, lake, fields)

    def _upserted(self, known: TableState) -> Counter[tuple[object, ...]]:
        """The rows of a table, made by the upserts and deletes of the data source."""
        options = {"lake": self.lake, "table": str(known.table), "rows": "upserts"}
        rows = self.spark.read.format("relay").options(**options).load().toArrow()
        last = applied(rows.to_pylist(), key_columns(fields_of_all(known), known.version.key))
        columns = {name: [row[name] for row in last] for name in rows.column_names}
        return Counter(in_lake(columns, known.version.fields, len(last)))


@pytest.fixture
def world(
    own_server: Callable[..., DatabaseServer], spark: SparkSession, tmp_path: Path
) -> Iterator[Callable[[str], World]]:
    """world(kind): a life of its own on a server of its own, its tables filled."""
    made: list[World] = []

    def make(kind: str) -> World:
        server = own_server(kind, "--binlog-row-metadata=FULL")
        server.execute("CREATE DATABASE life CHARACTER SET utf8mb4")
        made.append(World(server, "life", tmp_path / "lake", spark, SEED))
        made[-1].life.fill(10)
        return made[-1]

    yield make
    for each in made:
        each.life.close()


def kill(relay: RelayProcess, name: str) -> None:
    """SIGKILL a child of the relay, if it lives; the supervisor starts another."""
    if (pid := relay.pids().get(name)) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run_killed(module: str, *arguments: object) -> bool:
    """Run a program that may be killed; False if it was. What it says goes where the test's own output goes."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    status = subprocess.run(command, check=False, timeout=patience(120)).returncode
    assert status in (0, -signal.SIGKILL), f"{module} {arguments} ended with {status}"
    return status == 0


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.timeout(400)
def test_the_current_state_equals_select_after_a_random_life(
    kind: str, world: Callable[[str], World], start_relay: Callable[..., RelayProcess]
) -> None:
    it = world(kind)
    relay = start_relay(it.server, it.settings())
    it.follow(relay)
    for last in (False, True):
        for _ in range(LIVES):
            it.life.run(STEPS // LIVES)
            kill(relay, it.chance.choice(("exporter", "snapshotter")))
        it.life.touch()
        tables = [known.table for known in it.level()]
        if last:
            run_killed("tests.spark.merging", it.lake, it.chance.randrange(1, CHANGES_OF_MERGES))
        with patch.object(merging, "RECENT_SHARE", it.chance.choice((0, 1 << 20))):
            for table in tables:
                merge(it.spark, it.log, table)
        it.check()


@contextmanager
def exporting(it: World, conf: Path) -> Iterator[None]:
    """`relay export --follow`, again and again: each is killed before one of its changes to the lake."""
    stop = threading.Event()
    where = ("-c", str(conf), "--to", it.lake, "--table", f"{it.db}.*")
    running: list[subprocess.Popen[bytes]] = []

    def export() -> None:
        while not stop.is_set():
            at = it.chance.randrange(1, CHANGES_OF_EXPORTS)
            line = [sys.executable, "-m", "tests.support.lake_kill", it.lake, str(at), "export", "--follow", *where]
            running[:] = [subprocess.Popen(line, stdout=subprocess.DEVNULL)]
            running[0].wait()

    thread = threading.Thread(target=export)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        while thread.is_alive():
            running[0].kill()
            thread.join(0.2)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.timeout(400)
def test_the_current_state_equals_select_after_kills_at_any_change_to_the_lake(
    kind: str, world: Callable[[str], World], start_relay: Callable[..., RelayProcess]
) -> None:
    it = world(kind)
    relay = start_relay(it.server, {"Source.Tables": f"{it.db}.*", "Lake.RollSeconds": 1})
    it.follow(relay)
    snapshot = ("snapshot", "-c", relay.conf, "--to", it.lake, "--table", f"{it.db}.*")
    with exporting(it, relay.conf):
        while (place := it.log.state().place) is None or not place.identity:
            time.sleep(0.1)  # before there is an export, there is nothing to place a snapshot by
        for _ in range(KILLS):
            it.life.run(STEPS // KILLS)
            run_killed("tests.support.lake_kill", it.lake, it.chance.randrange(1, CHANGES_OF_SNAPSHOTS), *snapshot)
        it.life.touch()
        wait_caught_up(it.log, it.server, [], PATIENCE)  # so that the last snapshot knows of every reset
        while not run_killed(
            "tests.support.lake_kill", it.lake, it.chance.randrange(1, 10 * CHANGES_OF_SNAPSHOTS), *snapshot
        ):
            pass
        it.level()
    it.check()
