"""`make bench-lake`: the cost of Spark's merge compared with a full recompute, and as the history grows tenfold.

One table whose rows change again and again: its history grows, its contents do not. Before it, few changes scattered
over a large table, beside a merge that writes the buckets anew. SCALE=n makes both tables n times as large.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from pathlib import Path
from statistics import median
from unittest.mock import patch

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from bench.lake import FLAT_LIMIT
from bench.open_tables import NARROW as NARROW_TYPES
from bench.open_tables import TABLE as FEW_TABLE
from bench.open_tables import BenchLake
from bench.report import Report
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from examples.lakeside import wait_caught_up
from relay.lake import paths
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark import current, reading
from relay.spark import merge as merging
from relay.spark.merge import merge
from tests.support.relay_process import RelayProcess, write_conf

FEW_ROWS, FEW_UPDATES, FEW_ROUNDS = 5_000_000, 50_000, 5
FEW_LIMIT = 0.25  # of the time of a merge that writes the buckets anew
ROWS = 200_000
TIMES = 30  # changes of half of the rows: in the end the history is ten times as long as at first
TABLE = Table("bench", "merged")
WARM_UP = 4
PATIENCE = 120.0


def main() -> None:
    """Runs and prints everything."""
    scale = float(os.environ.get("SCALE") or 1)
    rows = int(ROWS * scale)
    report = Report()
    spark = session()
    few_changes(report, spark, int(FEW_ROWS * scale))
    spark.stop()
    report.step("starting MySQL and Spark")
    with (
        DatabaseServer("mysql97", options=("--binlog-row-metadata=FULL",)) as server,
        tempfile.TemporaryDirectory(prefix="relay-bench-") as scratch,
    ):
        server.execute("CREATE DATABASE bench")
        settings = {"Lake.Path": f"{scratch}/lake", "Lake.RollSeconds": 1, "Relay.SegmentBytes": "64MiB"}
        relay = RelayProcess(write_conf(Path(scratch), server, settings))
        spark = session()
        try:
            relay.start()
            measure(report, server, LakeLog(open_storage(f"{scratch}/lake")), spark, rows)
            relay.stop()
        finally:
            relay.end()
            spark.stop()
    report.finish()


def session() -> SparkSession:
    """Two cores, like a small host."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def few_changes(report: Report, spark: SparkSession, rows: int) -> None:
    """Merge the same few changes beside the buckets and into them, in turn."""
    report.part(f"merges: {FEW_UPDATES:,} scattered updates of {rows:,} rows")
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as ours, tempfile.TemporaryDirectory() as theirs:
        lakes = [BenchLake(Path(folder), NARROW_TYPES, rows) for folder in (ours, theirs)]
        for lake in lakes:
            report.step("filling and merging a table")
            deque(lake.fill(), 0)
            merge(spark, lake.log, FEW_TABLE)
        taken: tuple[list[float], list[float]] = [], []
        for number in range(FEW_ROUNDS + 1):
            report.step(f"round {number} of {FEW_ROUNDS}")
            for lake, seconds in zip(lakes, taken, strict=True):
                lake.update(number, FEW_UPDATES)
                begin = time.perf_counter()
                if seconds is taken[0]:
                    merge(spark, lake.log, FEW_TABLE)
                else:
                    with patch.object(merging, "RECENT_SHARE", 0), patch.object(reading, "MOST_BYTES", 0):
                        merge(spark, lake.log, FEW_TABLE)
                if number:
                    seconds.append(time.perf_counter() - begin)
        report.ratio("merge", *taken, "s", of="of writing the buckets anew", at_most=FEW_LIMIT)
        report.step("comparing the rows")
        states = [current(spark, lake.log, FEW_TABLE) for lake in lakes]
        sums = [rows.agg(f.count("*"), f.sum(f.xxhash64("*").cast("decimal(20,0)"))).first() for rows in states]
        assert sums[0] == sums[1], "the rows differ"


def measure(report: Report, server: DatabaseServer, log: LakeLog, spark: SparkSession, rows: int) -> None:
    """Merges after each change of half of the rows."""
    report.part(f"merges: {rows} rows, of which half are changed between one and the next")
    report.step("warming up")  # the JVM compiles code that has run for a while
    merges(server, log, spark, Table("bench", "warm"), rows, WARM_UP)
    report.step(f"{TIMES} merges")
    taken = merges(server, log, spark, TABLE, rows, TIMES)
    changed = rows / 1e6  # rows of files: half of the rows, before and after
    early, late = median(taken[:3]), median(taken[-3:])
    report.ratio(
        "incremental, a million changes, history ten times as long", [late / changed], [early / changed], "s",
        of="early", at_most=FLAT_LIMIT,
    )  # fmt: skip
    report.step("everything once more, without what was merged")
    log.storage.delete_folder(paths.table_folder(TABLE, paths.CURRENT))
    whole = merged(server, log, spark, TABLE)
    report.ratio("full recompute", [whole], [late], "s", of="an incremental merge")


def merges(
    server: DatabaseServer, log: LakeLog, spark: SparkSession, table: Table, rows: int, times: int
) -> list[float]:
    """Fills a table and merges it; then yields the seconds of each merge after half of its rows changed."""
    create(server, table.table, NARROW)
    insert(server, table.table, NARROW_VALUES, 1, rows)
    merged(server, log, spark, table)
    taken = []
    for number in range(times):
        server.execute(f"UPDATE {table} SET amount = amount + 1 WHERE id % 2 = {number % 2}")
        taken.append(merged(server, log, spark, table))
    return taken


def merged(server: DatabaseServer, log: LakeLog, spark: SparkSession, table: Table) -> float:
    """Seconds of a merge, once the lake has everything."""
    wait_caught_up(log, server, [table], PATIENCE)
    begin = time.perf_counter()
    merge(spark, log, table)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
