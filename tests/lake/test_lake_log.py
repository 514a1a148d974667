"""The lake's log: the state after commits, who may commit, and what a kill leaves."""

from __future__ import annotations

import itertools
import os
import traceback
from pathlib import Path
from random import Random
from typing import NoReturn

import msgspec
import pytest

from relay.errors import ErrorCode, RelayError, StopCode
from relay.lake import log as lake_log
from relay.lake import paths
from relay.lake.documents import DataFile, Gap, Known, LakeState, Table, TableState
from relay.lake.log import Conflict, LakeLog, verify
from relay.lake.storage import Storage, open_storage
from tests.support.chance import seeds
from tests.support.lake_commits import marker, named, place, race, sealed, snapshot, version
from tests.support.lake_kill import arm, killed


@pytest.fixture
def log(storage: Storage) -> LakeLog:
    return LakeLog(storage)


def orders(state: LakeState) -> TableState:
    return state.tables["shop.orders"]


def names(storage: Storage) -> list[str]:
    return [name.removeprefix("_log/") for name in storage.list("_log")]


# What commits say together


def test_an_empty_folder_is_an_empty_lake(log: LakeLog, tmp_path: Path) -> None:
    assert log.state() == LakeState()
    assert not (tmp_path / "lake").exists(), "a reader makes nothing"


def test_a_reader_sees_what_was_committed(log: LakeLog, storage: Storage) -> None:
    file = sealed(storage, 1, 3)
    log.commit("export", place=place(3), versions=[version()], add=[file], markers=[marker("create", 1)])
    state = LakeLog(storage).state()
    assert (state.number, state.place, state.files) == (1, place(3), 1)
    assert orders(state).files == {file.path: file}
    assert orders(state).version == version()
    assert (orders(state).last_marker, orders(state).reset, orders(state).complete_from) == ("create", 1, 1)


def test_a_table_is_known_by_its_create_before_any_row(log: LakeLog) -> None:
    state = log.commit("export", place=place(1), markers=[marker("create", 1)])
    assert (orders(state).versions, orders(state).complete_from) == ([], 1)


def test_names_that_look_alike_are_different_tables(log: LakeLog) -> None:
    dotted = [Table("a.b", "c"), Table("a", "b.c")]
    state = log.commit(
        "export", place=place(2), markers=[marker("create", at, one) for at, one in enumerate(dotted, 1)]
    )
    assert [table.table for table in state.tables.values()] == dotted


def test_compaction_replaces_files(log: LakeLog) -> None:
    small = [named(1, 1), named(2, 2)]
    log.commit("export", place=place(2), versions=[version()], add=small)
    state = log.commit("compact", remove=[file.path for file in small], add=[named(1, 2, chunk="c1")])
    assert list(orders(state).files) == [named(1, 2, chunk="c1").path]
    assert state.files == 1


def test_side_columns_with_values_are_gathered(log: LakeLog) -> None:
    files = [
        msgspec.structs.replace(named(at, at), sides=sides)
        for at, sides in ((1, ["d__text"]), (2, ["d__text", "g__srid"]))
    ]
    state = log.commit("export", place=place(2), versions=[version()], add=files)
    assert orders(state).sides == ["d__text", "g__srid"]


def test_only_rows_of_a_snapshot_count_as_such(log: LakeLog) -> None:
    log.commit("export", place=place(1), versions=[version()], add=[named(1, 1)])
    chunk = named(1, 1, kind="snapshot", chunk="one")
    assert orders(log.commit("snapshot", add=[chunk], snapshots=[snapshot(1)])).snapshot_number == 2
    state = log.commit("compact", remove=[chunk.path], add=[named(1, 1, kind="snapshot", chunk="c1")])
    assert orders(state).snapshot_number == 2


# Completeness


def test_a_table_without_a_snapshot_is_not_complete(log: LakeLog) -> None:
    assert orders(log.commit("export", place=place(1), versions=[version()])).complete_from is None


def test_a_snapshot_completes_its_table_once_the_export_has_passed_its_end(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()])
    log.commit("snapshot", snapshots=[snapshot(10)])
    log.commit("snapshot", snapshots=[snapshot(10, end=20)])
    assert orders(log.commit("export", place=place(19))).complete_from is None
    assert orders(log.commit("export", place=place(25))).complete_from == 25
    assert orders(log.commit("export", place=place(30))).complete_from == 25


def test_a_snapshot_completes_its_table_at_once_if_the_export_is_there_already(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()])
    assert orders(log.commit("snapshot", snapshots=[snapshot(10, end=10)])).complete_from == 10


def test_binlog_files_are_ordered_by_their_number(log: LakeLog) -> None:
    log.commit("export", place=place(10, "binlog.999999"), versions=[version()])
    log.commit("snapshot", snapshots=[snapshot(10, end=1, file="binlog.1000000")])
    assert orders(log.commit("export", place=place(20, "binlog.999999"))).complete_from is None
    assert orders(log.commit("export", place=place(21, "binlog.1000000", 500))).complete_from == 21


@pytest.mark.parametrize("kind", ["create", "truncate", "drop"])
def test_an_emptied_table_is_complete(log: LakeLog, kind: str) -> None:
    log.commit("export", place=place(10), versions=[version()])
    log.commit("snapshot", snapshots=[snapshot(10)])
    table = orders(log.commit("export", place=place(20), markers=[marker(kind, 15)]))  # type: ignore[arg-type]
    assert (table.reset, table.complete_from, table.last_marker, table.snapshot) == (15, 15, kind, None)


def test_a_reset_wants_a_new_snapshot_and_says_what_was_known(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()], markers=[marker("create", 5)])
    table = orders(log.commit("export", place=place(20), markers=[marker("reset", 15)]))
    assert (table.reset, table.complete_from, table.before) == (15, None, Known(5, 5, 14))
    table = orders(log.commit("export", place=place(30), markers=[marker("reset", 25)]))
    assert (table.reset, table.before) == (25, Known(5, 5, 14)), "what came between was never known"
    log.commit("snapshot", snapshots=[snapshot(30, end=31)])
    table = orders(log.commit("export", place=place(32)))
    assert (table.complete_from, table.before) == (32, None)


def test_a_marker_above_a_snapshots_rows_starts_it_again(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()])
    log.commit("snapshot", snapshots=[snapshot(10, end=20)])
    table = orders(log.commit("export", place=place(30), markers=[marker("reset", 15)]))
    assert (table.snapshot, table.complete_from) == (None, None)
    assert orders(log.commit("snapshot", snapshots=[snapshot(10, end=20)])).snapshot is None
    assert orders(log.commit("snapshot", snapshots=[snapshot(30, end=30)])).complete_from == 30


def test_markers_of_one_commit_count_by_their_numbers(log: LakeLog) -> None:
    several = [marker("create", 9), marker("drop", 8), marker("reset", 10)]
    table = orders(log.commit("export", place=place(10), versions=[version()], markers=several))
    assert (table.last_marker, table.reset, table.before) == ("reset", 10, Known(9, 9, 9))


def test_a_gap_leaves_every_table_unknown(log: LakeLog) -> None:
    other = Table("shop", "items")
    both = [marker("create", 1), marker("create", 2, other)]
    log.commit("export", place=place(10), versions=[version(), version(table=other)], markers=both)
    log.commit("snapshot", snapshots=[snapshot(10)])
    gap = Gap(11, "the journal was cut")
    state = log.commit("export", place=place(11), gap=gap)
    assert state.gaps == [gap]
    assert [(one.complete_from, one.snapshot, one.reset) for one in state.tables.values()] == [(None, None, 11)] * 2
    assert orders(state).before == Known(1, 1, 10)


def test_a_snapshot_of_another_source_than_the_export_goes_on_with_is_read_anew(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()], add=[named(10, 10)])
    chunk = named(10, 10, kind="snapshot", chunk="one")
    log.commit("snapshot", add=[chunk], snapshots=[snapshot(10, end=20)])
    state = log.commit("export", place=place(30, identity="mysql:other"))
    assert (orders(state).complete_from, orders(state).snapshot) == (None, None)
    assert list(orders(state).files) == [named(10, 10).path], "rows that the other may never have had count no more"
    assert state.files == 1


def test_a_change_of_the_source_leaves_complete_tables_complete(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()])
    log.commit("snapshot", add=[named(10, 10, kind="snapshot", chunk="one")], snapshots=[snapshot(10, end=10)])
    state = log.commit("export", place=place(30, identity="mysql:other"))
    assert (orders(state).complete_from, state.files) == (10, 1)


def test_a_snapshot_of_the_source_that_the_export_is_about_to_change_to_waits_for_it(log: LakeLog) -> None:
    log.commit("export", place=place(10), versions=[version()])
    table = orders(log.commit("snapshot", snapshots=[snapshot(10, end=5, identity="mysql:other")]))
    assert table.complete_from is None
    table = orders(log.commit("export", place=place(11, offset=600, identity="mysql:other")))
    assert table.complete_from == 11


# Who may commit


def test_who_did_not_see_the_last_commit_is_told_of_it(log: LakeLog, storage: Storage) -> None:
    other = LakeLog(storage)
    assert other.state().number == log.state().number == 0
    log.commit("export", place=place(1))
    log.commit("export", place=place(2))
    with pytest.raises(Conflict):
        other.commit("snapshot", versions=[version()])
    assert other.state().place == place(2)
    assert other.commit("snapshot", versions=[version()]).number == 3


def test_of_two_committers_at_once_exactly_one_wins_each_number(storage: Storage, tmp_path: Path) -> None:
    each = 40
    children = [os.fork() or _race(str(tmp_path / "lake"), name, each) for name in ("a", "b")]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    commits = list(LakeLog(storage).commits())
    assert [commit.number for commit in commits] == list(range(1, 2 * each + 1))
    assert sorted(gap.reason for commit in commits if (gap := commit.gap)) == sorted(
        f"{name}{at}" for name in ("a", "b") for at in range(each)
    )
    assert not [name for name in os.listdir(tmp_path / "lake" / "_log") if name.startswith(".")]


def _race(url: str, name: str, each: int) -> NoReturn:
    status = 1
    try:
        race(url, name, each)
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize(
    ("commit", "reason"),
    [
        ({"place": place(4)}, "before that of an earlier commit"),
        ({"add": [named(5, 5)]}, "was already added"),
        ({"add": [named(6, 6), named(6, 6)]}, "was already added"),
        ({"add": [named(6, 6, Table("shop", "items"))]}, "version 1 of shop.items, which is unknown"),
        ({"add": [msgspec.structs.replace(named(6, 6), version=2)]}, "version 2 of shop.orders, which is unknown"),
        ({"add": [msgspec.structs.replace(named(6, 6), path=named(6, 6, Table("shop", "items")).path)]}, "not in the"),
        ({"remove": [named(6, 6).path]}, "which no commit added"),
        ({"versions": [version(3)]}, "does not follow"),
        ({"versions": [version(1)]}, "does not follow"),
        ({"markers": [marker("truncate", 5)]}, "not after the last at 5"),
        ({"snapshots": [snapshot(5, identity="")]}, "does not have its position"),
    ],
)  # fmt: skip
def test_what_cannot_follow_is_not_committed(log: LakeLog, commit: dict[str, list[DataFile]], reason: str) -> None:
    log.commit("export", place=place(5), versions=[version()], add=[named(5, 5)], markers=[marker("create", 5)])
    before = msgspec.json.encode(log.state())
    with pytest.raises(RelayError, match=reason):
        log.commit("export", **commit)  # type: ignore[arg-type]
    assert msgspec.json.encode(log.state()) == before


# What a kill leaves


def test_a_commit_killed_anywhere_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    seen = set()
    for at in itertools.count(1):
        lake = tmp_path / str(at)
        LakeLog(open_storage(str(lake))).commit("export", place=place(1), versions=[version()])
        died = killed(lake, at, lambda lake=lake: _export(str(lake)))  # type: ignore[misc]
        log = LakeLog(open_storage(str(lake)))
        seen.add(log.state().number)
        assert verify(log.storage, log.state()) == []
        assert (log.state().number == 2) == (len(orders(log.state()).files) == 1)
        if log.state().number == 1:  # the same work again, over what the kill left
            _export(str(lake))
        assert log.state().place == place(3)
        assert verify(log.storage, log.state()) == []
        if not died:
            break
    assert seen == {1, 2}
    assert at > 10, "made, flushed, renamed, linked: the file, its folders and the document"


def _export(url: str) -> None:
    log = LakeLog(open_storage(url))
    log.state()
    log.commit("export", place=place(3), add=[sealed(log.storage, 2, 3)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_writers_killed_at_random_lose_no_commit_that_they_made(tmp_path: Path, seed: int) -> None:
    chance, lake = Random(seed), tmp_path / "lake"
    acknowledged, acknowledge = os.pipe()
    writers: list[int] = []
    for number in range(200):
        at = chance.randrange(1, 60)
        writer = os.fork()
        if writer == 0:
            arm(lake, at)
            _write_on(str(lake), f"writer {number}", acknowledge)
        writers.append(writer)
        if len(writers) == 3:
            os.waitpid(writers.pop(0), 0)
    for writer in writers:
        os.waitpid(writer, 0)
    os.close(acknowledge)
    with open(acknowledged) as lines:
        made = lines.read().splitlines()
    log = LakeLog(open_storage(str(lake)))
    commits = list(log.commits())
    assert [commit.number for commit in commits] == list(range(1, len(commits) + 1))
    reasons = [gap.reason for commit in commits if (gap := commit.gap)]
    assert len(set(reasons)) == len(reasons) == len(commits)
    assert set(made) <= set(reasons), "an acknowledged commit is not there"
    assert log.state() == _replayed(log.storage)
    assert verify(log.storage, log.state()) == []
    assert len(made) > 200, "hardly a writer lived to commit"


def _write_on(url: str, name: str, acknowledge: int) -> NoReturn:
    """Seals and commits until it is killed."""
    try:
        log = LakeLog(open_storage(url))
        for at in itertools.count():
            file = sealed(log.storage, at, at, Table("shop", name))
            while True:
                log.state()
                try:
                    new = [version(table=file.table)] if at == 0 else []
                    log.commit("snapshot", add=[file], versions=new, gap=Gap(1, f"{name}.{at}"))
                except Conflict:
                    continue
                break
            os.write(acknowledge, f"{name}.{at}\n".encode())
    finally:
        traceback.print_exc()
        os._exit(1)


def _replayed(storage: Storage) -> LakeState:
    state = LakeState()
    for commit in LakeLog(storage).commits():
        lake_log.fold(state, commit)
    return state


# Damage


def refused(storage: Storage) -> RelayError:
    with pytest.raises(RelayError) as raised:
        LakeLog(storage).state()
    return raised.value


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"number": 2, "writer": "export"',
        b"[]",
        b'{"number": 2, "writer": "nobody", "at": 1}',
        b"\xff",
        b'{"number": 2, "writer": "\xff"}',
    ],
)
def test_a_damaged_commit_is_named(log: LakeLog, storage: Storage, content: bytes) -> None:
    log.commit("export", place=place(1))
    storage.replace(paths.commit_name(2), content)
    error = refused(storage)
    assert error.code == StopCode.LAKE_DAMAGED
    assert error.position.endswith("_log/00000000000000000002.json")
    assert "restore" in error.hint


def test_a_commit_of_a_newer_release_is_refused_by_name(log: LakeLog, storage: Storage) -> None:
    log.commit("export", place=place(1))
    storage.replace(paths.commit_name(2), b'{"number": 2, "writer": "oracle", "at": 1, "format": 3}')
    error = refused(storage)
    assert error.code == ErrorCode.ENVIRONMENT
    assert "format 3" in error.cause and "upgrade" in error.hint


def test_a_document_in_anothers_place_is_named(log: LakeLog, storage: Storage) -> None:
    log.commit("export", place=place(1))
    storage.replace(paths.commit_name(2), storage.read(paths.commit_name(1)))
    assert "it declares commit 1 instead of 2" in refused(storage).cause


def test_a_document_that_was_removed_is_not_made_anew(log: LakeLog, storage: Storage) -> None:
    for seq in range(1, 4):
        log.commit("export", place=place(seq))
    storage.delete(paths.commit_name(2))
    later = LakeLog(storage)
    assert later.state().number == 1
    with pytest.raises(RelayError, match="it is missing, but commit 3 exists"):
        later.commit("export", place=place(4))


def test_verify_names_every_file_that_is_not_as_the_log_has_it(log: LakeLog, storage: Storage) -> None:
    files = [sealed(storage, at, at) for at in range(1, 5)]
    state = log.commit("export", place=place(4), versions=[version()], add=files)
    assert verify(storage, state) == []
    storage.delete(files[0].path)
    storage.replace(files[1].path, b"ro")
    storage.replace(files[2].path, b"rot")
    found = verify(storage, state)
    assert [line.partition(": ")[0] for line in found] == [file.path for file in files[:3]]
    assert [line.partition(": ")[2].split(",")[0][:7] for line in found] == ["missing", "2 bytes", "SHA-256"]


# Names


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("orders", "orders"),
        ("Größe $1.2 - x_y", "Größe $1.2 - x_y"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("a=b:c?d*e", "a%3Db%3Ac%3Fd%2Ae"),
        ("[x]{y}^\\", "%5Bx%5D%7By}%5E%5C"),
        ("'\"#\n\x7f", "%27%22%23%0A%7F"),
        ("/leading", "%2Fleading"),
    ],
)
def test_names_are_encoded_as_spark_does(name: str, encoded: str) -> None:
    assert paths.encode(name) == encoded
    assert paths.decode(encoded) == name
    path = named(1, 2, Table(name, name)).path
    assert paths.table_of(path) == Table(name, name)
    assert path.split("/")[1:3] == [f"cdc_schema={encoded}", f"cdc_table={encoded}"]


def test_the_names_of_files_follow_from_what_is_in_them() -> None:
    folder = "changes/cdc_schema=shop/cdc_table=orders/cdc_date=2026-11-20"
    assert named(1, 20).path == f"{folder}/part-00000000000000000001-00000000000000000020-v1.parquet"
    chunk = named(7, 7, kind="snapshot", chunk="s1-3").path
    assert chunk == f"{folder}/snapshot-00000000000000000007-00000000000000000007-v1-s1-3.parquet"
