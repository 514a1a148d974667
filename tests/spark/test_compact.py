"""Compaction: fewer files, the same rows in the same order, and no effect on concurrent readers and writers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from relay.errors import ExitCode, RelayError
from relay.lake.documents import DataFile, Field, Table, TableState, TableVersion
from relay.lake.log import LakeLog, verify
from relay.lake.tables import open_log
from relay.spark import changes, current
from relay.spark.compact import compact, merge_files, plan, run
from relay.spark.merge import merge
from relay.spark.progress import Progress
from tests.spark.lakes import MadeLake
from tests.spark.test_jobs import FEW, relay
from tests.support import ROOT
from tests.support.waiting import patience

ORDERS = "shop.orders"
TABLE = Table("shop", "orders")


@pytest.fixture
def lake(lake: MadeLake) -> MadeLake:
    """A lake with a table that is empty."""
    lake.define(ORDERS, {"id": "int", "item": "string", "tags": "array<string>"}, key=["id"])
    lake.mark(ORDERS, "create")
    lake.commit()
    return lake


def add(lake: MadeLake, *ids: int) -> None:
    """Insert a row each, and commit."""
    lake.insert(ORDERS, *({"id": number, "item": f"item {number}", "tags": ["a", None]} for number in ids))
    lake.commit()


def state_of(lake: MadeLake) -> TableState:
    return open_log(lake.url).state().tables[ORDERS]


def compacted(spark: SparkSession, lake: MadeLake) -> str:
    """Compact the table, and let the next commit of the lake follow."""
    log = open_log(lake.url)
    words = str(compact(spark, log, TABLE))
    lake.follow(log.state().number)
    return words


def all_rows(lake: MadeLake) -> list[dict[str, Any]]:
    """Every row, in the order of the files and in them."""
    files = sorted(state_of(lake).files.values(), key=lambda file: (file.first, file.path))
    return [row for file in files for row in pq.read_table(lake.root / file.path, partitioning=None).to_pylist()]


def test_small_neighbours_become_one_file_with_the_same_rows_in_their_order(
    spark: SparkSession, lake: MadeLake
) -> None:
    for number in range(1, 8):
        add(lake, number)
    before, rows = state_of(lake), all_rows(lake)
    words = compacted(spark, lake)
    after = state_of(lake)
    (file,) = after.files.values()
    assert words.startswith("8 files of ") and " became 1 of " in words
    assert (file.first, file.last, file.rows) == (1, 8, 8)
    assert all_rows(lake) == rows
    assert after.versions == before.versions and after.complete_from == before.complete_from
    log = open_log(lake.url)
    assert verify(log.storage, log.state()) == []


def test_files_of_other_tables_dates_versions_and_kinds_are_not_mixed(spark: SparkSession, lake: MadeLake) -> None:
    lake.define("shop.other", {"id": "int"}, key=["id"])
    lake.insert("shop.other", {"id": 1})
    add(lake, 1)
    lake.clock += 24 * 3600
    add(lake, 2)
    add(lake, 3)
    lake.snapshot(ORDERS, {"id": 1}, after=["1"])
    lake.commit()
    lake.snapshot(ORDERS, {"id": 2}, after=["2"])
    lake.commit()
    lake.define(ORDERS, {"id": "bigint", "item": "string", "tags": "array<string>"}, key=["id"])
    add(lake, 4)
    add(lake, 5)
    rows = all_rows(lake)
    compacted(spark, lake)
    files = sorted(state_of(lake).files.values(), key=lambda file: (file.version, file.kind, file.date))
    assert [(file.version, file.kind, file.date, file.rows) for file in files] == [
        (1, "changes", "2026-11-20", 2),
        (1, "changes", "2026-11-21", 2),
        (1, "snapshot", "2026-11-21", 2),
        (2, "changes", "2026-11-21", 2),
    ]
    assert sorted(all_rows(lake), key=str) == sorted(rows, key=str)
    assert len(open_log(lake.url).state().tables["shop.other"].files) == 1


def sized(*sizes: int) -> TableState:
    """A table with files of so many bytes, one after the other."""
    files = [
        DataFile(f"part-{place}", TABLE, 1, "2026-11-20", "changes", 10 * place, 10 * place + 9, 1, size, "")
        for place, size in enumerate(sizes)
    ]
    version = TableVersion(TABLE, 1, 1, [Field("id", "int", "id")], ["id"])
    return TableState(TABLE, versions=[version], files={file.path: file for file in files})


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([1, 1, 1, 1], [[1, 1, 1, 1]]),
        ([100], []),
        ([50, 50], []),  # half the target is enough
        ([1, 1, 60, 1, 1], [[1, 1], [1, 1]]),  # what lies between stays between
        ([49, 49, 49, 1], [[49, 49], [49, 1]]),  # no file is larger than the target
        ([40, 1], []),  # too little is new to write the rest again
        ([40, 20, 20], [[40, 20, 20]]),
        ([20, 10, 10], [[20, 10, 10]]),
    ],
)
def test_what_is_merged_is_worth_it(sizes: list[int], merged: list[list[int]]) -> None:
    groups = plan(sized(*sizes), target=100)
    assert [[file.bytes for file in group.files] for group in groups] == merged


def test_files_from_before_a_marker_stay_apart() -> None:
    table = sized(1, 1, 1, 1)
    table.reset = 20
    assert [[file.first for file in group.files] for group in plan(table, 100)] == [[0, 10], [20, 30]]


def test_rows_are_written_a_few_times_however_often_compaction_runs() -> None:
    """After each new file of one byte: what is written in all stays near the size times its logarithm."""
    sizes: list[int] = []
    written = 0
    for _ in range(2000):
        sizes.append(1)
        for group in reversed(plan(sized(*sizes), target=512)):
            merged = [file.bytes for file in group.files]
            place = int(group.files[0].path.removeprefix("part-"))
            sizes[place : place + len(merged)] = [sum(merged)]
            written += sum(merged)
    assert max(sizes) <= 512 and len(sizes) < 24
    assert written < 2000 * 14


def test_a_commit_of_the_export_in_between_is_kept(spark: SparkSession, lake: MadeLake) -> None:
    for number in range(4):
        add(lake, number)
    log = open_log(lake.url)
    log.state()
    add(lake, 77)  # takes the number that compaction is about to take
    compact(spark, log, TABLE)
    lake.follow(log.state().number)
    add(lake, 78)
    assert sorted(row["id"] for row in all_rows(lake) if row["id"] is not None) == [0, 1, 2, 3, 77, 78]


def test_of_two_who_compact_at_once_one_wins_and_the_other_leaves_nothing(spark: SparkSession, lake: MadeLake) -> None:
    for number in range(4):
        add(lake, number)
    rows = all_rows(lake)
    slow = open_log(lake.url)
    slow.state()

    class Late(LakeLog):
        """One that is about to commit when the other one has."""

        def commit(self, *arguments: Any, **options: Any) -> Any:
            compacted(spark, lake)
            return super().commit(*arguments, **options)

    late = Late(slow.storage)
    assert str(compact(spark, late, TABLE)) == "nothing to merge"
    assert all_rows(lake) == rows
    parts = {str(path.relative_to(lake.root)) for path in (lake.root / "changes").rglob("*compact*")}
    assert parts == set(state_of(lake).files)


def test_a_damaged_file_is_named_and_not_replaced(spark: SparkSession, lake: MadeLake) -> None:
    for number in range(3):
        add(lake, number)
    before = state_of(lake).files
    group = plan(state_of(lake))[0]
    with (lake.root / group.files[1].path).open("r+b") as file:
        file.seek(40)
        file.write(b"\0\0\0\0")
    with pytest.raises(RelayError, match="SHA-256") as caught:
        merge_files(lake.url, group)
    assert group.files[1].path in caught.value.position
    with pytest.raises(RelayError, match="SHA-256"):
        compact(spark, open_log(lake.url), TABLE)
    assert state_of(lake).files == before
    done = relay("spark", "compact", "--lake", lake.url, *FEW)
    assert done.returncode == ExitCode.STOPPED
    assert group.files[1].path in done.stderr.splitlines()[-1] and "SHA-256" in done.stderr.splitlines()[-1]


def test_a_dataframe_that_was_made_before_still_reads_the_files_that_were_replaced(
    spark: SparkSession, lake: MadeLake
) -> None:
    for number in range(4):
        add(lake, number)
    early = changes(spark, lake.url, ORDERS)
    compacted(spark, lake)
    list(run(spark, lake.url, [TABLE], {}, Progress(spark)))
    assert early.count() == changes(spark, lake.url, ORDERS).count() == 5


def test_a_merge_goes_on_incrementally_after_compaction(spark: SparkSession, lake: MadeLake) -> None:
    """Also where files of a snapshot were merged, which is no new snapshot."""
    lake.mark(ORDERS, "reset")
    lake.commit()
    lake.snapshot(ORDERS, {"id": 100}, after=["100"])
    lake.commit()
    lake.snapshot(ORDERS, {"id": 200})
    lake.commit()
    add(lake, 1)
    assert "from the beginning" in merge(spark, open_log(lake.url), TABLE)
    add(lake, 2)
    add(lake, 3)
    assert " became 2 of " in compacted(spark, lake)
    words = merge(spark, open_log(lake.url), TABLE)
    assert words.startswith("version 2 has 5 rows") and "from the beginning" not in words
    assert sorted(row.id for row in current(spark, lake.url, ORDERS).collect()) == [1, 2, 3, 100, 200]


@pytest.mark.streams
def test_a_stream_goes_on_over_files_that_were_merged_meanwhile(
    spark: SparkSession, lake: MadeLake, tmp_path: Path
) -> None:
    frame = spark.readStream.format("relay").options(lake=lake.url, table=ORDERS, max_rows=2).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state"))
    for number in range(5):
        add(lake, number)
    query = writer.start(str(tmp_path / "out"))
    query.processAllAvailable()
    for number in range(5, 8):
        add(lake, number)
    compacted(spark, lake)
    add(lake, 8)
    query.processAllAvailable()
    query.stop()
    ids = spark.read.parquet(str(tmp_path / "out")).where("id is not null").select("id").collect()
    assert sorted(row.id for row in ids) == list(range(9))


def test_killed_at_any_moment_it_leaves_the_rows_and_at_most_leftovers(lake: MadeLake, spark: SparkSession) -> None:
    """The driver is killed right before its commit, and right after it."""
    for number in range(4):
        add(lake, number)
    rows = all_rows(lake)
    for moment, files in (("before", 5), ("after", 1)):
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.killed_compaction", moment, lake.url],
            cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=patience(170), check=False,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert len(state_of(lake).files) == files
        assert all_rows(lake) == rows
    time.sleep(0.01)
    assert list(run(spark, lake.url, [TABLE], {"grace": "0"}, Progress(spark)))[-1] == "leftovers: 6 files deleted"
    assert len(list((lake.root / "changes").rglob("*.parquet"))) == 1
    assert all_rows(lake) == rows


def test_the_command_says_what_it_did(lake: MadeLake) -> None:
    for number in range(4):
        add(lake, number)
    done = relay("spark", "compact", "--lake", lake.url, *FEW)
    assert done.returncode == 0, done.stderr
    merged, leftovers = done.stdout.splitlines()
    assert merged.startswith("shop.orders: 5 files of ") and leftovers == "leftovers: 0 files deleted"
