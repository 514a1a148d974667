"""docs/spark.md: what it shows runs, and the options it names are those there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relay import sparkverbs
from relay.spark import source
from tests.spark.lakes import MadeLake

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def blocks(language: str) -> list[str]:
    """The examples in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with the table of the examples."""
    lake.define("shop.orders", {"id": "int", "item": "string"}, key=["id"])
    lake.mark("shop.orders", "create")
    lake.insert("shop.orders", {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})
    lake.commit()
    return lake


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
    (statement,) = blocks("sql")
    own = spark.newSession()  # views of other tests are not seen
    own.sql(statement.replace("/srv/lake", shop.url).strip().rstrip(";"))
    assert own.table("orders").count() == 3


def test_options_of_the_data_source_are_all_there() -> None:
    (table,) = re.findall(r"\| option \| for \| \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*source.OPTIONS]


def test_the_commands_are_understood() -> None:
    group = sparkverbs.spark
    verbs = set()
    for line in "".join(blocks("sh")).splitlines():
        _, _, verb, *arguments = shlex.split(line)
        group.commands[verb].make_context(verb, arguments)
        verbs.add(verb)
    assert verbs == set(group.commands)
