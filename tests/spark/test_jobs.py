"""`relay spark` runs jobs through spark-submit, tells what they did, and ends as they did."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spark.lakes import MadeLake

ORDERS = "shop.orders"
HERE = Path(__file__).parent.parent.parent
FEW = ("--master", "local[2]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def relay(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The `relay` command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "relay", *arguments],
        cwd=HERE,
        env=environment or os.environ,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with a table that is complete, one that is not, and one without a key."""
    lake.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    lake.define("shop.notes", {"text": "string"})
    lake.define("shop.old", {"id": "int"}, key=["id"])
    lake.mark(ORDERS, "create")
    lake.insert(ORDERS, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})
    lake.insert("shop.notes", {"text": "a"})
    lake.insert("shop.old", {"id": 4})
    lake.commit()
    return lake


def test_merge_tells_of_each_table_in_a_line(shop: MadeLake) -> None:
    done = relay("spark", "merge", "--lake", shop.url, *FEW)
    assert done.returncode == 0, done.stderr
    notes, old, orders = sorted(done.stdout.splitlines())
    assert notes.startswith("shop.notes: left alone: it has no primary key")
    assert old.startswith("shop.old: left alone: its rows are not known until `relay snapshot` was run")
    assert orders.startswith("shop.orders: version 1 has 2 rows: 3 rows, from the beginning, merged into 1 of 1 bucket")
