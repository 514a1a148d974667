"""Checkpoints of the lake's log: what they cost, what they make superfluous, and what a kill or damage leaves."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.lake import checkpoints as lake_checkpoints
from relay.lake import log as lake_log
from relay.lake import paths
from relay.lake.documents import Checkpoint, Commit, DataFile, Known, LatestCheckpoints, Table
from relay.lake.folder import Folder
from relay.lake.leftovers import delete_leftovers
from relay.lake.log import LakeLog
from relay.lake.sealed import SealedFile
from relay.lake.storage import Storage, open_storage
from tests.support.lake_commits import marker, named, place, version
from tests.support.lake_kill import killed

FORMAT_1 = Path(__file__).with_name("format_1.json")
DAY = 24 * 3600.0


@pytest.fixture
def log(storage: Storage) -> LakeLog:
    """A log of 120 commits, each with a file."""
    log = LakeLog(storage)
    log.commit("export", place=place(1), versions=[version()], markers=[marker("create", 1)])
    for seq in range(2, 121):
        log.commit("export", place=place(seq), add=[named(seq, seq)])
    return log


@pytest.fixture
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every second commit, of parts of four files; commits are old at once."""
    monkeypatch.setattr(lake_log, "CHECKPOINT_COMMITS", 2)
    monkeypatch.setattr(lake_checkpoints, "PART_FILES", 4)
    monkeypatch.setattr(lake_checkpoints, "KEEP_SECONDS", -DAY)


def names(storage: Storage, prefix: str = "") -> list[str]:
    found = [name.removeprefix("_log/") for name in storage.list("_log")]
    return [name for name in found if name.startswith(prefix)]


def commit_numbers(storage: Storage) -> list[int]:
    return sorted(filter(None, map(paths.commit_number, storage.list("_log"))))


def checkpoint_numbers(storage: Storage) -> list[int]:
    return sorted(filter(None, map(paths.checkpoint_number, storage.list("_log"))))


def document(storage: Storage, number: int) -> Checkpoint:
    return msgspec.json.decode(storage.read(paths.checkpoint_name(number)), type=Checkpoint)


def commit_after(storage: Storage, seq: int) -> LakeLog:
    """A commit with a file, by a new process."""
    log = LakeLog(storage)
    log.state()
    log.commit("export", place=place(seq), add=[named(seq, seq)])
    return log


def age(storage: Storage, days: float) -> None:
    """Let all documents look as if they were written so long ago."""
    root = Path(storage.url().removeprefix("file://"))
    for name in names(storage):
        path = root / "_log" / name
        os.utime(path, (path.stat().st_mtime - days * DAY,) * 2)


# Reading


def test_a_reader_begins_at_the_newest_checkpoint(log: LakeLog, storage: Storage) -> None:
    assert checkpoint_numbers(storage) == [50, 100]
    for number in range(1, 101):
        storage.delete(paths.commit_name(number))
    assert LakeLog(storage).state() == log.state()
    assert log.state().number == 120


@pytest.mark.parametrize(
    "lost",
    [
        ["checkpoint.json"],
        ["checkpoint-00000000000000000100.json"],
        ["checkpoint.json", "checkpoint-00000000000000000100.json", "checkpoint-00000000000000000050.json"],
    ],
)
def test_checkpoints_may_be_deleted_while_the_commits_exist(log: LakeLog, storage: Storage, lost: list[str]) -> None:
    for name in lost:
        storage.delete(f"_log/{name}")
    assert LakeLog(storage).state() == log.state()
    assert log.commit("export", place=place(121)).number == 121


def test_a_checkpoint_that_lost_a_part_gives_way_to_the_one_before(log: LakeLog, storage: Storage) -> None:
    storage.delete(document(storage, 100).parts[0].path)
    assert LakeLog(storage).state() == log.state()


def test_a_reader_whose_checkpoint_is_deleted_meanwhile_takes_the_newest(log: LakeLog, tmp_path: Path) -> None:
    class Slow(Folder):
        """Where others commit so much, before a part is read, that the part is deleted."""

        def read(self, name: str) -> bytes:
            if name == wanted and log.state().number == 120:
                for seq in range(121, 251):
                    log.commit("export", place=place(seq), add=[named(seq, seq)])
                assert not self.exists(name)
            return super().read(name)

    wanted = document(log.storage, 100).parts[0].path
    assert LakeLog(Slow(tmp_path / "lake")).state() == log.state()
    assert log.state().number == 250


# Old commits


def test_commits_up_to_the_older_checkpoint_are_deleted_once_they_are_two_days_old(
    log: LakeLog, storage: Storage
) -> None:
    for seq in range(121, 151):
        log.commit("export", place=place(seq))
    assert commit_numbers(storage) == list(range(1, 151)), "they are too young"
    age(storage, 2.1)
    for seq in range(151, 201):
        log.commit("export", place=place(seq))
    assert (checkpoint_numbers(storage), commit_numbers(storage)) == ([150, 200], list(range(101, 201)))
    assert LakeLog(storage).state() == log.state()
    for seq in range(201, 301):
        log.commit("export", place=place(seq))
    assert commit_numbers(storage) == list(range(151, 301)), "those of today stay"
    assert LakeLog(storage).state() == log.state()


def test_whoever_reads_deleted_commits_is_told_so(log: LakeLog, storage: Storage, frequent: None) -> None:
    for seq in range(121, 131):
        log.commit("export", place=place(seq))
    kept = commit_numbers(storage)[0]
    assert kept > 100
    with pytest.raises(RelayError, match=f"those up to {kept - 1} were deleted") as raised:
        list(log.commits())
    assert raised.value.code == ErrorCode.USAGE
    assert [commit.number for commit in log.commits(kept - 1)] == list(range(kept, 131))
    assert list(log.commits(130)) == []


def test_a_log_without_checkpoints_and_without_its_first_commits_is_damaged(
    log: LakeLog, storage: Storage, frequent: None
) -> None:
    for seq in range(121, 127):
        log.commit("export", place=place(seq))
    for name in names(storage, "checkpoint"):
        storage.delete(f"_log/{name}")
    with pytest.raises(RelayError, match="it has no checkpoint, and the commits before 122 were deleted") as raised:
        LakeLog(storage).state()
    assert raised.value.code == StopCode.LAKE_DAMAGED
    assert "restore" in raised.value.hint


def test_a_reader_that_was_overtaken_by_the_deletion_goes_on(
    log: LakeLog, storage: Storage, frequent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = LakeLog(storage)
    state = reader.state()
    tables = state.tables
    for seq in range(121, 141):
        log.commit("export", place=place(seq), add=[named(seq, seq)])
    assert commit_numbers(storage)[0] > 121
    assert reader.state().number == 120, "the next commit is gone"
    monkeypatch.setattr(lake_log, "_CHECK_SECONDS", 0)
    assert reader.state() == log.state()
    assert reader.state() is state and state.tables is tables


def test_a_writer_that_was_overtaken_by_the_deletion_cannot_commit_where_nobody_reads(
    log: LakeLog, storage: Storage, frequent: None
) -> None:
    late = LakeLog(storage)
    late.state()
    late.commit("snapshot")
    for seq in range(122, 142):
        commit_after(storage, seq)
    kept = commit_numbers(storage)
    assert kept[0] > 122
    with pytest.raises(RelayError, match="last read the log at commit 121") as raised:
        late.commit("export", place=place(122))
    assert raised.value.code == StopCode.LAKE_CONFLICT
    assert commit_numbers(storage) == kept, "its document is not left"
    again = LakeLog(storage)
    again.state()
    assert again.commit("snapshot").number == kept[-1] + 1


# Parts, and what they cost


def test_checkpoints_before_the_last_two_are_deleted_with_their_parts(storage: Storage, frequent: None) -> None:
    LakeLog(storage).commit("export", place=place(1), versions=[version()])
    for seq in range(2, 30):  # by ever new processes
        commit_after(storage, seq)
    assert checkpoint_numbers(storage) == [26, 28]
    named_parts = {part.path for number in (26, 28) for part in document(storage, number).parts}
    assert {f"_log/{name}" for name in names(storage, "files-")} == named_parts


def test_a_full_part_is_named_again_while_all_its_files_count(storage: Storage, frequent: None) -> None:
    log = LakeLog(storage)
    log.commit("export", place=place(1), versions=[version()], add=[named(at, at) for at in range(10)])
    log.commit("export", place=place(2))
    first = document(storage, 2).parts
    assert [part.files for part in first] == [4, 4, 2]
    commit_after(storage, 11)
    commit_after(storage, 12)
    second = document(storage, 4).parts
    assert [part.files for part in second] == [4, 4, 4]
    assert second[:2] == first[:2]
    log = LakeLog(storage)
    log.state()
    log.commit("compact", remove=[named(5, 5).path], add=[named(5, 5, chunk="other")])
    log.commit("export", place=place(13))
    third = document(storage, 6).parts
    assert (third[0], third[1]) == (first[0], second[2])
    assert [part.files for part in third] == [4, 4, 4]
    assert LakeLog(storage).state() == log.state()


def test_parts_of_several_writers_have_exactly_the_files_that_count(
    storage: Storage, frequent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_log, "_CHECK_SECONDS", 0)
    chance = Random(43)
    writers = [LakeLog(storage) for _ in range(3)]
    counted: dict[str, DataFile] = {}
    writers[0].commit("export", versions=[version(), version(table=Table("shop", "items"))])
    for at in range(1, 300):
        log = chance.choice(writers)
        log.state()
        # A path may come back with other contents: an exporter repeats its work after a kill.
        file = named(at % 40, at % 40, Table("shop", chance.choice(["orders", "items"])))
        new = [msgspec.structs.replace(file, sha256=f"{at:064}")] if file.path not in counted else []
        gone = chance.sample(sorted(counted), min(len(counted), chance.choice([0, 0, 1, 3])))
        log.commit("compact", add=new, remove=gone)
        counted = {path: each for path, each in counted.items() if path not in gone} | {one.path: one for one in new}
        found = LakeLog(storage).state()
        assert {path: each for one in found.tables.values() for path, each in one.files.items()} == counted
        assert found.files == len(counted)


class _Counting(Folder):
    """Counts what is asked of the folder."""

    calls = 0
    written = 0

    def read(self, name: str) -> bytes:
        self.calls += 1
        return super().read(name)

    def list(self, folder: str) -> list[str]:
        self.calls += 1
        return super().list(folder)

    def create(self, name: str, data: bytes) -> bool:
        self.calls += 1
        self.written += len(data)
        return super().create(name, data)

    @contextmanager
    def writer(self, name: str) -> Iterator[SealedFile]:
        self.calls += 1
        with super().writer(name) as file:
            yield file
        self.written += file.bytes


def test_a_commit_costs_the_same_in_a_lake_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_checkpoints, "PART_FILES", 256)
    costs = {}
    for known in (1_000, 20_000):
        storage = _Counting(tmp_path / str(known))
        log = LakeLog(storage)
        log.commit("export", place=place(1), versions=[version()], add=[named(at, at) for at in range(1, known + 1)])
        for seq in range(2, 51):
            log.commit("export", place=place(seq))
        storage.calls = storage.written = 0
        for seq in range(51, 201):
            log.commit("export", place=place(seq), add=[named(known + seq, known + seq)])
        costs[known] = storage.calls / 150, storage.written / 150
    calls, written = zip(*costs.values(), strict=True)
    assert max(calls) < 2.3, "a document, a look at checkpoint.json, and a few for a checkpoint now and then"
    assert max(written) < 1.5 * min(written)


def test_a_lake_of_many_files_is_opened_with_few_reads(tmp_path: Path) -> None:
    storage = _Counting(tmp_path / "lake")
    log = LakeLog(storage)
    log.commit("export", place=place(1), versions=[version()], add=[named(at, at) for at in range(1, 20_001)])
    for seq in range(2, 90):
        log.commit("export", place=place(seq))
    expected = log.state()
    storage.calls = 0
    assert LakeLog(storage).state() == expected
    assert storage.calls == 2 + 3 + 39 + 1, "two documents, three parts, the commits since, and the next"


def test_a_readers_turn_asks_for_one_document(log: LakeLog, tmp_path: Path) -> None:
    storage = _Counting(tmp_path / "lake")
    reader = LakeLog(storage)
    reader.state()
    storage.calls = 0
    reader.state()
    assert storage.calls == 1
    log.commit("export", place=place(121))
    assert reader.state().number == 121
    assert storage.calls == 3


# Kills and damage


def test_a_checkpoint_killed_anywhere_upsets_nobody(tmp_path: Path, frequent: None) -> None:
    expected = _lake(tmp_path / "whole")
    for seq in range(10, 14):
        commit_after(expected, seq)
    for at in itertools.count(1):
        lake = tmp_path / str(at)
        storage = _lake(lake)
        died = killed(lake, at, lambda storage=storage: commit_after(storage, 10))  # type: ignore[misc]
        begin = LakeLog(storage).state().number
        assert begin in (9, 10)
        for seq in range(begin + 1, 14):
            commit_after(storage, seq)
        assert LakeLog(storage).state() == LakeLog(expected).state()
        age(storage, 2.1)
        delete_leftovers(LakeLog(storage))
        found = checkpoint_numbers(storage)
        assert found == [8, 12] if begin == 10 and found[0] == 8 else [10, 12]
        used = {part.path for number in found for part in document(storage, number).parts}
        assert {f"_log/{name}" for name in names(storage, "files-")} == used
        if not died:
            break
    assert at > 20, "parts, the checkpoint, commits, checkpoint.json, and the checkpoint that goes"


def _lake(folder: Path) -> Storage:
    storage = open_storage(str(folder))
    LakeLog(storage).commit("export", place=place(1), versions=[version()])
    for seq in range(2, 10):
        commit_after(storage, seq)
    return storage


def test_a_damaged_checkpoint_is_named_and_may_be_deleted(log: LakeLog, storage: Storage) -> None:
    storage.replace(paths.checkpoint_name(100), b"{")
    with pytest.raises(RelayError) as raised:
        LakeLog(storage).state()
    assert raised.value.code == StopCode.LAKE_DAMAGED
    assert "checkpoint-00000000000000000100.json" in raised.value.position
    assert "delete that file" in raised.value.hint
    storage.delete(paths.checkpoint_name(100))
    assert LakeLog(storage).state() == log.state()


def test_a_damaged_part_is_named(log: LakeLog, storage: Storage) -> None:
    [part] = document(storage, 100).parts
    data = bytearray(storage.read(part.path))
    data[len(data) // 2] ^= 1
    storage.replace(part.path, bytes(data))
    with pytest.raises(RelayError, match="its bytes are not those that were written") as raised:
        LakeLog(storage).state()
    assert raised.value.code == StopCode.LAKE_DAMAGED
    assert part.path in raised.value.position


def test_checkpoints_that_are_not_named_go_when_they_are_old(log: LakeLog, storage: Storage) -> None:
    storage.replace(paths.checkpoint_name(77), b"{}")
    storage.replace(paths.files_name(77, "killed"), b"")
    assert delete_leftovers(log, grace=0) == []
    age(storage, 1.1)
    assert delete_leftovers(log, grace=0) == [paths.checkpoint_name(77), paths.files_name(77, "killed")]
    assert LakeLog(storage).state() == log.state()


# Format 1


@pytest.fixture
def old(storage: Storage) -> Storage:
    """A lake as a release of format 1 wrote it: ten commits, checkpoints after four and eight."""
    for name, content in msgspec.json.decode(FORMAT_1.read_bytes(), type=dict[str, str]).items():
        storage.replace(f"_log/{name}", content.encode())
    return storage


def test_a_lake_of_format_1_is_read(old: Storage) -> None:
    state = LakeLog(old).state()
    table = state.tables["shop.orders"]
    assert (state.number, state.place, state.files) == (10, place(9), 7)
    assert [file.first for file in table.files.values()] == [4, 5, 6, 7, 8, 2, 9]
    assert (table.reset, table.complete_from, table.before) == (9, None, Known(1, 1, 8))


def test_a_lake_of_format_1_moves_on(old: Storage, frequent: None) -> None:
    for seq in range(10, 20):
        log = commit_after(old, seq)
    assert (checkpoint_numbers(old)[-1], LakeLog(old).state()) == (20, log.state())
    assert commit_numbers(old)[0] > 10, "its commits are deleted as others are"
    assert log.state().tables["shop.orders"].files[named(9, 9).path] == named(9, 9)


def test_a_release_of_format_1_refuses_the_lake(old: Storage) -> None:
    commit_after(old, 10)
    assert msgspec.json.decode(old.read(paths.commit_name(11)), type=Commit).format == 2
    for seq in range(11, 70):
        commit_after(old, seq)
    latest = msgspec.json.decode(old.read("_log/checkpoint.json"), type=LatestCheckpoints)
    assert latest.format == document(old, latest.number).format == 2
