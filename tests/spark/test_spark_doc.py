"""docs/spark.md: its code runs, and the options that it names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relay.commands import spark as spark_commands
from relay.spark.options import OPTIONS
from tests.spark.lakes import MadeLake
from tests.spark.states import orders
from tests.support import ROOT

PAGE = (ROOT / "docs" / "spark.md").read_text()


def blocks(language: str) -> list[str]:
    """The examples in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with the table of the examples."""
    return orders(lake, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})


@pytest.mark.streams
def test_the_examples_run_one_after_the_other(
    spark: SparkSession, shop: MadeLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for example in blocks("python"):
        if "getOrCreate" in example:  # the session is there
            names["spark"] = spark
            continue
        example = example.replace("/srv/lake", shop.url).replace("/srv/", f"{tmp_path}/")
        exec(compile(example, "docs/spark.md", "exec"), names)
    assert spark.read.parquet(str(tmp_path / "copies" / "orders")).count() == 3
    assert "pen" in capsys.readouterr().out
    assert [field.name for field in names["slim"].schema] == ["id", "item", "_change_type", "_seq"]


def test_the_sql_runs(spark: SparkSession, shop: MadeLake) -> None:
    statement, merge = blocks("sql")
    own = spark.newSession()  # views of other tests are not seen
    own.sql(statement.replace("/srv/lake", shop.url).strip().rstrip(";"))
    assert own.table("orders").count() == 3
    # No catalog of these tests has MERGE: Spark says whether it is one.
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(merge)
    assert plan.nodeName() == "MergeIntoTable"


def test_options_of_the_data_source_are_all_there() -> None:
    (table,) = re.findall(r"\| option \| for \| \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*OPTIONS]


def test_the_commands_are_understood() -> None:
    group = spark_commands.spark
    commands = set()
    for line in "".join(blocks("sh")).splitlines():
        _, _, command, *arguments = shlex.split(line)
        group.commands[command].make_context(command, arguments)
        commands.add(command)
    assert commands == set(group.commands)
