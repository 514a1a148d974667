"""Merging updates versions by what changed, keeps unchanged data, and deletes what no reader uses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from relay.errors import RelayError, StopCode
from relay.lake import paths
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.lake.tables import open_log
from relay.spark import current, pointer, reading
from relay.spark import merge as merging
from relay.spark.current import basis_of
from relay.spark.merge import merge
from relay.spark.pointer import Pointer
from relay.spark.vacuum import vacuum
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, merged, ordered, orders, state, table_of
from tests.support.waiting import patience

TABLE = table_of(ORDERS)
BUCKETS = 4


@pytest.fixture
def shop(lake: MadeLake) -> MadeLake:
    """A lake with a table of a hundred rows."""
    return orders(lake, *({"id": number, "item": f"item {number}"} for number in range(100)))


def newest(lake: MadeLake) -> Pointer:
    """The version that counts."""
    found = pointer.newest(open_storage(lake.url), TABLE)
    assert found is not None
    return found


def bucketed(spark: SparkSession, lake: MadeLake) -> Pointer:
    """Merge into BUCKETS buckets."""
    size = sum(file.bytes for table in open_log(lake.url).state().tables.values() for file in table.files.values())
    merged(spark, lake, bucket_bytes=-(-size // BUCKETS))
    return newest(lake)


def touch(lake: MadeLake, *numbers: int) -> None:
    """Change rows."""
    for number in numbers:
        lake.update(ORDERS, {"id": number, "item": f"item {number}"}, {"id": number, "item": "touched"})
    lake.commit()


def test_only_buckets_with_changes_are_written_anew(spark: SparkSession, shop: MadeLake) -> None:
    first = bucketed(spark, shop)
    assert (first.buckets, first.rows, {file.bucket for file in first.files}) == (BUCKETS, 100, {*range(BUCKETS)})
    touch(shop, 7)
    said = merged(spark, shop, bucket_bytes=first.bytes // BUCKETS)
    assert said.startswith("version 2 has 100 rows: 2 rows of changes merged into 1 of 4 buckets")
    second = newest(shop)
    assert len({file.path for file in first.files} & {file.path for file in second.files}) == BUCKETS - 1
    assert [row["item"] for row in state(spark, shop) if row["id"] == 7] == ["touched"]
    assert len(state(spark, shop)) == 100


def test_few_changes_are_kept_beside_the_buckets_until_they_are_many(
    spark: SparkSession, shop: MadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bucketed(spark, shop)
    size = first.bytes // BUCKETS
    monkeypatch.setattr(merging, "RECENT_SHARE", 10)
    touch(shop, 7)
    shop.update(ORDERS, {"id": 8, "item": "item 8"}, {"id": 200, "item": "moved"})
    shop.delete(ORDERS, {"id": 9, "item": "item 9"})
    shop.commit()
    said = merged(spark, shop, bucket_bytes=size)
    assert said == "version 2 has 100 rows in 4 buckets and 4 beside them: 5 rows of changes merged"
    second = newest(shop)
    assert second.files == first.files
    rows = {row["id"]: row["item"] for row in state(spark, shop)}
    assert len(rows) == 99 and (rows[7], rows[200]) == ("touched", "moved") and not rows.keys() & {8, 9}

    shop.delete(ORDERS, {"id": 200, "item": "moved"})
    shop.insert(ORDERS, {"id": 9, "item": "again"})
    shop.commit()
    assert {"id": 9, "item": "again"} in state(spark, shop)
    merged(spark, shop, bucket_bytes=size)
    assert newest(shop).files == first.files
    rows = {row["id"]: row["item"] for row in state(spark, shop)}
    assert len(rows) == 99 and rows[9] == "again" and not rows.keys() & {8, 200}
    assert vacuum(open_storage(shop.url), TABLE, grace=0) == [second.folder]

    monkeypatch.setattr(merging, "RECENT_SHARE", 0)
    touch(shop, 11)
    before = state(spark, shop)
    merged(spark, shop, bucket_bytes=size)
    assert newest(shop).recent == [] and newest(shop).rows == 99
    assert state(spark, shop) == before


def test_a_merge_reads_only_what_came_since_the_last(spark: SparkSession, shop: MadeLake) -> None:
    merged(spark, shop)
    for file in open_log(shop.url).state().tables[paths.table_key(TABLE)].files.values():
        (shop.root / file.path).unlink()
    touch(shop, 7)
    assert merged(spark, shop).startswith("version 2 has 100 rows: 2 rows of changes")
    assert merged(spark, shop) == "nothing new, version 2 stays"
    assert len(state(spark, shop)) == 100


def test_a_table_that_grew_gets_more_buckets_and_one_that_shrank_fewer(spark: SparkSession, shop: MadeLake) -> None:
    merged(spark, shop)
    size = newest(shop).bytes
    touch(shop, 7)
    merged(spark, shop, bucket_bytes=-(-size // 8))
    assert newest(shop).buckets == 8
    touch(shop, 8)
    merged(spark, shop)
    assert newest(shop).buckets == 1
    assert sorted(row["id"] for row in state(spark, shop)) == [*range(100)]


def test_rows_of_a_later_snapshot_count_though_changes_were_merged(spark: SparkSession, shop: MadeLake) -> None:
    merged(spark, shop)
    shop.snapshot(ORDERS, {"id": 7, "item": "as read"})
    shop.commit()
    assert merged(spark, shop).startswith("version 2 has 100 rows: 102 rows from the beginning")
    assert [row["item"] for row in state(spark, shop) if row["id"] == 7] == ["as read"]


def test_versions_stay_for_a_grace_and_then_go(spark: SparkSession, shop: MadeLake) -> None:
    first = bucketed(spark, shop)
    reader = current(spark, shop.url, ORDERS)
    touch(shop, 7)
    merged(spark, shop, bucket_bytes=first.bytes // BUCKETS)
    assert reader.count() == 100
    assert vacuum(open_storage(shop.url), TABLE, grace=3600) == []
    (gone,) = vacuum(open_storage(shop.url), TABLE, grace=0)
    (replaced,) = {file.path for file in first.files} - {file.path for file in newest(shop).files}
    assert gone == replaced.rpartition("/")[0]
    assert not (shop.root / gone).exists()
    assert pointer.numbers(open_storage(shop.url), TABLE) == [2]
    assert len(state(spark, shop)) == 100


def test_what_a_kill_left_goes_with_the_next_version(spark: SparkSession, shop: MadeLake) -> None:
    folder = paths.table_folder(TABLE, paths.CURRENT)
    for number in (1, 2):
        left = shop.root / folder / f"ver-{number}-0123" / "bucket=0" / "part-0.parquet"
        left.parent.mkdir(parents=True)
        left.write_bytes(b"half a file")
    merged(spark, shop)
    assert sorted(path.name.split("-")[1] for path in (shop.root / folder).glob("ver-*")) == ["1", "2"]
    assert not list((shop.root / folder).glob("ver-1-0123"))
    touch(shop, 7)
    merged(spark, shop)
    assert not list((shop.root / folder).glob("ver-2-0123"))


def test_of_two_who_merge_at_once_one_wins_and_the_other_goes_on_from_there(
    spark: SparkSession, shop: MadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, create = open_log(shop.url), type(open_storage(shop.url)).create
    both = threading.Barrier(2)
    said: list[str] = []

    def create_at_once(storage: Any, name: str, data: bytes) -> bool:
        if name.endswith("1.json"):
            both.wait(timeout=patience(60))
        return create(storage, name, data)

    monkeypatch.setattr(type(log.storage), "create", create_at_once)
    others = [threading.Thread(target=lambda: said.append(merged(spark, shop))) for _ in range(2)]
    for each in others:
        each.start()
    for each in others:
        each.join()
    assert sorted(said) == [
        "nothing new, version 1 stays",
        "version 1 has 100 rows: 101 rows from the beginning merged into 1 of 1 bucket",
    ]
    assert len(list((shop.root / paths.table_folder(TABLE, paths.CURRENT)).glob("ver-1-*"))) == 1
    assert len(state(spark, shop)) == 100


def test_who_is_always_too_late_says_so(spark: SparkSession, shop: MadeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(shop.url)
    publish = pointer.publish

    def overtaken(storage: Any, mine: Pointer) -> bool:
        assert publish(storage, msgspec.structs.replace(mine, id="another", applied=mine.applied - 1, files=[]))
        return publish(storage, mine)

    monkeypatch.setattr(pointer, "publish", overtaken)
    with pytest.raises(RelayError, match="other jobs published a version first, 3 times in a row") as late:
        merge(spark, log, TABLE)
    assert late.value.code is StopCode.LAKE_CONFLICT


def test_a_reader_whose_log_is_behind_a_merge_catches_up(spark: SparkSession, shop: MadeLake) -> None:
    late = open_log(shop.url)
    late.state()
    touch(shop, 7)
    merged(spark, shop)
    basis = basis_of(late, TABLE)
    assert basis.merged == newest(shop)
    assert not basis.changes


def test_a_version_of_another_release_is_not_taken_for_one_of_this(spark: SparkSession, shop: MadeLake) -> None:
    merged(spark, shop)
    path = shop.root / pointer.path(TABLE, 1)
    whole = path.read_bytes()
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(whole) | {"format": 99}))
    with pytest.raises(RelayError, match="it is of format 99, this release knows up to 2"):
        current(spark, shop.url, ORDERS)
    for damage in (whole[:-20], whole.replace(b"shop", b"sh\xffp")):
        path.write_bytes(damage)
        with pytest.raises(RelayError) as damaged:
            merge(spark, LakeLog(open_storage(shop.url)), TABLE)
        assert damaged.value.code is StopCode.LAKE_DAMAGED


class History:
    """A random life of a table of two key columns, and what it must hold."""

    def __init__(self, lake: MadeLake, seed: int) -> None:
        self.lake = lake
        self.chance = Random(seed)
        self.rows: dict[tuple[int, str], dict[str, Any]] = {}
        lake.define(ORDERS, {"a": "int", "b": "string", "n": "int"}, key=["a", "b"])
        lake.mark(ORDERS, "create")

    def step(self) -> None:
        """One statement, or the marker of one."""
        acts: list[Callable[[], None]] = [self.insert] * 8 + [self.update] * 8 + [self.delete] * 4 + [self.empty]
        self.chance.choice(acts)()

    def fresh(self) -> dict[str, Any]:
        """A row whose key may be taken."""
        return {"a": self.chance.randrange(8), "b": self.chance.choice("xyz"), "n": self.chance.randrange(1000)}

    def insert(self) -> None:
        """A row, unless there is one with its key."""
        row = self.fresh()
        if (row["a"], row["b"]) not in self.rows:
            self.lake.insert(ORDERS, row)
            self.rows[row["a"], row["b"]] = row

    def update(self) -> None:
        """Of a row, its key too if the new one is free."""
        if self.rows:
            key, after = self.chance.choice(sorted(self.rows)), self.fresh()
            if (after["a"], after["b"]) in self.rows:
                after |= {"a": key[0], "b": key[1]}
            self.lake.update(ORDERS, self.rows.pop(key), after)
            self.rows[after["a"], after["b"]] = after

    def delete(self) -> None:
        """Of a row."""
        if self.rows:
            self.lake.delete(ORDERS, self.rows.pop(self.chance.choice(sorted(self.rows))))

    def empty(self) -> None:
        """TRUNCATE, or an ALTER after which all rows are read again."""
        if self.chance.random() < 0.5:
            self.lake.mark(ORDERS, "truncate")
            self.rows.clear()
        else:
            self.lake.commit()
            self.lake.mark(ORDERS, "reset")
            self.lake.commit()
            for row in self.rows.values():
                row["n"] += 1
            self.lake.snapshot(ORDERS, *self.rows.values())
            self.lake.commit()
            self.lake.commit()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_merging_step_by_step_gives_what_all_of_a_random_history_gives(
    seed: int, spark: SparkSession, lake: MadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(lake, seed)
    for _ in range(4):
        monkeypatch.setattr(merging, "RECENT_SHARE", history.chance.choice((0, 1 << 20)))
        monkeypatch.setattr(reading, "MOST_BYTES", history.chance.choice((0, 1 << 20)))
        for _ in range(history.chance.randrange(1, 40)):
            history.step()
        lake.commit()
        merged(spark, lake, bucket_bytes=1000)
        for _ in range(history.chance.randrange(10)):
            history.step()
        lake.commit()
        assert state(spark, lake) == ordered(history.rows.values())
    stepwise = state(spark, lake)
    for name in pointer.numbers(open_storage(lake.url), TABLE):
        (lake.root / pointer.path(TABLE, name)).unlink()
    assert state(spark, lake) == stepwise
