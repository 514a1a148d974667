"""Conversions of old types with pyarrow equal Spark's, and lose nothing without a text column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import relay.spark
from relay.lake.types import arrow_type
from relay.lake.values import converted
from relay.spark.schema import convert, spark_type
from tests.spark.lakes import MadeLake

NUMBERS = [0, 1, -1, 127, -128, 128, 32768, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
DECIMALS = ["0", "1", "-1", "0.1", "12.34", "-99999999.99", "99999999.99", "0.05", "1234567.5"]
FLOATS = [0.0, 1.0, -1.0, 0.1, 0.5, 1e-3, 1.5e-4, 123456.789, 1e7, 1.25e10, 9007199254740993.0, 1e300, -2.5e-300]
TEXTS = [
    "", " ", "0", "1", "-1", "+7", " 42 ", "1.5", ".5", "5.", "1e3", "x", "1_0", "128", "99999999999999999999", "true",
    "NO", "t", "2026-11-20", "2026-2-3", "2026", "2026-11", "2026-02-30", "0000-00-00", "2026-11-20 09:30:00",
    "2026-11-20 9:3", "2026-11-20T09:30:15.1234567", "2026-11-20 25:00:00", "12.345", "-0.005", "0.1", "4 5", "é",
]  # fmt: skip
MOMENTS = [datetime(1970, 1, 1), datetime(2026, 11, 20, 9, 30, 15, 250000), datetime(1, 1, 1), datetime(9999, 12, 31)]
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [value for value in NUMBERS if -(2**7) <= value < 2**7],
    "smallint": [value for value in NUMBERS if -(2**15) <= value < 2**15],
    "int": [value for value in NUMBERS if -(2**31) <= value < 2**31],
    "bigint": NUMBERS,
    "float": [value for value in FLOATS if 1e-30 < abs(value) < 1e8 or not value],  # of larger ones Java has an opinion
    "double": FLOATS,
    "decimal(10,2)": [Decimal(text) for text in DECIMALS if Decimal(text) == round(Decimal(text), 2)],
    "decimal(10,4)": [Decimal(text) for text in DECIMALS if abs(Decimal(text)) < 10**6],
    "decimal(38,10)": [*map(Decimal, DECIMALS), Decimal(2**70), Decimal("1e-10")],
    "decimal(20,0)": [*map(Decimal, NUMBERS)],
    "date": [date(1970, 1, 1), date(2026, 11, 20), date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [moment.replace(tzinfo=UTC) for moment in MOMENTS],
    "timestamp_ntz": [*MOMENTS, datetime(2026, 11, 20)],
    "string": TEXTS,
    "binary": [b"", b"abc", "é".encode(), b"\xff\x00", b"\xed\xa0\x80"],
    "array<string>": [[], ["a", None, "b"]],
    "array<binary>": [[], [b"\x01", None, b"\xff"]],
}


@pytest.mark.parametrize("old", VALUES)
def test_every_type_becomes_every_other_as_with_spark(spark: SparkSession, old: str) -> None:
    values = pa.array([None, *VALUES[old]], arrow_type(old))
    stored = spark.createDataFrame(pa.table({"value": values})).select(f.col("value").cast(spark_type(old)))
    columns: list[Any] = []
    for place, new in enumerate(VALUES):
        theirs, texts = convert(f.col("value"), old, new)
        columns += [
            theirs.alias(f"v{place}"),
            (f.lit(None) if texts is None else texts).cast("string").alias(f"t{place}"),
        ]
    expected = stored.select(*columns).toArrow()
    for place, new in enumerate(VALUES):
        ours, texts = converted(values, old, new)
        assert ours.type == arrow_type(new)
        theirs = expected[f"v{place}"].combine_chunks().cast(arrow_type(new))
        assert (new, ours.to_pylist()) == (new, theirs.to_pylist())
        assert (new, texts.to_pylist()) == (new, expected[f"t{place}"].to_pylist())


def test_generations_are_read_as_changes_reads_them(spark: SparkSession, lake: MadeLake) -> None:
    """Through a file whose column is narrower than its generation's, and a text column of its own."""
    orders = "shop.orders"
    key = ["id"]
    lake.define(orders, {"id": "int", "a": "float", "b": "string", "day": "date", "day__text": "string"}, key)
    lake.insert(orders, {"id": 1, "a": 0.1, "b": "12", "day": date(2026, 1, 2)})
    lake.insert(orders, {"id": 2, "b": "no number", "day__text": "0000-00-00"})
    lake.commit()
    lake.define(orders, {"id": "int", "a": "double", "b": "string", "day": "date", "day__text": "string"}, key)
    lake.insert(orders, {"id": 3, "a": 1e10, "b": "13", "day": date(2026, 1, 3)})
    lake.commit()
    lake.define(orders, {"id": "bigint", "a": "string", "b": "int", "day": "int"}, key, new_generation=True)
    lake.insert(orders, {"id": 2**40, "a": "x", "b": 14, "day": 5})
    lake.commit()
    frame = spark.read.format("relay").options(lake=lake.url, table=orders).load()
    theirs = relay.spark.changes(spark, lake.url, orders)
    assert frame.schema == theirs.schema
    columns = ["id", "a", "b", "b__text", "day", "day__text"]

    def rows(of: DataFrame) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in of.orderBy("id").select(*columns).collect()]

    assert (
        rows(frame)
        == rows(theirs)
        == [
            (1, "0.10000000149011612", 12, None, None, "2026-01-02"),
            (2, None, None, "no number", None, "0000-00-00"),
            (3, "1.0E10", 13, None, None, "2026-01-03"),
            (2**40, "x", 14, None, 5, None),
        ]
    )
