"""`relay spark` runs jobs through spark-submit, reports what they did, and ends with their exit code."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from relay.errors import ExitCode
from relay.spark.reading import MOST_BYTES
from relay.spark.submit import arguments, environment_of
from tests.spark.lakes import MadeLake
from tests.support import ROOT
from tests.support.waiting import patience

ORDERS = "shop.orders"
JOB = """
import sys
from relay import cli
from relay.spark import reading

reading.MOST_BYTES = {MOST_BYTES}
sys.exit(cli.run(sys.argv[1:]))
"""
FEW = ("--master", "local[2]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def relay(
    *arguments: str, environment: Mapping[str, str] | None = None, line: Sequence[str] = (sys.executable, "-m", "relay")
) -> subprocess.CompletedProcess[str]:
    """The `relay` command, in a process of its own."""
    return subprocess.run(
        [*line, *arguments],
        cwd=ROOT,
        env=environment or os.environ,
        capture_output=True,
        text=True,
        timeout=patience(170),
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
    # Java names the modules that Spark loads. A slow job shows its progress.
    assert [line for line in done.stderr.splitlines() if not line.startswith(("WARNING: Using", "merge "))] == []
    notes, old, orders = sorted(done.stdout.splitlines())
    assert notes.startswith("shop.notes: skipped: it has no primary key")
    assert old.startswith("shop.old: skipped: its rows are unknown until `relay snapshot` has run")
    assert orders.startswith("shop.orders: version 1 has 2 rows: 3 rows from the beginning merged into 1 of 1 bucket")


@pytest.mark.parametrize("driver", [True, False], ids=["read by the driver", "read by Spark"])
def test_a_job_that_cannot_read_a_file_ends_with_a_line_and_an_exit_code(driver: bool, shop: MadeLake) -> None:
    files = list(shop.root.glob("changes/cdc_schema=shop/cdc_table=orders/*/*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:-20])
    line = [sys.executable, "-c", JOB.format(MOST_BYTES=MOST_BYTES if driver else 0)]
    done = relay("spark", "merge", "--lake", shop.url, "--table", "shop.or*", *FEW, line=line)
    told = done.stderr.splitlines()[-1]
    assert files[0].name in told and "\tat " not in done.stderr, "no stack trace"
    if driver:
        assert (done.returncode, done.stdout) == (ExitCode.STOPPED, "")
        assert told.startswith("relay: read the lake: ") and "(hint: restore that file from a backup" in told
    else:
        assert (done.returncode, done.stdout) == (ExitCode.ENVIRONMENT, "")
        assert told.startswith("relay: merge on Spark: ") and "not a Parquet file" in told


def test_a_submitted_program_finds_the_data_source_from_any_folder(shop: MadeLake, tmp_path: Path) -> None:
    program = tmp_path / "count.py"
    program.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        f"rows = spark.read.format('relay').options(lake={shop.url!r}, table={ORDERS!r}, rows='upserts').load()\n"
        "print('upserts:', rows.where(\"_operation = 'upsert'\").count())\n"
    )
    submit = Path(sys.executable).with_name("spark-submit")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [submit, *FEW, program], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=patience(170), check=False,
    )  # fmt: skip
    assert "upserts: 2\n" in done.stdout, done.stderr


def test_a_table_that_is_not_in_the_lake_is_refused_before_spark_starts(shop: MadeLake) -> None:
    done = relay("spark", "merge", "--lake", shop.url, "--table", "shop.order", *FEW)
    assert done.returncode == ExitCode.USAGE
    assert (
        "relay: read the lake: it has no table shop.order (hint: it has shop.notes, shop.old, shop.orders)"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--master", "here"), "'here' is not local[N], spark://HOST:PORT, yarn or k8s://URL"),
        (("--conf", "spark.x"), "'spark.x' is not KEY=VALUE"),
        (("--table", "orders"), "schema.table"),
    ],
)
def test_what_cannot_be_meant_is_a_wrong_command_line(arguments: tuple[str, ...], told: str, shop: MadeLake) -> None:
    done = relay("spark", "merge", "--lake", shop.url, *arguments)
    assert done.returncode == ExitCode.USAGE
    assert told in done.stderr


def test_without_java_it_says_how_to_get_it(shop: MadeLake, tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = relay("spark", "merge", "--lake", shop.url, environment=bare)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.startswith("relay: run Spark: there is no Java (hint: install Java 17 or newer")
    old = tmp_path / "home" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    done = relay("spark", "merge", "--lake", shop.url, environment=bare | {"JAVA_HOME": str(tmp_path / "home")})
    assert done.returncode == ExitCode.ENVIRONMENT
    assert f"relay: run Spark: {old}: Java 11 is too old" in done.stderr


def test_without_pyspark_it_says_which_extra_brings_it(shop: MadeLake, tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError\n")
    done = relay("spark", "merge", "--lake", shop.url, environment=dict(os.environ) | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "the package pyspark is not installed (hint: pip install 'binlog-relay[spark]'" in done.stderr
    assert relay("--help", environment=dict(os.environ) | {"PYTHONPATH": str(tmp_path)}).returncode == ExitCode.OK


def test_settings_reach_spark_after_those_of_the_relay() -> None:
    settings = ["spark.driver.memory=2g", "spark.ui.enabled=true", "spark.x=it's"]
    words = arguments("merge", "local[2]", settings)
    given = [words[place + 1] for place, word in enumerate(words) if word == "--conf"]
    assert given == ["spark.ui.enabled=false", "spark.ui.showConsoleProgress=false", *settings]
    assert words[:4] == ["--master", "local[2]", "--name", "relay merge"]
    made = environment_of("merge", "local[2]", settings, {})
    assert shlex.split(made["PYSPARK_SUBMIT_ARGS"]) == [*words, "pyspark-shell"]


def test_the_address_of_this_machine_is_set_for_local_masters_only() -> None:
    def made(master: str, **environment: str) -> Mapping[str, str]:
        return environment_of("merge", master, [], environment)

    assert made("local[*]")["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in made("spark://host:7077")
    found = made("local[*]", SPARK_LOCAL_IP="10.0.0.1", PYTHONPATH="/mine", SPARK_SUBMIT_OPTS="-Dx=y")
    assert (found["SPARK_LOCAL_IP"], found["PYTHONPATH"]) == ("10.0.0.1", f"{ROOT}:/mine")
    assert found["SPARK_SUBMIT_OPTS"].endswith(" -Dx=y")
