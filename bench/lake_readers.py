"""`make bench-lake`: the current state of a table as Arrow, from 3,000 small files and from a few large ones.

Spark beside its own reader, which opens and lists each file, and relay.lake.current beside a query of DuckDB over the
same files. All give the same rows. SCALE=n makes the tables n times as large.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import relay.lake
import relay.spark
from bench.merges import session
from bench.open_tables import NARROW, TABLE, BenchLake
from bench.report import Report
from relay.spark import reading

FILES, FILE_ROWS = 3_000, 200
ROWS, UPDATES = 2_000_000, 10
ROUNDS = 5
SPARK_LIMIT = 0.2  # of its own reader's time
DUCKDB_LIMIT = 2.0  # times DuckDB's time
_LISTING_TASKS = 10_000  # Spark's default


def main() -> None:
    """Measure and print everything."""
    scale = float(os.environ.get("SCALE") or 1)
    report, spark = Report(), session()
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        lake = BenchLake(Path(folder), NARROW, int(FILES * FILE_ROWS / 2 * scale))
        report.part(f"current state of {lake.rows:,} rows, from {int(FILES * scale):,} small files")
        report.step("writing the files")
        deque(lake.fill(FILE_ROWS), 0)
        for turn in range(int(FILES / 2 * scale)):
            lake.update(turn, FILE_ROWS)
        compare(report, lake)
        compare_spark(report, lake, spark)
    spark.stop()
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        lake = BenchLake(Path(folder), NARROW, int(ROWS * scale))
        report.part(f"current state of {lake.rows:,} rows, from large files")
        report.step("writing the files")
        deque(lake.fill(), 0)
        for turn in range(UPDATES):
            lake.update(turn)
        compare(report, lake)
    report.finish()


def compare_spark(report: Report, lake: BenchLake, spark: SparkSession) -> None:
    """Spark with and without small files that are read together."""

    def state() -> pa.Table:
        return relay.spark.current(spark, lake.log, TABLE).toArrow()

    def alone() -> pa.Table:
        with patch.object(reading, "MOST_BYTES", 0), patch.object(reading, "_LISTING_TASKS", _LISTING_TASKS):
            return state()

    ours, theirs = by_turns(report, "Spark", state, alone)
    report.ratio("relay.spark.current", ours, theirs, "s", of="Spark's own reader", at_most=SPARK_LIMIT)


def compare(report: Report, lake: BenchLake) -> None:
    """Without Spark, beside DuckDB."""
    files = [lake.storage.url(file.path) for file in lake.state().tables[f"{TABLE}"].files.values()]
    columns = ", ".join(field.name for field in lake.version.fields)
    query = (
        f"select {columns} from read_parquet({files}) where _change_type != 'update_preimage'"
        " qualify row_number() over (partition by c0 order by _seq desc) = 1 and _change_type != 'delete'"
    )
    ours, theirs = by_turns(
        report,
        "without Spark",
        lambda: relay.lake.current(lake.log, TABLE).read_all(),
        lambda: duckdb.sql(query).to_arrow_table(),
    )
    report.ratio("relay.lake.current", ours, theirs, "s", of="DuckDB's time", at_most=DUCKDB_LIMIT)


def by_turns(
    report: Report, what: str, ours: Callable[[], pa.Table], theirs: Callable[[], pa.Table]
) -> tuple[list[float], list[float]]:
    """Return the seconds of both in each round, after one of each that is not counted."""
    taken: tuple[list[float], list[float]] = [], []
    for number in range(ROUNDS + 1):
        report.step(f"{what}, round {number} of {ROUNDS}")
        found = []
        for read, seconds in zip((ours, theirs), taken, strict=True):
            begin = time.perf_counter()
            found.append(read().sort_by("c0"))
            if number:
                seconds.append(time.perf_counter() - begin)
        assert found[0].equals(found[1].cast(found[0].schema)), "the rows differ"
    print(f"{what}: median {median(taken[0]):.2f} s, peer {median(taken[1]):.2f} s", flush=True)
    return taken


if __name__ == "__main__":
    main()
