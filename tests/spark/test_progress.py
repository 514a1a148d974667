"""The rows that a job has done are shown while it works."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from relay.lake.documents import Table
from relay.lake.tables import open_log
from relay.spark import reading
from relay.spark.compact import compact
from relay.spark.current import current
from relay.spark.progress import Progress
from tests.spark.lakes import MadeLake
from tests.support.waiting import patience

Shown = list[tuple[str, int, int, float]]


def filled(lake: MadeLake, files: int) -> MadeLake:
    """So many files of two rows."""
    lake.define("shop.orders", {"id": "int"}, key=["id"])
    lake.mark("shop.orders", "create")
    for number in range(files):
        lake.insert("shop.orders", {"id": 2 * number}, {"id": 2 * number + 1})
        lake.commit()
    return lake


def test_rows_that_spark_has_read_are_counted_while_it_reads(
    spark: SparkSession, lake: MadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(lake, 3)
    monkeypatch.setattr(reading, "MOST_BYTES", 0)  # the driver reads nothing
    shown: Shown = []
    seen = threading.Event()

    def show(*step: object) -> None:
        shown.append(step)  # type: ignore[arg-type]
        seen.set()

    with Progress(spark, show).reading("orders", 7):
        assert current(spark, lake.url, "shop.orders").agg(f.sum("id")).collect() == [(15,)]
        assert seen.wait(patience(30))
    what, done, rows, left = shown[-1]
    assert (what, done, rows) == ("orders", 7, 7)
    assert left == 0


def test_compaction_shows_each_round(spark: SparkSession, lake: MadeLake) -> None:
    filled(lake, 40)
    shown: Shown = []
    compact(spark, open_log(lake.url), Table("shop", "orders"), progress=Progress(spark, lambda *s: shown.append(s)))
    assert [(what, done, rows) for what, done, rows, _ in shown] == [("shop.orders", 81, 81)]
