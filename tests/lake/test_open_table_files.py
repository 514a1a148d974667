"""Files of open tables: merges that are killed, other writers, damage, replaced files, vectors and object stores."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import s3fs

from relay.base.errors import RelayError, StopCode
from relay.lake.delta import vacuum as delta_vacuum
from relay.lake.delta import vectors
from relay.lake.delta.table import OpenTable
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.lake.open_table import ORDERS, bag, lake, merged, opened, path_of, row, rows, small
from tests.lake.test_lake_storage import s3, s3_server
from tests.spark.lakes import MadeLake
from tests.support.lake_kill import killed
from tests.support.s3_server import S3Server
from tests.support.waiting import patience

__all__ = ["lake", "s3", "s3_server", "small"]

DAY = 24 * 3600.0


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


def changed_in_60_merges(lake: MadeLake) -> OpenTable:
    """Each merge inserts a row and changes it."""
    table = opened(lake)
    for number in range(60):
        lake.insert(ORDERS, row(number, "x" * 50))
        lake.update(ORDERS, row(number, "x" * 50), row(number, "y" * 50))
        lake.commit()
        merged(lake, table)
    return table


def test_replaced_files_stay_a_day_for_their_readers(
    lake: MadeLake, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = changed_in_60_merges(lake)
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
    table = changed_in_60_merges(lake)
    every = sum(path.stat().st_size for path in Path(path_of(lake)).iterdir() if path.is_file())
    assert every < 3 * table.bytes + 10_000
    assert rows(lake).total() == 60


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
