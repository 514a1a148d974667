"""Upserts and deletes by key: applied in the order of their numbers, they make the table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import relay.lake
from relay.spark.upserts import whole_updates
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, applied, ordered, orders
from tests.support.chance import SEED
from tests.support.waiting import patience

ROUNDS, STEPS, IDS = 6, 12, 8


def batch(spark: SparkSession, lake: MadeLake, **options: object) -> list[dict[str, Any]]:
    """The upserts, read once."""
    given = {"lake": lake.url, "table": ORDERS, "rows": "upserts"} | options
    frame = spark.read.format("relay").options(**given).load()
    return [row.asDict() for row in frame.orderBy("_sequence").collect()]


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_operation"], row["id"], row["item"]) for row in rows]


class Target:
    """What a stream of upserts makes, batch by batch, with a checkpoint that stays."""

    def __init__(self, spark: SparkSession, lake: MadeLake, folder: Path) -> None:
        self.spark, self.lake, self.folder = spark, lake, folder
        self.rows: list[dict[str, Any]] = []
        self.sequence = -1

    def run(self, schema: str = "", **options: object) -> None:
        """Apply all there is now. A row never comes after one with a higher number."""

        def apply(frame: DataFrame, _: int) -> None:
            found = [row.asDict() for row in frame.collect()]
            if found:
                numbers = [row["_sequence"] for row in found]
                assert self.sequence < min(numbers)
                self.sequence = max(numbers)
            self.rows = applied([*self.rows, *found], ["id"])

        reader = self.spark.readStream.format("relay").options(lake=self.lake.url, table=ORDERS, rows="upserts")
        frame = (reader.schema(schema) if schema else reader).options(**options).load()
        writer = frame.writeStream.foreachBatch(apply).option("checkpointLocation", str(self.folder / "state"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(patience(120))
        assert not query.isActive

    def state(self) -> list[dict[str, Any]]:
        return ordered({"id": row["id"], "item": row["item"]} for row in self.rows)


@pytest.fixture
def target(spark: SparkSession, lake: MadeLake, tmp_path: Path) -> Target:
    return Target(spark, lake, tmp_path)


def now(lake: MadeLake) -> list[dict[str, Any]]:
    """The current state, as the relay reads it."""
    return ordered(relay.lake.current(lake.url, ORDERS).read_all().to_pylist())


def test_an_update_is_one_row_and_one_that_changes_the_key_is_two(spark: SparkSession, lake: MadeLake) -> None:
    orders(lake, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})
    lake.update(ORDERS, {"id": 1, "item": "pen"}, {"id": 1, "item": "pencil"})
    lake.update(ORDERS, {"id": 2, "item": "ink"}, {"id": 3, "item": "ink"})
    lake.delete(ORDERS, {"id": 1, "item": "pencil"})
    lake.mark(ORDERS, "truncate")
    lake.commit()
    assert told(batch(spark, lake)) == [
        ("truncate", None, None),
        ("upsert", 1, "pen"),
        ("upsert", 2, "ink"),
        ("upsert", 1, "pencil"),
        ("delete", 2, "ink"),
        ("upsert", 3, "ink"),
        ("delete", 1, "pencil"),
        ("truncate", None, None),
    ]
    assert told(batch(spark, lake, since=4, until=5)) == [("delete", 2, "ink"), ("upsert", 3, "ink")]


def test_updates_are_whole_wherever_a_batch_ends() -> None:
    kinds = ["insert", "update_preimage", "update_postimage", "update_preimage", "update_postimage", "delete"]
    rows = pa.record_batch({"_change_type": kinds})
    for cut in range(len(kinds) + 1):
        whole = list(whole_updates(part for part in (rows[:cut], rows[cut:]) if part.num_rows))
        assert [kind for each in whole for kind in each["_change_type"].to_pylist()] == kinds
        assert all(each["_change_type"][-1].as_py() != "update_preimage" for each in whole)


@pytest.mark.streams
def test_a_stream_of_upserts_makes_the_table_after_a_random_life(target: Target) -> None:
    chance, lake = random.Random(SEED), orders(target.lake)
    rows: dict[int, str] = {}
    for number in range(ROUNDS):
        for step in range(STEPS):
            item = f"{number} {step}"
            at = chance.randrange(IDS)
            if at not in rows:
                lake.insert(ORDERS, {"id": at, "item": item})
                rows[at] = item
                continue
            other = chance.randrange(IDS)
            match chance.choice(("update", "move", "delete", "commit")):
                case "move" if other not in rows:
                    lake.update(ORDERS, {"id": at, "item": rows.pop(at)}, {"id": other, "item": item})
                    rows[other] = item
                case "delete":
                    lake.delete(ORDERS, {"id": at, "item": rows.pop(at)})
                case "commit":
                    lake.commit()
                case _:
                    lake.update(ORDERS, {"id": at, "item": rows[at]}, {"id": at, "item": item})
                    rows[at] = item
        if number % 2:
            lake.mark(ORDERS, chance.choice(("truncate", "drop")))
            rows.clear()
        lake.commit()
        target.run(max_rows=chance.choice((3, 100)))
        assert target.state() == now(lake) == ordered({"id": each, "item": item} for each, item in rows.items())


@pytest.mark.streams
def test_a_snapshot_comes_in_its_place_and_changes_wait_for_it(target: Target) -> None:
    lake = orders(target.lake, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})
    target.run()
    lake.mark(ORDERS, "reset")  # an ALTER that rewrites values: what they are, only a snapshot tells
    lake.insert(ORDERS, {"id": 3, "item": "new"})
    lake.commit()
    before = target.state()
    target.run()
    assert target.state() == before == now_until_the_snapshot(lake)
    lake.snapshot(ORDERS, {"id": 1, "item": "PEN"}, after=["1"])
    lake.commit()
    lake.delete(ORDERS, {"id": 1, "item": "PEN"})
    lake.commit()
    target.run()
    assert target.state() == before
    lake.snapshot(ORDERS, {"id": 2, "item": "INK"}, {"id": 3, "item": "new"})
    lake.commit()
    lake.insert(ORDERS, {"id": 4, "item": "after"})
    lake.commit()
    target.run()
    assert target.state() == now(lake)
    assert [(row["id"], row["item"]) for row in target.state()] == [(2, "INK"), (3, "new"), (4, "after")]


@pytest.mark.streams
@pytest.mark.parametrize("rows", [[{"id": 2, "item": "ink"}], []], ids=["some left", "none left"])
def test_a_gap_empties_the_table_before_the_rows_of_the_snapshot(target: Target, rows: list[dict[str, Any]]) -> None:
    lake = orders(target.lake, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})
    target.run()
    lake.gap()  # in which rows were deleted
    target.run()
    assert len(target.state()) == 2  # until a snapshot tells what is left
    lake.snapshot(ORDERS, *rows)
    lake.commit()
    lake.commit()  # the export passes the end of the snapshot
    target.run(max_rows=1)
    assert target.state() == now(lake) == rows
    fresh = applied(batch(target.spark, lake), ["id"])
    assert ordered({"id": row["id"], "item": row["item"]} for row in fresh) == rows


def now_until_the_snapshot(lake: MadeLake) -> list[dict[str, Any]]:
    with pytest.warns(match="are not known yet"):
        return now(lake)


@pytest.mark.streams
def test_a_stream_of_named_columns_needs_neither_the_key_nor_its_changes(target: Target) -> None:
    lake = orders(target.lake, {"id": 1, "item": "pen"})
    lake.update(ORDERS, {"id": 1, "item": "pen"}, {"id": 5, "item": "pen"})
    lake.commit()
    target.run("_operation string, id bigint, _sequence bigint, item string")
    assert target.state() == [{"id": 5, "item": "pen"}]


@pytest.mark.streams
def test_a_stream_stops_by_name_where_the_key_changes(target: Target) -> None:
    lake = orders(target.lake, {"id": 1, "item": "pen"})
    schema = "_operation string, id int, item string, _sequence bigint"
    reader = target.spark.readStream.format("relay").options(lake=lake.url, table=ORDERS, rows="upserts")
    frame = reader.load()
    lake.define(ORDERS, {"id": "int", "item": "string"}, key=["item"])
    lake.insert(ORDERS, {"id": 2, "item": "ink"})
    lake.commit()
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(target.folder / "state"))
        .trigger(availableNow=True)
        .start(str(target.folder / "out"))
    )
    with pytest.raises(Exception, match=r"the primary key became \(item\) at _seq 3"):
        query.awaitTermination(patience(120))
    assert target.spark.read.parquet(str(target.folder / "out")).count() == 2
    target.run(schema, start="2")


def test_upserts_of_what_is_not_known_are_refused_in_words(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "item": "string"})
    lake.mark(ORDERS, "create")
    lake.insert(ORDERS, {"id": 1, "item": "pen"})
    lake.commit()
    with pytest.raises(Exception, match=r'it has no primary key \(use rows = "changes"\)'):
        batch(spark, lake)
    lake.define("shop.old", {"id": "int"}, key=["id"])
    lake.insert("shop.old", {"id": 1})
    lake.commit()
    old = spark.read.format("relay").options(lake=lake.url, table="shop.old", rows="upserts")
    with pytest.raises(Exception, match="the lake lacks its rows from before the export"):
        old.load().collect()
    with pytest.raises(Exception, match="rows = 'all' is unknown"):
        batch(spark, lake, rows="all")
