"""The jobs and streams on a standalone cluster of two workers, with the relay as it is installed from its wheel.

make test-cluster builds the wheel first; what runs on the cluster sees nothing of the source tree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relay.lake.documents import Table
from relay.lake.log import LakeLog, verify
from relay.lake.storage import open_storage
from relay.spark import current, pointer
from tests.spark.cluster import HOST, Cluster, free_ports
from tests.spark.lakes import MadeLake
from tests.support.waiting import patience

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
ORDERS, NOTES = "shop.orders", "shop.notes"
COLUMNS = {"id": "int", "item": "string", "amount": "decimal(10,2)"}
PATIENCE = patience(150)
SETTINGS = {
    "spark.driver.host": HOST,
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "4",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the relay in it, installed from the newest wheel in dist/."""
    wheels = sorted((ROOT / "dist").glob("binlog_relay-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheels, "there is no wheel in dist/: run `make test-cluster`, or `make wheel` before this"
    folder = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", "--no-deps")
    subprocess.run([*pip, "--target", folder, wheels[-1]], check=True)
    return folder


@pytest.fixture(scope="module")
def cluster(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster, whose Python finds the relay in `site` only."""
    environment = os.environ | {"PYTHONPATH": str(site), "PYSPARK_PYTHON": sys.executable}
    with Cluster(tmp_path_factory.mktemp("cluster"), environment) as running:
        yield running


class Shop:
    """A lake whose rows are known: `orders` has what the table is to be, `notes` how many rows the other one has."""

    def __init__(self, lake: MadeLake) -> None:
        self.lake = lake
        self.orders: dict[int, tuple[int, str]] = {}
        self.notes = 0
        self._next = 0
        lake.define(ORDERS, COLUMNS, key=["id"])
        lake.define(NOTES, {"text": "string"})
        lake.mark(ORDERS, "create")
        lake.commit()

    def day(self, rows: int = 600) -> None:
        """New rows, changed rows and keys, deleted ones; a commit each."""
        new = range(self._next, self._next + rows)
        self._next += rows
        for number in new:
            self.orders[number] = (number, "new")
            self.lake.insert(ORDERS, self._row(number))
        self.lake.commit()
        for number in new[::3]:
            before = self._row(number)
            self.orders[number] = (number, "changed")
            self.lake.update(ORDERS, before, self._row(number))
        self.lake.commit()
        for number in new[::7]:
            before = self._row(number)
            self.orders[1_000_000 + number] = (1_000_000 + number, self.orders.pop(number)[1])
            self.lake.update(ORDERS, before, self._row(1_000_000 + number))
        for number in new[1::7]:
            self.lake.delete(ORDERS, self._row(number))
            del self.orders[number]
        self.lake.insert(NOTES, {"text": f"day of {rows}"})
        self.notes += 1
        self.lake.commit()

    def _row(self, number: int) -> dict[str, Any]:
        item = self.orders[number][1]
        return {"id": number, "item": item, "amount": number}

    def empty(self) -> None:
        """TRUNCATE."""
        self.lake.mark(ORDERS, "truncate")
        self.lake.commit()
        self.orders.clear()

    def check(self, spark: SparkSession) -> None:
        """The state that was merged last is the table, and the log says nothing wrong of its files."""
        log = LakeLog(open_storage(self.lake.url))
        newest = pointer.newest(log.storage, Table("shop", "orders"))
        state = log.state()
        assert newest is not None and state.place is not None and newest.applied == state.place.seq
        rows = current(spark, self.lake.url, ORDERS).select("id", "item").collect()
        assert sorted(map(tuple, rows)) == sorted(self.orders.values())
        assert verify(log.storage, state) == []


@pytest.fixture
def shop(lake: MadeLake) -> Shop:
    """A lake with some days in it."""
    made = Shop(lake)
    for _ in range(3):
        made.day()
    return made


class Driver:
    """A process that is a driver on the cluster; what it prints is read as it comes."""

    def __init__(self, cluster: Cluster, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=cluster.folder, env=cluster.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors += self.process.stderr

    def line(self, begins: str) -> str:
        """The rest of the next line on standard output that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(begins):
                return line.removeprefix(begins).strip()
        return pytest.fail(f"the driver ended without {begins!r}:\n{''.join(self._errors)[-4000:]}")

    def end(self) -> str:
        """Wait for a good end; the rest of its standard output."""
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.process.wait(PATIENCE)
        self._reader.join()
        assert self.process.returncode == 0, "".join(self._errors)[-4000:]
        return rest


@pytest.fixture
def drive(cluster: Cluster) -> Iterator[Callable[..., Driver]]:
    """Start a driver; it is gone when the test is."""
    started: list[Driver] = []

    def start(*command: str) -> Driver:
        started.append(Driver(cluster, *command))
        return started[-1]

    yield start
    for driver in started:
        driver.process.kill()
        driver.process.wait()


def job(cluster: Cluster, command: str, lake: MadeLake, **settings: str) -> list[str]:
    """The command line of `relay spark COMMAND` on the cluster, of the installed relay."""
    given = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    conf = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    return ["-m", "relay", "spark", command, "--lake", lake.url, "--master", cluster.url, *conf]


PROGRAM = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master({master!r})
for name, value in {settings!r}.items():
    builder = builder.config(name, value)
spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
{body}
"""


def program(cluster: Cluster, body: str) -> list[str]:
    """The command line of a driver with a session `spark` on the cluster."""
    return ["-c", PROGRAM.format(master=cluster.url, settings=SETTINGS, body=body)]


def busy(port: int) -> None:
    """Wait until an application, whose page is at `port`, has tasks that run after some that are done."""
    deadline = time.monotonic() + PATIENCE
    root = f"http://{HOST}:{port}/api/v1/applications"
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(root, timeout=patience(5)) as reply:
                name = json.load(reply)[0]["id"]
            with urllib.request.urlopen(f"{root}/{name}/executors", timeout=patience(5)) as reply:
                executors = json.load(reply)
        except (OSError, IndexError, ValueError):  # no page yet, or one that says so
            executors = []
        if any(each["completedTasks"] for each in executors) and any(each["activeTasks"] for each in executors):
            return
        time.sleep(0.02)
    pytest.fail("no task ran")


def test_executors_have_the_relay_of_the_wheel(cluster: Cluster, site: Path, drive: Callable[..., Driver]) -> None:
    body = """
def where(_):
    import pyspark_relay, relay.spark.compact, relay._native
    return [pyspark_relay.__file__, relay.spark.compact.__file__, relay._native.__file__]
print("found", *spark.sparkContext.parallelize([1, 2], 2).flatMap(where).collect())
"""
    driver = drive(*program(cluster, body))
    files = driver.line("found ").split()
    driver.end()
    assert len(files) == 6 and all(Path(file).is_relative_to(site) for file in files)


RANDOM_LIVES = "tests/spark/test_property.py::test_the_current_state_equals_select_after_a_random_life"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "suite", ["tests/spark/test_current.py", *(f"{RANDOM_LIVES}[{kind}]" for kind in ("mysql97", "mariadb118"))]
)
def test_current_states_are_right_on_the_cluster(cluster: Cluster, suite: str) -> None:
    """The suites of current states as they are, with their session on the cluster."""
    environment = cluster.environment | {"RELAY_TEST_MASTER": cluster.url}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "spark", "-p", "no:cacheprovider", suite],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience(500), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert "passed" in done.stdout


def test_merges_and_compaction_on_the_cluster_keep_the_table(
    cluster: Cluster, drive: Callable[..., Driver], shop: Shop, spark: SparkSession
) -> None:
    notes, orders = sorted(drive(*job(cluster, "merge", shop.lake)).end().splitlines())
    assert notes.startswith("shop.notes: skipped") and orders.startswith("shop.orders: version 1 has")
    shop.check(spark)
    shop.empty()
    shop.day()
    notes, orders, leftovers = drive(*job(cluster, "compact", shop.lake)).end().splitlines()
    assert " became 1 of " in notes and leftovers == "leftovers: 0 files deleted"
    assert " became 2 of " in orders, "what was truncated stays apart from what came then"
    shop.lake.follow(LakeLog(open_storage(shop.lake.url)).state().number)
    shop.day()
    _, orders = sorted(drive(*job(cluster, "merge", shop.lake)).end().splitlines())
    assert orders.startswith("shop.orders: version 2 has")
    shop.check(spark)


def test_a_merge_whose_executor_is_killed_loses_nothing(
    cluster: Cluster, drive: Callable[..., Driver], shop: Shop, spark: SparkSession
) -> None:
    for _ in range(3):
        shop.day(2000)
    (port,) = free_ports(1)
    driver = drive(*job(cluster, "merge", shop.lake, spark_ui_port=str(port), spark_sql_shuffle_partitions="16"))
    busy(port)
    cluster.kill_an_executor()
    assert "shop.orders: version 1 has" in driver.end()
    shop.check(spark)


STREAM = """
frame = spark.readStream.format("relay").options(lake={lake!r}, table="shop.orders", max_rows=400).load()
writer = frame.writeStream.format("parquet").option("checkpointLocation", {state!r})
query = writer.trigger(processingTime="0 seconds").start({out!r})
import json
said = 0
while True:
    done = query.lastProgress
    if done is not None and done["batchId"] >= said:
        said = done["batchId"] + 1
        print("batch", done["sources"][0]["endOffset"], flush=True)
        if json.loads(done["sources"][0]["endOffset"])["seq"] >= {last}:
            break
    if query.exception() is not None:
        raise query.exception()
    query.awaitTermination(0.05)
query.stop()
rows = spark.read.parquet({out!r}).select("_seq", "_change_type")
print("rows", rows.count(), rows.distinct().count())
"""


def test_a_stream_whose_executor_is_killed_delivers_each_change_once(
    cluster: Cluster, drive: Callable[..., Driver], shop: Shop, tmp_path: Path
) -> None:
    out, state = str(tmp_path / "out"), str(tmp_path / "state")
    shop.day()
    table = LakeLog(open_storage(shop.lake.url)).state().tables[ORDERS]
    last = max(file.last for file in table.files.values())
    body = STREAM.format(lake=shop.lake.url, state=state, out=out, last=last)
    driver = drive(*program(cluster, body))
    driver.line("batch ")
    driver.line("batch ")
    cluster.kill_an_executor()
    arrived, different = driver.line("rows ").split()
    driver.end()
    expected = sum(file.rows for file in table.files.values())
    assert (int(arrived), int(different)) == (expected, expected)
