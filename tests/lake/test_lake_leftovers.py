"""Files that no commit refers to are deleted after a grace period; files that one refers to, or may yet, are not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.lake.documents import DataFile
from relay.lake.folder import Folder
from relay.lake.leftovers import delete_leftovers
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.spark.lakes import MadeLake

HOUR = 3600.0


@pytest.fixture
def lake(tmp_path: Path) -> MadeLake:
    """A lake of one table and two files, made long ago."""
    made = MadeLake(tmp_path / "lake")
    made.define("shop.orders", {"id": "int"}, key=["id"])
    for number in (1, 2):
        made.insert("shop.orders", {"id": number})
        made.commit()
    for path in (made.root / "changes").rglob("*.parquet"):
        age(path, 100 * HOUR)
    return made


def age(path: Path, seconds: float) -> None:
    """Let a file look as if it was written so long ago."""
    os.utime(path, (time.time() - seconds,) * 2)


def log_of(lake: MadeLake) -> LakeLog:
    return LakeLog(open_storage(lake.url))


def leave(lake: MadeLake, name: str, old: float) -> Path:
    """A file that no commit knows, beside those of the table."""
    folder = next((lake.root / "changes").rglob("*.parquet")).parent
    path = folder / name
    path.write_bytes(b"left")
    age(path, old)
    return path


def merge_both(lake: MadeLake) -> list[DataFile]:
    """Exchange both files for one, as compaction does; the files that were exchanged."""
    log = log_of(lake)
    files = list(log.state().tables["shop.orders"].files.values())
    path = leave(lake, f"part-{1:020}-{2:020}-v1-compact-1.parquet", 0)
    merged = DataFile(
        str(path.relative_to(lake.root)), files[0].table, 1, files[0].date, "changes", 1, 2, 2, 4, sha256="made"
    )
    log.commit("compact", add=[merged], remove=[file.path for file in files])
    return files


def test_a_file_that_no_commit_refers_to_goes_when_its_grace_is_over(lake: MadeLake) -> None:
    old = leave(lake, f"part-{1:020}-{2:020}-v1.parquet", 25 * HOUR)
    young = leave(lake, f"snapshot-{1:020}-{1:020}-v1-x.parquet", 23 * HOUR)
    assert delete_leftovers(log_of(lake)) == [str(old.relative_to(lake.root))]
    assert not old.exists()
    assert young.exists()


def test_a_file_that_was_never_finished_goes_too(lake: MadeLake) -> None:
    unfinished = leave(lake, f".part-{1:020}-{2:020}-v1.parquet.77.abcd", 25 * HOUR)
    delete_leftovers(log_of(lake))
    assert not unfinished.exists()


def test_files_that_commits_refer_to_stay_however_old(lake: MadeLake) -> None:
    assert delete_leftovers(log_of(lake), grace=0) == []
    assert len(list((lake.root / "changes").rglob("*.parquet"))) == 2


def test_files_that_compaction_replaced_stay_for_readers_of_older_states_until_the_grace_is_over(
    lake: MadeLake,
) -> None:
    replaced = merge_both(lake)
    assert delete_leftovers(log_of(lake), grace=HOUR) == []
    time.sleep(0.01)
    assert delete_leftovers(log_of(lake), grace=0) == sorted(file.path for file in replaced)


def test_files_beyond_the_place_of_the_export_stay_since_it_writes_them_again(lake: MadeLake) -> None:
    ahead = leave(lake, f"part-{3:020}-{9:020}-v1.parquet", 1000 * HOUR)
    assert delete_leftovers(log_of(lake)) == []
    assert ahead.exists()


def test_a_file_that_is_committed_while_the_folders_are_listed_stays(lake: MadeLake) -> None:
    class Busy(Folder):
        """Where the export commits right after a listing."""

        def walk(self, folder: str) -> Iterator[str]:
            names = list(super().walk(folder))
            merge_both(lake)
            return iter(names)

    sealed = leave(lake, f"part-{1:020}-{2:020}-v1-compact-1.parquet", 1000 * HOUR)
    assert delete_leftovers(LakeLog(Busy(lake.root)), grace=HOUR) == []
    assert sealed.exists()
