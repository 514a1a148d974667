"""The state of a table equals its history, from changes alone and from merged versions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import relay.lake
from relay.errors import ErrorCode, RelayError
from relay.lake.documents import Table
from relay.lake.moments import Moment
from relay.lake.tables import find_table, open_log
from relay.spark import changes, current, reading
from relay.spark.reading import MANY
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, check, merged, ordered, orders, state


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with one table, empty so far."""
    return orders(lake)


def test_inserts_updates_and_deletes_make_the_state(spark: SparkSession, shop: MadeLake) -> None:
    shop.insert(ORDERS, {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"}, {"id": 3, "item": None})
    shop.update(ORDERS, {"id": 1, "item": "pen"}, {"id": 1, "item": "pencil"})
    shop.delete(ORDERS, {"id": 2, "item": "ink"})
    shop.commit()
    check(spark, shop, [{"id": 1, "item": "pencil"}, {"id": 3, "item": None}])
    shop.insert(ORDERS, {"id": 2, "item": "ink again"})
    shop.delete(ORDERS, {"id": 3, "item": None})
    shop.commit()
    check(spark, shop, [{"id": 1, "item": "pencil"}, {"id": 2, "item": "ink again"}])


def test_a_changed_key_leaves_nothing_at_the_old_one(spark: SparkSession, shop: MadeLake) -> None:
    shop.insert(ORDERS, {"id": 1, "item": "a"}, {"id": 2, "item": "b"})
    shop.commit()
    merged(spark, shop)
    # As UPDATE ... SET id = id + 1 ORDER BY id DESC does it: each row moves to where another was.
    shop.update(ORDERS, {"id": 2, "item": "b"}, {"id": 3, "item": "b"})
    shop.update(ORDERS, {"id": 1, "item": "a"}, {"id": 2, "item": "a"})
    shop.commit()
    check(spark, shop, [{"id": 2, "item": "a"}, {"id": 3, "item": "b"}])


def test_markers_take_what_was_before_them(spark: SparkSession, shop: MadeLake) -> None:
    shop.insert(ORDERS, {"id": 1, "item": "a"})
    shop.commit()
    merged(spark, shop)
    shop.mark(ORDERS, "truncate")
    shop.insert(ORDERS, {"id": 2, "item": "b"})
    shop.commit()
    check(spark, shop, [{"id": 2, "item": "b"}])
    shop.mark(ORDERS, "drop")
    shop.commit()
    check(spark, shop, [])
    shop.mark(ORDERS, "create")
    shop.insert(ORDERS, {"id": 1, "item": "c"})
    shop.commit()
    check(spark, shop, [{"id": 1, "item": "c"}])


def test_rows_of_a_snapshot_lie_between_the_changes_before_and_after_it(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    lake.update(ORDERS, {"id": 1, "item": "older"}, {"id": 1, "item": "old"})
    lake.delete(ORDERS, {"id": 2, "item": "gone before it was read"})
    lake.insert(ORDERS, {"id": 3, "item": "seen by the change"})
    lake.commit()
    # At the number of the last change: the row was read after it.
    lake.snapshot(ORDERS, {"id": 1, "item": "read"}, {"id": 3, "item": "read"}, {"id": 4, "item": "read"}, {"id": 5})
    lake.commit()
    lake.update(ORDERS, {"id": 4, "item": "read"}, {"id": 4, "item": "changed"})
    lake.delete(ORDERS, {"id": 5, "item": None})
    lake.commit()
    check(spark, lake, [{"id": 1, "item": "read"}, {"id": 3, "item": "read"}, {"id": 4, "item": "changed"}])


def test_a_table_whose_rows_were_never_known_has_no_state(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int"}, key=["id"])
    lake.insert(ORDERS, {"id": 1})
    lake.commit()
    with pytest.raises(RelayError, match="rows from before the export") as refused:
        current(spark, lake.url, ORDERS)
    assert refused.value.code is ErrorCode.USAGE
    assert "relay snapshot" in refused.value.hint
    assert merged(spark, lake) == "skipped: its rows are unknown until `relay snapshot` has run"


def test_after_a_reset_the_state_stays_until_a_snapshot_is_done(spark: SparkSession, shop: MadeLake) -> None:
    shop.insert(ORDERS, {"id": 1, "item": "1"}, {"id": 2, "item": "2"})
    shop.commit()
    merged(spark, shop)
    shop.delete(ORDERS, {"id": 2, "item": "2"})
    shop.commit()
    shop.mark(ORDERS, "reset")
    shop.commit()
    shop.define(ORDERS, {"id": "int", "item": "int"}, key=["id"], new_generation=True)
    shop.insert(ORDERS, {"id": 3, "item": 3})
    shop.commit()
    shop.snapshot(ORDERS, {"id": 1, "item": 1}, after=["1"])
    shop.commit()
    with pytest.warns(UserWarning, match=r"shop\.orders: its rows after \d+ are not known yet"):
        assert state(spark, shop) == [{"id": 1, "item": "1"}]
    assert merged(spark, shop).startswith("skipped")
    shop.snapshot(ORDERS, {"id": 3, "item": 3})
    shop.commit()
    shop.commit()  # the export passes the end of the snapshot
    check(spark, shop, [{"id": 1, "item": 1}, {"id": 3, "item": 3}])


def test_keys_without_a_value_of_their_type_are_told_apart_by_their_text(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(
        ORDERS, {"day": "date", "name": "string", "n": "int", "day__text": "string", "name__raw": "binary"},
        key=["day", "name"],
    )  # fmt: skip
    lake.mark(ORDERS, "create")
    zero = {"day": None, "day__text": "0000-00-00", "name": "?", "name__raw": b"\xff", "n": 1}
    partial = zero | {"day__text": "2026-11-00"}
    other = zero | {"name__raw": b"\xfe"}
    plain = {"day": date(1000, 1, 1), "day__text": None, "name": "?", "name__raw": None, "n": 4}
    lake.insert(ORDERS, zero, partial, other, plain)
    lake.commit()
    check(spark, lake, [zero, partial, other, plain])
    lake.update(ORDERS, partial, partial | {"n": 2})
    lake.delete(ORDERS, zero)
    lake.commit()
    check(spark, lake, [partial | {"n": 2}, other, plain])


def test_columns_follow_the_newest_version(spark: SparkSession, shop: MadeLake) -> None:
    shop.insert(ORDERS, {"id": 1, "item": "pen"})
    shop.commit()
    merged(spark, shop)
    shop.define(ORDERS, {"id": "bigint", "item": "string", "note": "string"}, key=["id"])
    shop.insert(ORDERS, {"id": 2**40, "item": "ink", "note": "new"})
    shop.commit()
    check(spark, shop, [{"id": 1, "item": "pen", "note": None}, {"id": 2**40, "item": "ink", "note": "new"}])
    shop.define(ORDERS, {"id": "bigint", "note": "string"}, key=["id"])
    shop.update(ORDERS, {"id": 1, "note": None}, {"id": 1, "note": "x"})
    shop.commit()
    check(spark, shop, [{"id": 1, "note": "x"}, {"id": 2**40, "note": "new"}])


def test_another_key_tells_rows_apart_from_then_on(spark: SparkSession, shop: MadeLake) -> None:
    shop.insert(ORDERS, {"id": 1, "item": "a"})
    shop.commit()
    merged(spark, shop)
    shop.mark(ORDERS, "reset")
    shop.commit()
    shop.define(ORDERS, {"id": "int", "item": "string"}, key=["id", "item"])
    shop.insert(ORDERS, {"id": 1, "item": "b"})
    shop.commit()
    shop.snapshot(ORDERS, {"id": 1, "item": "a"}, {"id": 1, "item": "b"})
    shop.commit()
    shop.commit()
    check(spark, shop, [{"id": 1, "item": "a"}, {"id": 1, "item": "b"}])


def test_names_may_be_of_any_characters(spark: SparkSession, lake: MadeLake) -> None:
    table = Table("s%20 [x]", "0012 ü*?{a,b}=/\\.\"`'#")
    columns = {
        "a.b": "int",
        "`tick` ,;{}()\n\t=": "string",
        "_last": "int",
        "bucket": "int",
        "ü": "int",
        "cdc_date_": "int",
    }
    lake.define(str(table), columns, key=["a.b", "_last"])
    row = dict.fromkeys(columns, 1) | {"`tick` ,;{}()\n\t=": "x"}
    lake.mark(str(table), "create")
    lake.insert(str(table), row, row | {"_last": 2})
    lake.commit()
    check(spark, lake, [row, row | {"_last": 2}], str(table))
    lake.delete(str(table), row)
    lake.commit()
    check(spark, lake, [row | {"_last": 2}], str(table))


def test_a_table_without_a_key_is_all_that_happened_to_it(spark: SparkSession, lake: MadeLake) -> None:
    lake.define("shop.log", {"line": "string"})
    lake.insert("shop.log", {"line": "a"}, {"line": "a"})
    lake.delete("shop.log", {"line": "a"})
    lake.commit()
    rows = current(spark, lake.url, "shop.log").orderBy("_seq").select("line", "_change_type").collect()
    assert [tuple(row) for row in rows] == [("a", "insert"), ("a", "insert"), ("a", "delete")]
    assert merged(spark, lake, "shop.log").startswith("skipped: it has no primary key")


def test_a_table_without_rows_is_empty(spark: SparkSession, lake: MadeLake) -> None:
    lake.define(ORDERS, {"id": "int", "at": "timestamp", "tags": "array<string>"}, key=["id"])
    lake.mark(ORDERS, "create")
    lake.commit()
    check(spark, lake, [])


def test_earlier_states_equal_those_without_spark(spark: SparkSession, shop: MadeLake) -> None:
    shop.define("shop.log", {"line": "string"})
    shop.mark("shop.log", "create")
    begin = shop.clock
    for number, seconds in enumerate((10, 30, 20, 40)):  # the clock goes back
        shop.clock, shop.gtid = begin + seconds, f"0-1-{number}"
        shop.transaction(ORDERS, {"id": number, "item": "a"})
        shop.update(ORDERS, {"id": 0, "item": "a"}, {"id": 0, "item": f"at {seconds}"})
        shop.insert("shop.log", {"line": f"{number}"})
        shop.commit()
        if number == 1:
            merged(spark, shop)
    moments: list[Moment] = [
        4,
        7,
        "0-1-0",
        "0-1-2",
        *(datetime.fromtimestamp(begin + each, UTC) for each in (15, 25, 30, 40)),
    ]
    for moment in moments:
        found = current(spark, shop.url, ORDERS, moment).orderBy("id").toArrow()
        expected = relay.lake.current(shop.url, ORDERS, as_of=moment).read_all().sort_by("id")
        assert found.cast(expected.schema).equals(expected), moment
    lines = current(spark, shop.url, "shop.log", "0-1-1").where("_change_type = 'insert'")
    assert [tuple(row) for row in lines.orderBy("_seq").select("line").collect()] == [("0",), ("1",)]
    assert changes(spark, shop.url, "shop.log", "0-1-1", datetime.fromtimestamp(begin + 30, UTC)).count() == 1
    for table in (ORDERS, "shop.log"):
        with pytest.raises(RelayError, match="the lake ends at"):
            current(spark, shop.url, table, 1000)


def test_pandas_takes_the_reader_without_spark(lake: MadeLake) -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "item": "pen"}, {"id": 2, "item": None}]
    frame = relay.lake.current(orders(lake, *rows).url, ORDERS).read_pandas()
    assert ordered(frame.to_dict("records")) == rows


def test_an_unknown_table_is_refused_with_those_there_are(spark: SparkSession, shop: MadeLake) -> None:
    with pytest.raises(RelayError, match=r"the lake has no table shop\.order") as refused:
        current(spark, shop.url, "shop.order")
    assert refused.value.hint == "it has shop.orders"


def test_many_small_files_are_read_in_few_tasks_beside_large_ones_and_settings_stay(
    spark: SparkSession, shop: MadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": number, "item": f"item {number} {'x' * (number % 7 * 500)}"} for number in range(MANY + 10)]
    for row in rows:
        shop.insert(ORDERS, row)
        shop.commit()
    listing = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    spark.conf.set(listing, "77")
    try:
        assert state(spark, shop) == ordered(rows)
        assert changes(spark, shop.url, ORDERS).inputFiles() == []
        found = find_table(open_log(shop.url).state(), ORDERS)
        sizes = [file.bytes for file in found.files.values()]
        monkeypatch.setattr(reading, "SMALL_BYTES", max(sizes))
        monkeypatch.setattr(reading, "MANY", 30)
        assert state(spark, shop) == ordered(rows)
        assert len(changes(spark, shop.url, ORDERS).inputFiles()) == sizes.count(max(sizes))
        assert spark.conf.get(listing) == "77"
    finally:
        spark.conf.unset(listing)
