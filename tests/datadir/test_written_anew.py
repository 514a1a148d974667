"""After a failed flush, the next user of a file rewrites it: `prepared`, the row log, the lake, pins."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from relay._native import Ingest, JournalWriter
from relay.binlog.events.compression import zstd_parts
from relay.errors import RelayError
from relay.lake import paths
from relay.lake.folder import Folder
from relay.lake.log import LakeLog
from relay.linelog import cursor as cursors
from relay.linelog.linelog import LineLog, Settings
from relay.source import login
from tests.support.journal_builder import SEGMENT, Made
from tests.support.lake_commits import place


class Flushes:
    """What was flushed, by path; the next flush of `failing` fails, once."""

    def __init__(self) -> None:
        self.done: list[Path] = []
        self.failing: Path | None = None
        self._fsync = os.fsync

    def __call__(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path == self.failing:
            self.failing = None
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.done.append(path)
        self._fsync(fd)


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Flushes:
    found = Flushes()
    monkeypatch.setattr(os, "fsync", found)
    return found


def test_the_newest_commit_of_a_lake_is_written_anew(tmp_path: Path, flushes: Flushes) -> None:
    log, folder = LakeLog(Folder(tmp_path)), tmp_path / paths.LOG
    log.commit("export", place=place(1))
    flushes.failing = folder
    with pytest.raises(RelayError, match="Input/output error"):
        log.commit("export", place=place(2))
    newest = tmp_path / paths.commit_name(2)
    content, inode = newest.read_bytes(), newest.stat().st_ino  # seen, and perhaps read, though not surely on disk
    flushes.done.clear()
    successor = LakeLog(Folder(tmp_path))
    successor.rewrite_newest()
    assert newest.read_bytes() == content and newest.stat().st_ino != inode
    assert len(flushes.done) == 2 and flushes.done[1] == folder, "the new file, then its name"
    assert successor.state().number == 2


def test_a_folder_of_a_lake_whose_name_was_not_flushed_is_made_again(tmp_path: Path, flushes: Flushes) -> None:
    flushes.failing = tmp_path
    with pytest.raises(RelayError):
        Folder(tmp_path).replace("new/file", b"content")
    assert not (tmp_path / "new").exists()
    Folder(tmp_path).replace("new/file", b"content")
    assert tmp_path in flushes.done


def test_the_cursor_of_the_row_log_is_written_anew(tmp_path: Path, flushes: Flushes) -> None:
    made, folder = Made(tmp_path / "journal"), tmp_path / "log"
    folder.mkdir()
    settings = Settings(path=str(folder), schemas=["*"])
    LineLog(made.folder, settings).finish()
    cursor = folder / cursors.NAME
    content, inode = cursor.read_bytes(), cursor.stat().st_ino
    flushes.done.clear()
    LineLog(made.folder, settings)
    assert cursor.read_bytes() == content and cursor.stat().st_ino != inode
    assert flushes.done[1] == folder


def test_the_note_of_prepared_transactions_is_written_anew(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, SEGMENT)
    note = tmp_path / "prepared"
    note.write_text("xid\tbinlog.000001\t4\t\n")
    inode = note.stat().st_ino
    Ingest(writer, tmp_path, zstd_parts)
    assert note.read_text() == "xid\tbinlog.000001\t4\t\t0\n" and note.stat().st_ino != inode


def test_a_key_that_could_not_be_pinned_is_not_found_pinned(tmp_path: Path, flushes: Flushes) -> None:
    pins = tmp_path / "source-keys"
    assert login._first_use_key(str(pins), "one:3306", "sha256:1") == "sha256:1"
    flushes.failing = pins
    with pytest.raises(OSError, match="Input/output error"):
        login._first_use_key(str(pins), "two:3306", "sha256:2")
    assert pins.read_text() == "one:3306 sha256:1\n"
    assert login._first_use_key(str(pins), "two:3306", "sha256:3") == "sha256:3"
