"""`changes` returns every change of a table as one table, however its columns changed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from relay.lake.documents import Commit, ExportPosition, Field, Marker
from relay.lake.types import META_FIELDS
from relay.spark import changes, current
from relay.spark.schema import convert, spark_type, struct_type
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, merged, table_of

META = [field.name for field in META_FIELDS]


def values(spark: SparkSession, lake: MadeLake, *names: str, **bounds: int) -> list[tuple[Any, ...]]:
    """Columns of all changes, in their order."""
    return [tuple(row) for row in changes(spark, lake.url, ORDERS, **bounds).orderBy("_seq").select(*names).collect()]


def test_a_change_is_a_row_with_what_is_known_of_it(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "day": "date", "day__text": "string"}, key=["id"])
    lake.mark(ORDERS, "create")
    lake.insert(ORDERS, {"id": 1, "day": date(2026, 11, 20)})
    lake.commit()
    rows = changes(spark, lake.url, ORDERS)
    assert rows.columns == ["id", "day", *META]
    created, inserted = rows.orderBy("_seq").collect()
    assert (created["_change_type"], created["id"]) == ("create", None)
    assert inserted.asDict() == {
        "id": 1, "day": date(2026, 11, 20), "_change_type": "insert", "_commit_version": 2,
        "_commit_timestamp": inserted["_commit_timestamp"], "_seq": 2, "_file": "binlog.000001", "_pos": 204,
        "_gtid": "", "_schema_version": 1,
    }  # fmt: skip
    assert inserted["_commit_timestamp"].astimezone(UTC) == datetime.fromtimestamp(lake.clock, UTC)


def test_a_side_column_is_there_once_it_has_a_value(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "day": "date", "day__text": "string"}, key=["id"])
    lake.insert(ORDERS, {"id": 1, "day": date(2026, 11, 20)})
    lake.commit()
    lake.insert(ORDERS, {"id": 2, "day__text": "0000-00-00"})
    lake.commit()
    assert values(spark, lake, "id", "day", "day__text") == [
        (1, date(2026, 11, 20), None),
        (2, None, "0000-00-00"),
    ]


def test_bounds_leave_out_rows_and_files(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int"}, key=["id"])
    for first in (1, 4, 7):
        lake.insert(ORDERS, *({"id": first + more} for more in range(3)))
        lake.commit()
    assert values(spark, lake, "_seq", since=2, until=5) == [(3,), (4,), (5,)]
    assert values(spark, lake, "_seq", since=8) == [(9,)]
    assert len(changes(spark, lake.url, ORDERS, since=3, until=6).inputFiles()) == 1
    assert values(spark, lake, "_seq", since=9) == []
    assert changes(spark, lake.url, ORDERS, since=9).columns == ["id", *META]


def test_only_files_that_a_commit_names_are_read(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int"}, key=["id"])
    lake.insert(ORDERS, {"id": 1})
    file = lake.root / lake.commit().add[0].path
    file.with_stem("part-left-by-a-kill").write_bytes(file.read_bytes())
    file.with_name(".part-under-way.parquet.1.ab").write_bytes(b"half")
    assert values(spark, lake, "id") == [(1,)]


def test_a_file_that_is_gone_is_an_error_whatever_the_session_ignores(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int"}, key=["id"])
    lake.insert(ORDERS, {"id": 1})
    commits = [lake.commit()]
    lake.insert(ORDERS, {"id": 2})
    commits.append(lake.commit())
    rows = changes(spark, lake.url, ORDERS)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        (lake.root / commits[0].add[0].path).unlink()
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
            rows.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_widened_and_dropped_columns_are_one_with_the_newest_type(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "n": "decimal(10,2)", "gone": "string"}, key=["id"])
    lake.insert(ORDERS, {"id": 1, "n": Decimal("1.50"), "gone": "x"})
    lake.commit()
    lake.define(ORDERS, {"id": "bigint", "n": "decimal(11,2)", "new": "float"}, key=["id"])
    lake.insert(ORDERS, {"id": 2**40, "n": Decimal("123456789.12"), "new": 0.5})
    lake.commit()
    rows = changes(spark, lake.url, ORDERS)
    assert rows.drop(*META).schema == struct_type(
        [
            Field("id", "bigint", ""),
            Field("n", "decimal(11,2)", ""),
            Field("new", "float", ""),
            Field("gone", "string", ""),
        ]
    )
    assert values(spark, lake, "id", "n", "new", "gone") == [
        (1, Decimal("1.50"), None, "x"),
        (2**40, Decimal("123456789.12"), 0.5, None),
    ]


def test_what_the_newest_type_cannot_hold_is_kept_as_text(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "size": "string", "code": "int"}, key=["id"])
    lake.insert(ORDERS, {"id": 1, "size": "large", "code": 7}, {"id": 2, "size": "12", "code": None})
    lake.commit()
    lake.define(ORDERS, {"id": "int", "size": "int", "code": "string"}, key=["id"], new_generation=True)
    lake.insert(ORDERS, {"id": 3, "size": 3, "code": "x"})
    lake.commit()
    assert values(spark, lake, "id", "size", "size__text", "code") == [
        (1, None, "large", "7"),
        (2, 12, None, None),
        (3, 3, None, "x"),
    ]


ZONED = datetime(2026, 3, 8, 7, 30, 0, 123456, tzinfo=UTC)  # half past two in New York, which that day has not
NAIVE = ZONED.replace(tzinfo=None)
CONVERSIONS: list[tuple[str, str, Any, Any, str | None]] = [
    ("int", "tinyint", 300, None, "300"),
    ("int", "tinyint", 30, 30, None),
    ("double", "int", 1.5, None, "1.5"),
    ("double", "decimal(5,1)", 1.5, Decimal("1.5"), None),
    ("decimal(10,2)", "decimal(10,1)", Decimal("1.25"), None, "1.25"),
    ("decimal(10,2)", "decimal(3,1)", Decimal("1.20"), Decimal("1.2"), None),
    ("boolean", "tinyint", True, 1, None),
    ("boolean", "string", True, "1", None),
    ("string", "decimal(4,1)", "abc", None, "abc"),
    ("string", "date", "2026-11-20", date(2026, 11, 20), None),
    ("string", "timestamp_ntz", "2026-03-08 02:30:00", datetime(2026, 3, 8, 2, 30), None),
    ("string", "timestamp", "2026-03-08 07:30:00.123456", ZONED, None),
    ("string", "binary", "ü", "ü".encode(), None),
    ("binary", "string", b"\xff", None, "FF"),
    ("binary", "string", b"ok", "ok", None),
    ("timestamp", "timestamp_ntz", ZONED, NAIVE, None),
    ("timestamp_ntz", "timestamp", NAIVE, ZONED, None),
    ("timestamp", "string", ZONED, "2026-03-08 07:30:00.123456", None),
    ("timestamp_ntz", "date", NAIVE, None, "2026-03-08 07:30:00.123456"),
    ("timestamp_ntz", "date", datetime(1000, 1, 1), date(1000, 1, 1), None),
    ("date", "timestamp_ntz", date(1, 1, 1), datetime(1, 1, 1), None),
    ("date", "int", date(2026, 11, 20), None, "2026-11-20"),
    ("array<string>", "string", ["a", "b"], "a,b", None),
    ("array<binary>", "int", [b"\xff", b"a"], None, "FF,61"),
    ("binary", "boolean", b"\x01", None, "01"),
]


def test_conversions_lose_nothing_whatever_the_zone(spark: SparkSession) -> None:
    fields = [Field(f"c{number}", case[0], "") for number, case in enumerate(CONVERSIONS)]
    given = spark.createDataFrame([[case[2] for case in CONVERSIONS], [None] * len(CONVERSIONS)], struct_type(fields))
    columns = []
    for field, (old, new, *_) in zip(fields, CONVERSIONS, strict=True):
        converted, lost = convert(f.col(field.name), old, new)
        columns += [converted.alias(field.name), (f.lit(None) if lost is None else lost).alias(f"{field.name}_text")]
    rows = given.select(*columns)
    found, null = rows.collect()
    for field, (old, new, value, expected, text) in zip(fields, CONVERSIONS, strict=True):
        got = found[field.name]
        got = got.astimezone(UTC) if new == "timestamp" else bytes(got) if isinstance(got, bytearray) else got
        assert (got, found[f"{field.name}_text"]) == (expected, text), f"{value!r}: {old} as {new}"
        assert rows.schema[field.name].dataType == spark_type(new)
    assert set(null) == {None}


def test_a_table_of_which_only_its_creation_is_known_has_no_columns_yet(spark: SparkSession, lake: MadeLake) -> None:
    place = ExportPosition(1, 0, 164, 1, "binlog.000001", 104, "", "made", lake.clock)
    created = Marker(table_of(ORDERS), "create", 1, lake.clock, "CREATE TABLE orders (id INT PRIMARY KEY)")
    lake.write(Commit(number=1, writer="export", at=float(lake.clock), place=place, markers=[created]))
    assert changes(spark, lake.url, ORDERS).columns == META
    assert current(spark, lake.url, ORDERS).columns == []
    assert merged(spark, lake) == "skipped: its columns are unknown before its first row"


def test_types_of_all_fields_are_known(spark: SparkSession) -> None:
    assert spark_type("decimal(38,10)") == t.DecimalType(38, 10)
    assert struct_type(META_FIELDS).simpleString() == (
        "struct<_change_type:string,_commit_version:bigint,_commit_timestamp:timestamp,_seq:bigint,_file:string,"
        "_pos:bigint,_gtid:string,_schema_version:int>"
    )
