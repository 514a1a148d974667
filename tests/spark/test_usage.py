"""The usage of a lake: its counts, and how they are shown."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from relay.errors import RelayError
from relay.lake.documents import Table
from relay.lake.tables import open_log
from relay.spark import plot
from relay.spark.counts import UsageRow, rows_by_time, text
from relay.spark.progress import Progress
from relay.spark.usage import collected, run, usage
from tests.spark.lakes import MadeLake
from tests.spark.test_jobs import FEW, relay

NINE = datetime(2026, 11, 20, 9)
TEN = NINE + timedelta(hours=1)


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """Two tables over two hours; the name of one is a number, which Spark must not read as one."""
    lake.define("shop.orders", {"id": "int"}, key=["id"])
    lake.define("shop.0012", {"id": "int"}, key=["id"])
    lake.mark("shop.orders", "create")
    lake.insert("shop.orders", {"id": 1}, {"id": 2})
    lake.update("shop.orders", {"id": 1}, {"id": 3})
    lake.delete("shop.orders", {"id": 2})
    lake.commit()
    lake.clock += 3600
    lake.insert("shop.orders", {"id": 4})
    lake.update("shop.0012", {"id": 1}, {"id": 5})
    lake.commit()
    lake.snapshot("shop.0012", {"id": 1}, {"id": 2})
    lake.commit()
    return lake


def count(spark: SparkSession, lake: MadeLake, *tables: Table) -> list[UsageRow]:
    log = open_log(lake.url)
    state = log.state()
    return collected(usage(spark, log.storage, state, tables or [table.table for table in state.tables.values()]))


def test_rows_are_counted_by_table_kind_and_hour_and_an_update_once(spark: SparkSession, shop: MadeLake) -> None:
    assert count(spark, shop) == [
        UsageRow("shop", "orders", "insert", NINE, 2),
        UsageRow("shop", "orders", "update", NINE, 1),
        UsageRow("shop", "orders", "delete", NINE, 1),
        UsageRow("shop", "orders", "marker", NINE, 1),
        UsageRow("shop", "0012", "update", TEN, 1),
        UsageRow("shop", "0012", "snapshot", TEN, 2),
        UsageRow("shop", "orders", "insert", TEN, 1),
    ]


def test_only_the_tables_that_were_asked_for_are_counted(spark: SparkSession, shop: MadeLake) -> None:
    assert {row.table for row in count(spark, shop, Table("shop", "0012"))} == {"0012"}
    assert count(spark, shop, Table("shop", "nothing")) == []


def test_the_command_prints_a_table_and_writes_rows_and_a_plot(shop: MadeLake, tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.parquet", tmp_path / "usage.html"
    done = relay("spark", "usage", "--lake", shop.url, "--out", str(rows), "--plot", str(page), *FEW)
    assert done.returncode == 0, done.stderr
    head, first, *_, sums, wrote, drew = done.stdout.splitlines()
    assert head.split() == ["hour", "(UTC)", "table", "insert", "update", "delete", "snapshot", "marker", "total"]
    assert first.split() == ["2026-11-20", "09:00", "shop.orders", "2", "1", "1", "0", "1", "5"]
    assert sums.split() == ["all", "3", "2", "1", "2", "1", "9"]
    assert (wrote, drew) == (f"rows: {rows}", f"plot: {page}")
    assert sum(pyarrow.parquet.read_table(rows)["rows"].to_pylist()) == 9
    assert "rows by minute (UTC) and table" in page.read_text()
    assert "<td>2026-11-20 09:00</td><td>shop.orders</td>" in page.read_text()


def test_the_command_refuses_files_of_other_kinds(tmp_path: Path) -> None:
    done = relay("spark", "usage", "--lake", str(tmp_path), "--plot", "usage.jpeg")
    assert done.returncode == 2
    assert "'usage.jpeg' does not end in .png or .html" in done.stderr


def test_rows_are_written_as_csv(spark: SparkSession, shop: MadeLake, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    list(run(spark, shop.url, [Table("shop", "orders")], {"out": str(file)}, Progress(spark)))
    table = pyarrow.csv.read_csv(file)
    assert table.column_names == ["schema", "table", "kind", "hour", "rows"]
    assert sum(table["rows"].to_pylist()) == 6


def test_a_file_that_cannot_be_written_is_an_error_in_words(spark: SparkSession, shop: MadeLake) -> None:
    with pytest.raises(RelayError, match="No such file or directory"):
        list(run(spark, shop.url, [Table("shop", "orders")], {"out": "/nowhere/rows.csv"}, Progress(spark)))


def made(tables: int, hours: int) -> list[UsageRow]:
    """Rows of so many tables, the first the largest, in so many hours."""
    return [
        UsageRow("shop", f"t{table}", kind, NINE + timedelta(hours=hour), 100 * (tables - table))
        for hour in range(hours)
        for table in range(tables)
        for kind in ("insert", "update")
    ]


def drawn(rows: list[UsageRow]) -> tuple[list[str], list[str]]:
    """The names in the legends of both halves of the picture."""
    above, below = plot.figure(rows, plot.HOUR, plot.LIGHT).axes
    return tuple([text.get_text() for text in axes.get_legend().get_texts()] for axes in (above, below))  # type: ignore[return-value]


def test_ten_tables_have_colours_of_their_own_and_the_rest_is_drawn_together() -> None:
    tables, kinds = drawn(made(tables=12, hours=3))
    assert tables[::-1] == [*(f"shop.t{number}" for number in range(10)), "others"]
    assert kinds == ["insert", "update"]
    _, below = plot.figure(made(tables=12, hours=3), plot.HOUR, plot.LIGHT).axes
    assert [label.get_text() for label in below.get_yticklabels()][-1] == "2 others"


def test_bars_of_a_long_time_are_days_and_add_up() -> None:
    above, _ = plot.figure(made(tables=2, hours=24 * 30), plot.HOUR, plot.LIGHT).axes
    assert above.get_title(loc="left") == "rows by day (UTC) and table"
    rows = sum(row.rows for row in made(tables=2, hours=24 * 30))
    assert sum(bar.get_height() for bar in above.patches) == rows


def test_a_png_is_one_and_of_a_size_that_can_be_looked_at() -> None:
    picture = plot.png(made(tables=3, hours=5), plot.HOUR)
    assert picture.startswith(b"\x89PNG\r\n")
    assert int.from_bytes(picture[16:20], "big") == 1800


def test_a_page_needs_nothing_else_and_has_the_numbers_and_both_themes() -> None:
    rows = [UsageRow("shop", "<b>$x$ & co", "insert", NINE, 1234)]
    page = plot.html(rows, plot.HOUR, rows, "/srv/lake").decode()
    assert not re.findall(r"<(?:script|link|img|iframe)\b|@import|url\(\s*['\"]?https?:", page)
    assert page.count("<svg") == 2 and "prefers-color-scheme: dark" in page
    assert "shop.&lt;b&gt;$x$ &amp; co" in page and "<b>" not in page
    assert "1,234" in page
    ids = re.findall(r'<clipPath id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_nothing_is_drawn_for_an_empty_lake_and_nothing_fails() -> None:
    assert plot.png([], plot.HOUR).startswith(b"\x89PNG\r\n")
    assert "</html>" in plot.html([], plot.HOUR, [], "/srv/lake").decode()
    assert text([]).splitlines()[-1].split() == ["all", "0"]
    assert rows_by_time([]) == []
