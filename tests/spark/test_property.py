"""The current state equals `SELECT *`, value by value, after random lives of tables of every type, whoever dies.

A seed that failed is in the failure's text: RELAY_SEED=n repeats that life, though not the moments of the kills.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.dbserver import KINDS, DatabaseServer
from examples.lakeside import wait_level
from relay.lake import paths
from relay.lake.documents import Table, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark import changes, current
from relay.spark.merge import merge
from tests.lakerows import Row, bag, difference, in_lake, selected
from tests.lakework import Life
from tests.relayproc import RelayProcess

pytestmark = pytest.mark.spark

ROUNDS, STEPS, LIVES, KILLS = 2, 40, 4, 8
CHANGES_OF_MERGES, CHANGES_OF_VERBS = 60, 40  # to the lake's folder: a kill comes before one of them
PATIENCE = 60.0  # seconds for the lake to have everything


class World:
    """A server with a random life, a relay with a lake, and Spark."""

    def __init__(self, server: DatabaseServer, db: str, lake: Path, spark: SparkSession, seed: int) -> None:
        self.server, self.db, self.lake, self.spark, self.seed = server, db, str(lake), spark, seed
        self.log = LakeLog(open_storage(self.lake))
        self.chance = random.Random(seed)
        self.life = Life(server, db, seed)

    def settings(self) -> dict[str, object]:
        return {
            "Lake.Path": self.lake,
            "Lake.Tables": f"{self.db}.*",
            "Lake.RollSeconds": 1,
            "Source.Tables": f"{self.db}.*",
        }

    def level(self) -> list[TableState]:
        """Wait until the lake has every row; its tables."""
        names = [Table(self.db, table.name) for table in self.life.tables]
        try:
            state = wait_level(self.log, self.server, names, PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"seed {self.seed}: {error}") from error
        return [state.tables[paths.table_key(name)] for name in names]

    def check(self) -> None:
        """Every table equals its source, now that the lake is level."""
        wrong = [f"{known.table}: {text}" for known in self.level() if (text := self._differs(known))]
        assert not wrong, f"seed {self.seed}:\n" + "\n".join(wrong)

    def _differs(self, known: TableState) -> str:
        fields, table = known.version.fields, known.table
        source = Counter(selected(self.server, self.db, table.table, fields))
        if known.version.key:
            lake = Counter(row for _, row in self._rows(current(self.spark, self.lake, table), known))
        else:
            every = changes(self.spark, self.lake, table, since=known.reset)
            lake = bag(self._rows(every.orderBy("_seq"), known))
        return difference(source, lake, fields)

    def _rows(self, frame: DataFrame, known: TableState) -> Iterator[tuple[str, Row]]:
        arrow = frame.toArrow()
        columns = arrow.to_pydict()
        kinds = columns.get("_change_type", [""] * arrow.num_rows)
        yield from zip(kinds, in_lake(columns, known.version.fields, arrow.num_rows), strict=True)


@pytest.fixture
def world(
    own_server: Callable[..., DatabaseServer], spark: SparkSession, tmp_path: Path
) -> Iterator[Callable[[str], World]]:
    """world(kind): a life of its own on a server of its own, its tables filled."""
    made: list[World] = []

    def make(kind: str) -> World:
        seed = int(os.environ.get("RELAY_SEED") or random.randrange(1 << 31))
        server = own_server(kind, "--binlog-row-metadata=FULL")
        server.execute("CREATE DATABASE life CHARACTER SET utf8mb4")
        made.append(World(server, "life", tmp_path / "lake", spark, seed))
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
    status = subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=False, timeout=120).returncode
    assert status in (0, -signal.SIGKILL), f"{module} {arguments} ended with {status}"
    return status == 0


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.timeout(240)
def test_the_current_state_equals_select_after_a_random_life(
    kind: str, world: Callable[[str], World], start_relay: Callable[..., RelayProcess]
) -> None:
    it = world(kind)
    relay = start_relay(it.server, it.settings())
    for _ in range(ROUNDS):
        for _ in range(LIVES):
            it.life.run(STEPS // LIVES)
            kill(relay, it.chance.choice(("exporter", "snapshotter")))
        it.life.touch()
        tables = [known.table for known in it.level()]
        run_killed("tests.spark.merging", it.lake, it.chance.randrange(1, CHANGES_OF_MERGES))
        for table in tables:
            merge(it.spark, it.log, table)
        it.check()


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.timeout(240)
def test_the_current_state_equals_select_after_kills_at_any_change_to_the_lake(
    kind: str, world: Callable[[str], World], start_relay: Callable[..., RelayProcess]
) -> None:
    it = world(kind)
    relay = start_relay(it.server, {"Source.Tables": f"{it.db}.*"})
    verbs = [(verb, "-c", relay.conf, "--to", it.lake, "--table", f"{it.db}.*") for verb in ("export", "snapshot")]
    for _ in range(KILLS):
        it.life.run(STEPS // KILLS)
        for verb in verbs:
            run_killed("tests.lakekill", it.lake, it.chance.randrange(1, CHANGES_OF_VERBS), *verb)
    it.life.touch()
    for verb in [*verbs, verbs[0]]:
        while not run_killed("tests.lakekill", it.lake, it.chance.randrange(1, 10 * CHANGES_OF_VERBS), *verb):
            pass
    it.check()
