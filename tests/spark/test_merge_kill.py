"""A killed merge leaves the version before or the one after, and the next merge continues from there."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time

import pytest
from pyspark.sql import SparkSession

from relay.lake import paths
from relay.lake.storage import open_storage
from relay.lake.tables import open_log
from relay.spark import merge as merging
from relay.spark import pointer
from relay.spark.merge import merge
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, merged, orders, state, table_of
from tests.spark.test_jobs import FEW
from tests.support import ROOT
from tests.support.lake_kill import killed

TABLE = table_of(ORDERS)


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with a table of twenty rows."""
    return orders(lake, *({"id": number, "item": "new"} for number in range(20)))


@pytest.mark.parametrize("share", [0, 1 << 20], ids=["into buckets", "beside buckets"])
def test_killed_before_each_of_its_changes_to_the_lake(
    spark: SparkSession, shop: MadeLake, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "RECENT_SHARE", share)
    storage = open_storage(shop.url)
    log = open_log(shop.url)
    published = 0
    for at in itertools.count(1):
        # All old versions are to go at once, so that deleting them is killed too.
        died = killed(shop.root, at, lambda: merge(spark, log, TABLE, grace=0))
        before, published = published, max(pointer.numbers(storage, TABLE), default=0)
        assert published - before in (0, 1)
        expected = "new" if at == 1 else f"before kill {at - 1}"
        rows = {row["id"]: row["item"] for row in state(spark, shop)}
        assert rows == dict.fromkeys(range(20), "new") | {7: expected}
        shop.update(ORDERS, {"id": 7, "item": expected}, {"id": 7, "item": f"before kill {at}"})
        shop.commit()
        if not died:
            break
    assert at > 10
    merged(spark, shop)
    assert {"id": 7, "item": f"before kill {at}"} in state(spark, shop)
    folder = shop.root / paths.table_folder(TABLE, paths.CURRENT)
    versions = [pointer.load(storage, TABLE, number) for number in pointer.numbers(storage, TABLE)]
    live = {file.path.split("/")[3] for version in versions for file in (*version.files, *version.recent)}
    assert {path.name for path in folder.glob("ver-*")} == live


def test_killed_while_spark_writes(spark: SparkSession, shop: MadeLake) -> None:
    program = [sys.executable, "-m", "relay", "spark", "merge", "--lake", shop.url, *FEW]
    driver = subprocess.Popen(program, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
    folder = shop.root / paths.table_folder(TABLE, paths.CURRENT)
    while not list(folder.glob("ver-1-*")):
        assert driver.poll() is None, "it ended before it was killed"
        time.sleep(0.01)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert pointer.numbers(open_storage(shop.url), TABLE) == []
    assert len(state(spark, shop)) == 20
    assert merged(spark, shop).startswith("version 1 has 20 rows")
    assert len(list(folder.glob("ver-1-*"))) == 1
    assert len(state(spark, shop)) == 20
