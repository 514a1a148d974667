"""One Spark session for all tests of the lake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lakes import MadeLake

HERE = Path(__file__).parent
# Short queries on little data: compiling them well costs more than running them.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)


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
