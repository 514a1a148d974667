"""Merges of open tables, compared with a model: keys, equal rows, columns, resets, kills, and other writers."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import s3fs
from duckdb_extensions import import_extension  # type: ignore[import-untyped]

from relay.base.errors import RelayError, StopCode
from relay.lake.delta import log as delta_log
from relay.lake.delta import merge as delta_merge
from relay.lake.delta import table as delta_table
from relay.lake.delta import vacuum as delta_vacuum
from relay.lake.delta import vectors, windows
from relay.lake.delta.table import Merged, OpenTable, folder_of
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.lake.test_lake_storage import s3, s3_server
from tests.spark.lakes import MadeLake
from tests.support import ROOT
from tests.support.engines import ENGINES, with_deltalake
from tests.support.lake_kill import killed
from tests.support.s3_server import S3Server
from tests.support.waiting import patience

__all__ = ["s3", "s3_server"]

ORDERS = "shop.orders"
DAY = 24 * 3600.0


@pytest.fixture
def lake(tmp_path: Path) -> MadeLake:
    """A lake with the table ORDERS, empty."""
    made = MadeLake(tmp_path / "lake")
    made.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    made.mark(ORDERS, "create")
    made.commit()
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files and windows, and many checkpoints: what large tables have."""
    monkeypatch.setattr(delta_merge, "_LEAST_BYTES", 900)
    monkeypatch.setattr(delta_merge, "TARGET_BYTES", 4000)
    monkeypatch.setattr(delta_log, "CHECKPOINT_COMMITS", 4)
    monkeypatch.setattr(delta_table, "windows", lambda files, start, end: windows.windows(files, start, end, 3000))


def row(number: int, item: str | None) -> dict[str, Any]:
    return {"id": number, "item": item}


def opened(lake: MadeLake, table: str = ORDERS) -> OpenTable:
    return OpenTable(open_storage(lake.url), Table(*table.split(".")))


def merged(lake: MadeLake, table: OpenTable | None = None, name: str = ORDERS) -> Merged | None:
    """Bring a table up to the lake, by default with a new process's view of it."""
    table = table or opened(lake, name)
    state = LakeLog(open_storage(lake.url)).state()
    return table.update(state, state.tables[name])


def path_of(lake: MadeLake, table: str = ORDERS) -> str:
    return str(lake.root / folder_of(Table(*table.split("."))))


def rows(lake: MadeLake, table: str = ORDERS) -> Counter[str]:
    """The rows as another engine reads them."""
    columns = with_deltalake(path_of(lake, table))
    return bag([dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)])


def bag(expected: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, expected))


# Rows


@pytest.mark.parametrize("seed", range(6))
def test_after_each_merge_the_table_has_the_rows_of_the_model(lake: MadeLake, small: None, seed: int) -> None:
    chance = Random(seed)
    model: dict[int, str | None] = {}
    table = opened(lake)
    for turn in range(25):
        for _ in range(chance.choice([1, 20, 60])):
            number = chance.randrange(150)
            if number not in model:
                model[number] = chance.choice([None, f"{lake.seq}"])
                lake.insert(ORDERS, row(number, model[number]))
            elif chance.random() < 0.6:
                before = row(number, model.pop(number))
                after = chance.choice([number, *set(range(150)) - model.keys()])
                model[after] = f"{lake.seq}"
                lake.update(ORDERS, before, row(after, model[after]))
            else:
                lake.delete(ORDERS, row(number, model.pop(number)))
        if chance.random() < 0.1:
            lake.mark(ORDERS, "truncate")
            model = {}
        lake.commit()
        table = table if chance.random() < 0.7 else opened(lake)
        merged(lake, table)
        assert rows(lake) == bag([row(*each) for each in model.items()]), f"turn {turn}"
        assert table.rows == len(model)
    assert len(table.log.files) < 12, "files are compacted"


def test_files_and_written_bytes_stay_in_bounds(lake: MadeLake, small: None) -> None:
    table, chance = opened(lake), Random(1)
    live: dict[int, dict[str, Any]] = {}
    written = changed = 0
    for turn in range(120):
        for number in range(30):
            new = row(turn * 30 + number, f"{chance.getrandbits(64)}")
            live[new["id"]] = new
            lake.insert(ORDERS, new)
        for number in chance.sample(sorted(live), 20):
            new = row(number, f"{chance.getrandbits(64)}")
            lake.update(ORDERS, live[number], new)
            live[number] = new
        add = lake.commit().add
        done = merged(lake, table)
        assert done is not None
        written, changed = written + done.bytes, changed + sum(file.bytes for file in add)
        assert len(table.log.files) <= 2 * table.bytes / delta_merge.TARGET_BYTES + 4 * 4
    assert written < 20 * changed
    assert rows(lake) == bag(list(live.values()))


@pytest.mark.parametrize("seed", range(4))
def test_a_table_without_a_key_is_a_multiset(lake: MadeLake, small: None, seed: int) -> None:
    chance, name = Random(seed), "shop.notes"
    lake.define(name, {"f": "double", "b": "binary", "s": "string", "t": "array<string>"})
    lake.mark(name, "create")
    # Equal in SQL, and different here: the bytes count.
    values = [
        {"f": f, "b": b, "s": s, "t": t}
        for f in (0.0, -0.0, 0.1, None)
        for b in (b"", b"\xff\x00", None)
        for s in ("", "a", "A")
        for t in ([], ["x", "y"])
    ]
    model: Counter[int] = Counter()
    for _ in range(15):
        for _ in range(40):
            at = chance.randrange(len(values))
            if model[at] and chance.random() < 0.5:
                lake.delete(name, values[at])
                model[at] -= 1
            else:
                lake.insert(name, values[at])
                model[at] += 1
        lake.commit()
        merged(lake, name=name)
        assert rows(lake, name) == Counter({repr(values[at]): count for at, count in model.items() if count})


def test_a_row_without_a_key_that_was_deleted_and_is_not_there_stops_the_table(lake: MadeLake) -> None:
    lake.define("shop.notes", {"s": "string"})
    lake.mark("shop.notes", "create")
    lake.insert("shop.notes", {"s": "a"})
    lake.commit()
    merged(lake, name="shop.notes")
    lake.delete("shop.notes", {"s": "b"})
    lake.commit()
    with pytest.raises(RelayError, match="it lacks 1 rows that were deleted") as raised:
        merged(lake, name="shop.notes")
    assert raised.value.code == StopCode.LAKE_DAMAGED
    assert "delete that folder" in raised.value.hint


def test_a_snapshot_of_many_rows_with_one_number_wins_over_earlier_changes(lake: MadeLake, small: None) -> None:
    lake.define("shop.old", {"id": "int", "item": "string"}, key=["id"])
    lake.insert("shop.old", *(row(number, "change") for number in range(0, 400, 2)))
    lake.commit()
    at = lake.seq
    lake.insert("shop.old", row(1000, "later"))
    lake.delete("shop.old", row(3, "snapshot"))
    lake.commit()
    for begin in range(0, 400, 50):
        lake.snapshot("shop.old", *(row(each, "snapshot") for each in range(begin, begin + 50)), seq=at)
        lake.commit()
    lake.insert("shop.old", row(1001, "last"))
    lake.commit()
    merged(lake, name="shop.old")
    expected = [row(each, "snapshot") for each in range(400) if each != 3]
    assert rows(lake, "shop.old") == bag([*expected, row(1000, "later"), row(1001, "last")])


# What statements do


def test_the_last_state_stays_until_a_reset_table_is_complete_again(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.commit()
    merged(lake)
    lake.mark(ORDERS, "reset")
    lake.insert(ORDERS, row(2, "cup"))
    lake.commit()
    assert merged(lake) is None
    assert rows(lake) == bag([row(1, "pen")])
    version = opened(lake).log.version
    lake.snapshot(ORDERS, row(1, "PEN"), row(2, "cup"))
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([row(1, "PEN"), row(2, "cup")])
    assert opened(lake).log.version == version + 1, "it appears in one commit"


def test_columns_come_go_and_change_their_types(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"), row(2, "cup"))
    lake.commit()
    merged(lake)
    lake.define(ORDERS, {"id": "int", "item": "string", "n": "int"}, key=["id"])
    lake.insert(ORDERS, row(3, "ink") | {"n": 7})
    lake.commit()
    files = set(opened(lake).log.files)
    merged(lake)
    assert files <= set(opened(lake).log.files), "a new column costs no file"
    assert rows(lake) == bag([row(1, "pen") | {"n": None}, row(2, "cup") | {"n": None}, row(3, "ink") | {"n": 7}])
    lake.define(ORDERS, {"id": "bigint", "n": "int"}, key=["id"])
    lake.insert(ORDERS, {"id": 2**40, "n": 8})
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([{"id": 1, "n": None}, {"id": 2, "n": None}, {"id": 3, "n": 7}, {"id": 2**40, "n": 8}])
    lake.define(ORDERS, {"id": "bigint", "n": "int", "item": "string"}, key=["id"])
    lake.insert(ORDERS, {"id": 4, "n": 9, "item": "new"})
    lake.commit()
    merged(lake)
    assert rows(lake)[repr({"id": 1, "n": None, "item": None})] == 1, "old values of a column do not come back"


def test_a_column_without_a_row_is_there_at_once(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.commit()
    merged(lake)
    lake.define(ORDERS, {"id": "int", "item": "string", "n": "int"}, key=["id"])
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([row(1, "pen") | {"n": None}])


def test_a_dropped_table_is_empty_and_one_that_never_was_is_not_made(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.define("shop.short", {"id": "int"}, key=["id"])
    lake.mark("shop.short", "create")
    lake.mark("shop.short", "drop")
    lake.commit()
    merged(lake)
    merged(lake, name="shop.short")
    lake.mark(ORDERS, "drop")
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([])
    assert not Path(path_of(lake, "shop.short")).exists()


# Kills, other writers, and what is deleted


def test_a_merge_killed_at_any_change_leaves_the_state_before_or_after_it(lake: MadeLake, small: None) -> None:
    lake.insert(ORDERS, *(row(each, "before") for each in range(200)))
    lake.commit()
    for _ in range(3):  # so that the killed merge compacts and writes a checkpoint
        merged(lake)
        lake.insert(ORDERS, row(lake.seq + 1000, "between"))
        lake.commit()
    merged(lake)
    before = rows(lake)
    lake.update(ORDERS, row(7, "before"), row(7, "after"))
    lake.delete(ORDERS, row(8, "before"))
    lake.commit()
    saved = lake.root.with_name("saved")
    shutil.copytree(lake.root, saved)
    merged(lake)
    after = rows(lake)
    assert after == before - bag([row(7, "before"), row(8, "before")]) + bag([row(7, "after")])
    seen = set()
    for at in itertools.count(1):
        shutil.rmtree(lake.root)
        shutil.copytree(saved, lake.root)
        died = killed(lake.root, at, lambda: merged(lake))
        found = rows(lake)
        assert found in (before, after)
        seen.add(found == after)
        merged(lake)
        assert rows(lake) == after
        if not died:
            break
    assert seen == {False, True}
    assert at > 7, "data files, deletion vectors, the commit, and a checkpoint"


def test_a_write_by_somebody_else_stops_the_table_until_its_folder_is_deleted(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.commit()
    table = opened(lake)
    merged(lake, table)
    # What a program without deletion vectors does to a copy of the table.
    name = f"{path_of(lake)}/_delta_log/{table.log.version + 1:020}.json"
    Path(name).write_text('{"commitInfo":{"timestamp":1,"operation":"DELETE","engineInfo":"other"}}\n')
    lake.insert(ORDERS, row(2, "cup"))
    lake.commit()
    for view in (table, None):
        with pytest.raises(RelayError, match="somebody else has written to it") as raised:
            merged(lake, view)
        assert raised.value.code == StopCode.LAKE_CONFLICT
        assert f"delete the folder file://{path_of(lake)}" in raised.value.hint
    shutil.rmtree(path_of(lake))
    merged(lake)
    assert rows(lake) == bag([row(1, "pen"), row(2, "cup")])


@pytest.mark.parametrize("lost", ["data", "vector", "checkpoint", "commits", "commit", "text", "lake"])
def test_a_lost_or_damaged_file_stops_the_table_and_is_named(lake: MadeLake, small: None, lost: str) -> None:
    lake.insert(ORDERS, *(row(each, "x") for each in range(1200)))
    lake.commit()
    merged(lake)
    for turn in range(5):
        for each in range(turn, 1200, 12):
            lake.update(ORDERS, row(each, "x"), row(each, "x"))
        lake.commit()
        merged(lake)
    lake.update(ORDERS, row(7, "x"), row(7, "y"))
    changes = lake.commit().add[0].path
    folder, table = Path(path_of(lake)), opened(lake)
    masks = [vectors.name_of(each.deletion_vector) for each in table.log.files.values() if each.deletion_vector]
    files = {
        "data": [*map(folder.joinpath, table.log.files)],
        "vector": [folder / name for name in masks if name],
        "checkpoint": [*folder.glob("_delta_log/*.parquet")],
        "commits": [*folder.glob("_delta_log/*0.json"), folder / "_delta_log/_last_checkpoint"],
        "commit": [newest := folder / f"_delta_log/{table.log.version:020}.json"],
        "text": [newest],
        "lake": [lake.root / changes],
    }[lost]
    assert files
    for path in files:
        path.unlink()
        if damage := {"commit": b"{", "text": b'{"remove": {"path": "\xff"}}'}.get(lost):
            path.write_bytes(damage)
    with pytest.raises(RelayError) as raised:
        merged(lake)
    assert raised.value.code == StopCode.LAKE_DAMAGED
    assert raised.value.position.count("delta/shop/orders") == 1
    assert "delete the" in raised.value.hint


def test_replaced_files_stay_a_day_for_their_readers(
    lake: MadeLake, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(lake)
    for number in range(60):
        lake.insert(ORDERS, row(number, "x" * 50))
        lake.update(ORDERS, row(number, "x" * 50), row(number, "y" * 50))
        lake.commit()
        merged(lake, table)
    reader = deltalake.DeltaTable(path_of(lake), version=20)
    assert len(list(Path(path_of(lake)).iterdir())) > 60
    assert _read(reader).num_rows == 21
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1.1 * DAY)
    lake.insert(ORDERS, row(100, "last"))
    lake.commit()
    merged(lake, table)
    left = [path for path in Path(path_of(lake)).iterdir() if path.is_file()]
    assert len(left) < 10, "those of the newest version, and what the last merge has replaced"
    monkeypatch.undo()
    assert rows(lake).total() == 61


def _read(table: deltalake.DeltaTable) -> Any:
    return deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()


def test_replaced_files_go_sooner_if_they_take_more_than_the_table(
    lake: MadeLake, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_vacuum, "_FREE_BYTES", 10_000)
    monkeypatch.setattr(delta_vacuum, "LEAST_SECONDS", 0.0)
    table = opened(lake)
    for number in range(60):
        lake.insert(ORDERS, row(number, "x" * 50))
        lake.update(ORDERS, row(number, "x" * 50), row(number, "y" * 50))
        lake.commit()
        merged(lake, table)
    every = sum(path.stat().st_size for path in Path(path_of(lake)).iterdir() if path.is_file())
    assert every < 3 * table.bytes + 10_000
    assert rows(lake).total() == 60


# Names


def test_every_engine_finds_a_table_of_any_name(lake: MadeLake) -> None:
    names = ["shop.two words", "Größe.a/b", "x%2F.y=1", "shop...", "a~b.$1"]
    for name in names:
        schema, _, table = name.partition(".")
        lake.define(name, {"id": "int"}, key=["id"])
        lake.mark(name, "create")
        lake.insert(name, {"id": 7})
        lake.commit()
        state = LakeLog(open_storage(lake.url)).state()
        known = next(each for each in state.tables.values() if each.table == Table(schema, table))
        OpenTable(open_storage(lake.url), known.table).update(state, known)
        for engine, read in ENGINES.items():
            assert read(str(lake.root / folder_of(known.table))) == {"id": [7]}, (engine, name)
    assert folder_of(Table("shop", "two words")) == "delta/shop/two~20words"
    assert folder_of(Table("shop", "..")) == "delta/shop/~2E."


# Deletion vectors


@pytest.mark.parametrize("count", [1, 8, 4096, 65536, 65537, 200_000])
@pytest.mark.parametrize("share", [0.0001, 0.05, 0.9, 1.0])
def test_deletion_vectors_are_read_as_they_were_written(count: int, share: float) -> None:
    chance = Random(count)
    mask = pa.array([chance.random() < share for _ in range(count)])
    assert vectors.decoded(vectors.encoded(mask), count).equals(mask)
    assert vectors.encoded(pa.concat_arrays([pa.array([True] * 3), mask])[3:]) == vectors.encoded(mask)
    collected = vectors.VectorFile()
    vector = collected.add(mask)
    assert vectors.read(vector, count, collected.data).equals(mask)
    if vector.storage_type == "u":
        damaged = bytearray(collected.data)
        damaged[-6] ^= 1
        with pytest.raises(ValueError, match="its checksum is wrong"):
            vectors.read(vector, count, bytes(damaged))


# Object stores


def test_a_table_in_an_object_store_is_merged_as_one_in_a_folder(lake: MadeLake, s3: S3Server) -> None:
    store = s3fs.S3FileSystem()

    def merge() -> None:
        store.put(f"{lake.root}/", "bucket/lake/", recursive=True)
        storage = open_storage("s3://bucket/lake")
        state = LakeLog(storage).state()
        OpenTable(storage, Table("shop", "orders")).update(state, state.tables[ORDERS])

    lake.insert(ORDERS, *(row(each, "pen") for each in range(100)))
    lake.commit()
    merge()
    lake.update(ORDERS, row(7, "pen"), row(7, "ink"))
    lake.commit()
    merge()
    # Another process, since deltalake holds the interpreter while it waits for the server in this one.
    command = [sys.executable, "-m", "tests.support.engines", "s3://bucket/lake/delta/shop/orders"]
    found = subprocess.run(command, capture_output=True, check=True, timeout=patience(60)).stdout
    assert bag(json.loads(found)) == bag([row(each, "ink" if each == 7 else "pen") for each in range(100)])


# The page


def test_the_program_of_the_page_reads_the_table(lake: MadeLake, capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "lake-open-tables.md").read_text(), re.DOTALL)
    lake.insert(ORDERS, row(1, "cup"), row(2, "pen"), row(3, "pen"))
    lake.commit()
    merged(lake)
    import_extension("delta")
    exec(program.replace("/srv/lake", lake.url))
    printed = capsys.readouterr().out
    assert re.search(r"cup\s+│\s+1 │\n│ pen\s+│\s+2 │", printed), printed
