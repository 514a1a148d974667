"""Shared by tests of merged states: merging a table, and its rows in a defined order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from relay.lake.documents import Table
from relay.lake.tables import open_log
from relay.spark import current
from relay.spark.merge import BUCKET_BYTES, merge
from tests.spark.lakes import MadeLake

ORDERS = "shop.orders"


def orders(lake: MadeLake, *rows: dict[str, Any]) -> MadeLake:
    """The lake with the table ORDERS of an id and an item, and these rows."""
    lake.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    lake.mark(ORDERS, "create")
    lake.insert(ORDERS, *rows)
    lake.commit()
    return lake


def table_of(name: str) -> Table:
    """schema.table -> Table"""
    schema, _, table = name.partition(".")
    return Table(schema, table)


def state(spark: SparkSession, lake: MadeLake, table: str = ORDERS) -> list[dict[str, Any]]:
    """The rows of a table's current state."""
    return ordered(row.asDict() for row in current(spark, lake.url, table_of(table)).collect())


def ordered(rows: Any) -> list[dict[str, Any]]:
    """Rows in an order that does not depend on where they came from."""
    return sorted(rows, key=repr)


def merged(spark: SparkSession, lake: MadeLake, table: str = ORDERS, bucket_bytes: int = BUCKET_BYTES) -> str:
    """Merge a table; what was done, in words."""
    return merge(spark, open_log(lake.url), table_of(table), bucket_bytes=bucket_bytes)


def check(spark: SparkSession, lake: MadeLake, expected: list[dict[str, Any]], table: str = ORDERS) -> None:
    """The state is what is expected, as it is read from the changes and from a merged version."""
    assert state(spark, lake, table) == ordered(expected)
    merged(spark, lake, table)
    assert state(spark, lake, table) == ordered(expected)


def applied(rows: Iterable[dict[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    """The table after upserts and deletes, in the order of their numbers."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["_sequence"]):
        name = repr([row[column] for column in key])
        if row["_operation"] == "truncate":
            found.clear()
        elif row["_operation"] == "delete":
            found.pop(name, None)
        else:
            found[name] = row
    return list(found.values())
