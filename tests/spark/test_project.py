"""`relay spark init` writes a project that `spark-pipelines run` brings to the state of the lake, run by run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from relay import cli
from relay.errors import ExitCode
from tests.spark.lakes import MadeLake
from tests.spark.states import ordered
from tests.support.waiting import patience

ORDERS = "shop.Order lines"
COLUMNS = {"order id": "int", "item": "string", "_rank": "int"}
# A catalog that outlives a run: Spark's own keeps nothing.
SETTINGS = (
    "--conf", "spark.sql.catalogImplementation=hive",
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)  # fmt: skip
AUTO_CDC = """\
from pyspark import pipelines as dp

dp.create_streaming_table("kept")
dp.create_auto_cdc_flow(
    target="kept",
    source="shop_order_lines_upserts",
    keys=["`order id`"],
    sequence_by="_sequence",
    apply_as_deletes="_operation = 'delete'",
)
"""


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with a table with a key and one without, whose names Spark would not take as they are."""
    lake.define(ORDERS, COLUMNS, key=["order id"])
    lake.mark(ORDERS, "create")
    add(lake, 1, 2)
    lake.define("shop.log", {"line": "string"})
    lake.insert("shop.log", {"line": "a"})
    lake.commit()
    return lake


def add(lake: MadeLake, *ids: int) -> None:
    lake.insert(ORDERS, *({"order id": each, "item": f"item {each}", "_rank": -each} for each in ids))


def run(project: Path) -> subprocess.CompletedProcess[str]:
    """Bring the project's tables up to the lake."""
    environment = dict(os.environ) | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    program = Path(sys.executable).with_name("spark-pipelines")
    return subprocess.run(
        [program, "run", *SETTINGS], cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=patience(170), check=False,
    )  # fmt: skip


def rows(project: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of the project."""
    return ordered(pq.read_table(project / "spark-warehouse" / table).to_pylist())


def most_flows_at_a_time(output: str) -> int:
    running = most = 0
    for event in re.findall(r"Flow \S+ (is STARTING|has COMPLETED)", output):
        running += 1 if event == "is STARTING" else -1
        most = max(most, running)
    return most


@pytest.mark.streams
@pytest.mark.timeout(500)
def test_a_project_follows_the_lake_run_by_run(
    shop: MadeLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"  # with a space in its path, Hive puts the tables elsewhere
    assert cli.run(["spark", "init", str(project), "--lake", shop.url]) == ExitCode.OK
    assert f"run: cd {project} && spark-pipelines run" in capsys.readouterr().out
    done = run(project)
    assert done.returncode == 0, done.stdout
    assert most_flows_at_a_time(done.stdout) == 1, done.stdout
    assert rows(project, "shop_order_lines") == [
        {"order id": 1, "item": "item 1", "_rank": -1}, {"order id": 2, "item": "item 2", "_rank": -2},
    ]  # fmt: skip
    assert [row["line"] for row in rows(project, "shop_log_changes")] == ["a"]

    shop.mark(ORDERS, "truncate")
    add(shop, 3, 4)
    shop.update(ORDERS, {"order id": 3, "item": "item 3", "_rank": -3}, {"order id": 5, "item": "new", "_rank": 0})
    shop.commit()
    # An append of rows by key needs a table with MERGE: Spark names what the table lacks.
    (project / "transformations" / "kept.py").write_text(AUTO_CDC)
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in run(project).stdout
    (project / "transformations" / "kept.py").unlink()
    done = run(project)
    assert done.returncode == 0, done.stdout
    assert rows(project, "shop_order_lines") == [
        {"order id": 4, "item": "item 4", "_rank": -4}, {"order id": 5, "item": "new", "_rank": 0},
    ]  # fmt: skip


def test_a_folder_with_files_is_refused(shop: MadeLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert cli.run(["spark", "init", str(tmp_path), "--lake", shop.url]) == ExitCode.USAGE
    assert (
        f"relay: write a project: {tmp_path}: the folder has files (hint: give a new folder)" in capsys.readouterr().err
    )


def test_tables_with_one_name_in_spark_are_refused(
    shop: MadeLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.define("shop.order_lines", COLUMNS, key=["order id"])
    shop.commit()
    line = ["spark", "init", str(tmp_path / "project"), "--lake", shop.url]
    assert cli.run(line) == ExitCode.USAGE
    assert "two tables would be shop_order_lines_upserts in Spark" in capsys.readouterr().err
    assert not (tmp_path / "project").exists()
    assert cli.run([*line, "--table", "shop.order_lines"]) == ExitCode.OK
