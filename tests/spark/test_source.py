"""The data source "relay": a table's changes as a DataFrame and as a stream, through Spark's own processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

import relay.spark
from relay.errors import RelayError
from relay.spark import source
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, orders
from tests.support.waiting import patience

PATIENCE = patience(120)


@pytest.fixture
def lake(lake: MadeLake) -> MadeLake:
    """A lake with a table that has no rows yet."""
    return orders(lake)


def add(lake: MadeLake, *ids: int) -> None:
    """Insert a row each, and commit."""
    lake.insert(ORDERS, *({"id": number, "item": f"item {number}"} for number in ids))
    lake.commit()


def batch(spark: SparkSession, lake: MadeLake, **options: object) -> DataFrame:
    """The changes, read once."""
    return spark.read.format("relay").options(lake=lake.url, table=ORDERS, **options).load()


class Streams:
    """Runs streams of a lake's table into Parquet, with checkpoints that stay."""

    def __init__(self, spark: SparkSession, lake: MadeLake, folder: Path) -> None:
        self.spark = spark
        self.lake = lake
        self.folder = folder

    def frame(self, schema: str | None = None, **options: object) -> DataFrame:
        """The stream, loaded."""
        reader = self.spark.readStream.format("relay").options(lake=self.lake.url, table=ORDERS, **options)
        return (reader.schema(schema) if schema else reader).load()

    def run(self, frame: DataFrame, name: str = "out") -> StreamingQuery:
        """All there is now, to its end."""
        query = self.start(frame, name, availableNow=True)
        query.awaitTermination(PATIENCE)
        assert not query.isActive
        return query

    def start(self, frame: DataFrame, name: str = "out", **trigger: Any) -> StreamingQuery:
        """A query that goes on until it is stopped."""
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.folder / f"{name}.state"))
        return writer.trigger(**trigger).start(str(self.folder / name))

    def ids(self, name: str = "out") -> list[int]:
        """What arrived: the ids of inserts, in no order, as often as they came."""
        rows = self.spark.read.option("mergeSchema", "true").parquet(str(self.folder / name))
        return sorted(row.id for row in rows.where("_change_type = 'insert'").select("id").collect())


@pytest.fixture
def streams(spark: SparkSession, lake: MadeLake, tmp_path: Path) -> Streams:
    return Streams(spark, lake, tmp_path)


def message(action: Callable[[], object]) -> str:
    """The text of the error that Spark raises."""
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def test_spark_finds_it_by_its_name_without_registering_in_python_and_in_sql(
    spark: SparkSession, lake: MadeLake
) -> None:
    add(lake, 1, 2)
    assert [row.id for row in batch(spark, lake).where("_change_type = 'insert'").orderBy("_seq").collect()] == [1, 2]
    own = spark.newSession()  # views of other tests are not seen
    own.sql(f"CREATE TEMPORARY VIEW orders USING relay OPTIONS (lake '{lake.url}', `table` '{ORDERS}')")
    assert own.sql("SELECT max(id) FROM orders").first()[0] == 2


def test_reading_once_gives_what_changes_gives(spark: SparkSession, tmp_path: Path) -> None:
    lake = MadeLake(tmp_path / "every")
    columns = {
        "id": "bigint", "flag": "boolean", "tiny": "tinyint", "small": "smallint", "f": "float", "d": "double",
        "price": "decimal(10,2)", "day": "date", "at": "timestamp", "local": "timestamp_ntz", "raw": "binary",
        "tags": "array<string>", "text": "string", "text__raw": "binary", "day__text": "string",
    }  # fmt: skip
    lake.define(ORDERS, columns, key=["id"])
    lake.insert(ORDERS, {"id": 1}, {"id": 2, "flag": True, "tags": ["a", None], "raw": b"\xff", "text__raw": b"\xfe"})
    lake.snapshot(ORDERS, {"id": 7, "f": 0.5, "price": 12})
    lake.commit()
    lake.define(ORDERS, columns | {"id": "decimal(20,0)", "more": "string"}, key=["id"])
    lake.update(ORDERS, {"id": 1}, {"id": 2**63, "more": "x"})
    lake.commit()
    ours, theirs = batch(spark, lake), relay.spark.changes(spark, lake.url, ORDERS)
    assert ours.schema == theirs.schema
    assert ours.count() == 5
    assert ours.exceptAll(theirs).isEmpty() and theirs.exceptAll(ours).isEmpty()


def test_since_and_until_choose_a_range_of_numbers(spark: SparkSession, lake: MadeLake) -> None:
    for number in range(1, 6):
        add(lake, number)
    rows = batch(spark, lake, since=2, until=4)
    assert sorted(row._seq for row in rows.collect()) == [3, 4]
    assert batch(spark, lake, since=6).collect() == []


def test_a_filter_works_without_any_setting_of_spark(spark: SparkSession, lake: MadeLake) -> None:
    """A reader with pushFilters would fail here: Spark refuses it unless a setting allows it."""
    add(lake, 1, 2, 3)
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "false"
    assert [row.id for row in batch(spark, lake).where("id = 2 AND _change_type = 'insert'").collect()] == [2]


def test_a_schema_of_the_users_reads_its_columns_and_no_others(spark: SparkSession, lake: MadeLake) -> None:
    """Spark asks Python sources for all columns, whatever the query selects: the schema is how to ask for fewer."""
    add(lake, 1, 2)
    reader = spark.read.format("relay").options(lake=lake.url, table=ORDERS).schema("item string, id bigint")
    assert sorted(map(tuple, reader.load().where("id is not null").collect())) == [("item 1", 1), ("item 2", 2)]


def test_what_cannot_be_read_is_said_in_words(spark: SparkSession, lake: MadeLake, tmp_path: Path) -> None:
    add(lake, 1)

    def load(schema: str | None = None, **options: object) -> str:
        reader = spark.read.format("relay").options(**options)
        return message(lambda: (reader.schema(schema) if schema else reader).load().collect())

    known = {"lake": lake.url, "table": ORDERS}
    assert "shop.nothing" in load(lake=lake.url, table="shop.nothing")
    assert str(tmp_path / "elsewhere") in load(lake=str(tmp_path / "elsewhere"), table=ORDERS)
    assert "the option 'table' is missing" in load(lake=lake.url)
    assert "there is no option 'max_row'" in load(**known, max_row=1)
    assert "since = 'yesterday' is not a number" in load(**known, since="yesterday")
    assert "there is no column 'itm'" in load("itm string", **known)
    assert "which does not fit into tinyint" in load("id tinyint", **known)


def test_a_pyspark_without_limits_of_batches_is_named(lake: MadeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    reader = source.RelayDataSource({"lake": lake.url, "table": ORDERS})
    with pytest.raises(RelayError, match=r"pyspark [\d.]+ has no limits of batches \(use pyspark 4.2 or newer\)"):
        reader.streamReader(StructType([]))


def test_a_stream_delivers_each_change_once_and_goes_on_where_its_checkpoint_is(streams: Streams) -> None:
    add(streams.lake, 1, 2)
    streams.run(streams.frame())
    assert streams.ids() == [1, 2]
    add(streams.lake, 3)
    add(streams.lake, 4, 5)
    streams.run(streams.frame())
    streams.run(streams.frame())
    assert streams.ids() == [1, 2, 3, 4, 5]


def test_a_stream_has_changes_and_markers_but_no_rows_of_snapshots(streams: Streams, spark: SparkSession) -> None:
    add(streams.lake, 1)
    streams.lake.snapshot(ORDERS, {"id": 77})
    streams.lake.commit()
    streams.lake.mark(ORDERS, "truncate")
    streams.lake.commit()
    streams.run(streams.frame())
    rows = spark.read.parquet(str(streams.folder / "out"))
    assert sorted(row._change_type for row in rows.collect()) == ["create", "insert", "truncate"]


@pytest.mark.parametrize(("start", "ids"), [("oldest", [1, 2, 3, 4]), ("newest", [4]), ("3", [3, 4])])
def test_a_stream_starts_where_it_is_told(streams: Streams, start: str, ids: list[int]) -> None:
    for number in (1, 2, 3):  # of the numbers 2, 3, 4
        add(streams.lake, number)
    frame = streams.frame(start=start)
    query = streams.start(frame, processingTime="0 seconds")
    query.processAllAvailable()
    add(streams.lake, 4)
    query.processAllAvailable()
    query.stop()
    assert streams.ids() == ids


def test_max_rows_bounds_a_batch_and_no_transaction_is_split(streams: Streams) -> None:
    lake = streams.lake
    for first in range(1, 20, 3):
        rows = [{"id": number, "item": ""} for number in range(first, first + 3)]
        lake.transaction(ORDERS, *rows)
    lake.commit()
    query = streams.run(streams.frame(max_rows=7))
    assert streams.ids() == list(range(1, 22))
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sizes == [7, 6, 6, 3]  # the marker and two transactions, then two by two


def test_a_transaction_of_more_than_max_rows_is_delivered_whole(streams: Streams) -> None:
    streams.lake.transaction(ORDERS, *({"id": number, "item": ""} for number in range(1, 10)))
    streams.lake.commit()
    query = streams.run(streams.frame(max_rows=4))
    assert streams.ids() == list(range(1, 10))
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [1, 9]


def test_available_now_ends_at_what_was_there_when_it_began(streams: Streams) -> None:
    add(streams.lake, *range(1, 11))
    arrived: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        arrived.append(frame.count())
        add(streams.lake, 100 + len(arrived))

    writer = streams.frame(max_rows=4).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(streams.folder / "now.state")).trigger(availableNow=True).start()
    query.awaitTermination(PATIENCE)
    assert sum(arrived) == 11  # ten rows and the marker, none of those that were added meanwhile


def test_a_commit_that_brings_nothing_for_the_table_makes_no_batch(streams: Streams) -> None:
    add(streams.lake, 1)
    streams.lake.define("shop.other", {"id": "int"})
    query = streams.start(streams.frame(), processingTime="0 seconds")
    query.processAllAvailable()
    for number in range(3):
        streams.lake.insert("shop.other", {"id": number})
        streams.lake.commit()
        query.processAllAvailable()
    last = query.lastProgress
    query.stop()
    assert last is not None and last["batchId"] <= 1
    assert last["sources"][0]["endOffset"] == '{"seq": 2}'


def test_a_stream_delivers_all_up_to_a_change_of_columns_and_then_stops_by_name(streams: Streams) -> None:
    add(streams.lake, 1)
    frame = streams.frame()
    streams.lake.define(ORDERS, {"id": "int", "item": "string", "price": "int"}, key=["id"])
    streams.lake.insert(ORDERS, {"id": 2, "item": "", "price": 5})
    streams.lake.commit()
    text = message(lambda: streams.run(frame))
    assert "the column price was added at _seq 3" in text
    assert "load the stream again with the same checkpoint" in text
    assert streams.ids() == [1]
    streams.run(streams.frame())
    assert streams.ids() == [1, 2]


def test_a_dropped_column_stops_no_stream(streams: Streams, spark: SparkSession) -> None:
    add(streams.lake, 1)
    frame = streams.frame()
    streams.lake.define(ORDERS, {"id": "int"}, key=["id"])
    streams.lake.insert(ORDERS, {"id": 2})
    streams.lake.commit()
    streams.run(frame)
    rows = spark.read.parquet(str(streams.folder / "out")).where("_change_type = 'insert'")
    assert sorted(map(tuple, rows.select("id", "item").collect())) == [(1, "item 1"), (2, None)]


def test_a_stream_of_named_columns_goes_on_through_changes_of_others(streams: Streams) -> None:
    add(streams.lake, 1)
    frame = streams.frame("id int, _change_type string")
    streams.lake.define(ORDERS, {"id": "int", "item": "string", "price": "int"}, key=["id"])
    streams.lake.insert(ORDERS, {"id": 2, "item": "", "price": 5})
    streams.lake.commit()
    query = streams.start(frame, processingTime="0 seconds")
    query.processAllAvailable()
    assert streams.ids() == [1, 2]
    streams.lake.define(ORDERS, {"id": "bigint", "item": "string", "price": "int"}, key=["id"])
    streams.lake.insert(ORDERS, {"id": 2**40, "item": "", "price": 5})
    streams.lake.commit()
    assert "the column id became bigint at _seq 4" in message(query.processAllAvailable)
    assert "the column id is bigint, which does not fit into int" in message(lambda: streams.run(frame))
    streams.run(streams.frame("id bigint, _change_type string"), "wider")
    assert streams.ids("wider") == [1, 2, 2**40]


def test_a_stream_stops_by_name_at_the_first_value_of_a_side_column(streams: Streams) -> None:
    streams.lake.define(ORDERS, {"id": "int", "item": "string", "item__raw": "binary"}, key=["id"])
    add(streams.lake, 1)
    frame = streams.frame()
    streams.lake.insert(ORDERS, {"id": 2, "item": "?", "item__raw": b"\xff"})
    streams.lake.commit()
    assert "the column item__raw got its first value" in message(lambda: streams.run(frame))
    streams.run(streams.frame())
    assert streams.ids() == [1, 2]
