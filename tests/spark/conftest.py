"""One Spark session for all tests of the lake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark.lakes import MadeLake

HERE = Path(__file__).parent
# Short queries on little data: compiling them well costs more than running them.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


OLD = find_spec("pyspark.sql.streaming.datasource") is None  # before 4.2: the data source has no streams


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [item for item in items if OLD and "streams" in {*getattr(item, "fixturenames", ()), *item.keywords}]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)


def pytest_report_header() -> str:
    return f"pyspark {pyspark.__version__}{', without its streams' if OLD else ''}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores, in a zone that is not UTC. RELAY_TEST_MASTER says where else it is to run."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's own Python processes find the data source by its name, so they must find this tree, with this Python.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE.parent.parent), os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master(os.environ.get("RELAY_TEST_MASTER", "local[2]"))
        .appName("tests of the lake")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> MadeLake:
    """A lake without anything in it, in a folder whose name Spark could take for a pattern."""
    return MadeLake(tmp_path / "a [lake] of {100%20} #1?")
