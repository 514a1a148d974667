"""`relay spark merge --into` brings a table of a catalog to the state of the lake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relay.errors import ExitCode
from relay.lake.documents import Field
from relay.spark.into import statement
from tests.spark.lakes import MadeLake
from tests.spark.states import orders
from tests.spark.test_jobs import FEW, relay
from tests.support import ROOT
from tests.support.chance import seeds
from tests.support.waiting import patience

ICEBERG = ROOT / "build" / "iceberg"  # `make test-spark` installs it


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.timeout(400)
def test_a_table_of_a_catalog_equals_the_lake_after_each_merge(seed: int, tmp_path: Path) -> None:
    (jar,) = ICEBERG.glob("**/iceberg-spark-runtime-3.5_2.12-*.jar")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.catalog_life", str(tmp_path), str(jar), str(seed)],
        cwd=ROOT,
        env=dict(os.environ) | {"PYTHONPATH": f"{ICEBERG}:{ROOT}", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=patience(380),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equal: ") == 8
    assert "created local.shop.order_lines" in done.stdout
    assert "rows of changes merged into local.shop.order_lines" in done.stdout
    assert "from the beginning, compared with all rows merged into" in done.stdout
    assert "merge into spark_catalog.default.plain: MERGE INTO TABLE is not supported" in done.stdout


def test_the_statement_deletes_and_inserts_by_the_kind_of_the_last_change() -> None:
    fields = [Field("id", "int", "id"), Field("a`b", "string", "a`b")]
    assert statement("c.s.t", "v", fields, ["id"], whole=False) == (
        "MERGE INTO c.s.t t USING v s ON t.`id` <=> s.`id`\n"
        "WHEN MATCHED AND s.`_change_type` NOT IN ('insert', 'update_postimage', 'snapshot') THEN DELETE\n"
        "WHEN MATCHED THEN UPDATE SET t.`id` = s.`id`, t.`a``b` = s.`a``b`\n"
        "WHEN NOT MATCHED AND s.`_change_type` IN ('insert', 'update_postimage', 'snapshot') THEN"
        " INSERT (`id`, `a``b`) VALUES (s.`id`, s.`a``b`)"
    )


def test_one_table_is_merged_into_one(lake: MadeLake) -> None:
    orders(lake).define("shop.other", {"id": "int"}, key=["id"])
    lake.commit()
    done = relay("spark", "merge", "--lake", lake.url, "--into", "local.shop.orders", *FEW)
    assert done.returncode == ExitCode.USAGE
    assert "merge into local.shop.orders: 2 tables match (hint: give one with --table)" in done.stderr
