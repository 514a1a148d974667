"""The state of a table, from changes alone and through merged versions, is what its history says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from relay.lake.documents import Table
from relay.spark import current
from relay.spark.merge import merge
from relay.spark.reading import opened
from tests.spark.lakes import MadeLake

ORDERS = "shop.orders"


def state(spark: SparkSession, lake: MadeLake, table: str = ORDERS) -> list[Mapping[str, Any]]:
    """The rows of a table, in the order of their first column."""
    rows = current(spark, lake.url, table).collect()
    return sorted((row.asDict() for row in rows), key=repr)


def merged(spark: SparkSession, lake: MadeLake, table: str = ORDERS) -> str:
    """Merge a table."""
    schema, _, name = table.partition(".")
    return merge(spark, opened(lake.url), Table(schema, name))


def test_state_follows_changes(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    lake.mark(ORDERS, "create")
    lake.insert(ORDERS, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"}, {"id": 3, "item": "cap"})
    lake.update(ORDERS, {"id": 1, "item": "pen"}, {"id": 4, "item": "pen"})
    lake.delete(ORDERS, {"id": 2, "item": "ink"})
    lake.commit()
    expected = [{"id": 3, "item": "cap"}, {"id": 4, "item": "pen"}]
    assert state(spark, lake) == expected
    merged(spark, lake)
    assert state(spark, lake) == expected
    lake.update(ORDERS, {"id": 4, "item": "pen"}, {"id": 5, "item": "pen"})
    lake.commit()
    expected = [{"id": 3, "item": "cap"}, {"id": 5, "item": "pen"}]
    assert state(spark, lake) == expected
    merged(spark, lake)
    merged(spark, lake)
    assert state(spark, lake) == expected
