"""A sync of the journal that failed, or whose result is unknown: what is trusted, and by which process."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalError, JournalReader, JournalWriter, settle_syncs, sync_failed, sync_unknown
from relay.client import RelayClient
from relay.errors import StopCode
from tests.faults.shim import ALLOCATE, SYNC, Shim, Watch
from tests.support import ROOT
from tests.support.journal_builder import SEGMENT
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until
from tests.support.written_journal import packed, transaction

NOTE = struct.Struct("<QQQQ")  # boot, begun, done, failed


def filled(folder: Path, *, flushed: int, more: int) -> tuple[JournalWriter, int]:
    """A journal with transactions that were flushed, and some that were not; how far it was."""
    writer = JournalWriter(folder, SEGMENT)
    writer.source(4, "binlog.000001", "", "test")
    table = writer.define(packed())
    for number in range(flushed):
        transaction(writer, table, number + 1)
    good = writer.flush()
    for number in range(flushed, flushed + more):
        transaction(writer, table, number + 1, 1000)
    return writer, good


def noted(folder: Path, *, begun: int = 0, failed: int = 0, boot: int | None = None) -> None:
    """Have the note say so."""
    path = folder / "sync"
    now, _, done, _ = NOTE.unpack(path.read_bytes())
    path.write_bytes(NOTE.pack(now if boot is None else boot, done + begun, done, failed))


@pytest.mark.parametrize("more", [3, 300], ids=["in one file", "over several files"])
def test_behind_a_sync_that_failed_nothing_is_believed(tmp_path: Path, more: int) -> None:
    writer, good = filled(tmp_path, flushed=5, more=more)
    assert (len(writer.segments()) == 1) == (more == 3)
    noted(tmp_path, begun=1, failed=1)
    assert sync_failed(tmp_path)
    with pytest.raises(JournalError) as caught:
        writer.flush()
    assert caught.value.code == StopCode.SYNC_FAILED
    successor = JournalWriter(tmp_path, SEGMENT)
    assert successor.committed() == successor.flushed() == JournalReader(tmp_path).flushed() == good
    assert (successor.state().sequence, successor.generation()) == (11, writer.generation())
    assert not sync_failed(tmp_path), "what is there now was synced anew"
    table = successor.define(packed())
    transaction(successor, table, 6)
    assert successor.flush() > good


def test_a_journal_whose_first_sync_failed_begins_anew_as_the_same(tmp_path: Path) -> None:
    first = JournalWriter(tmp_path, SEGMENT)
    path = tmp_path / f"{0:020}.seg"
    head = bytearray(path.read_bytes())
    head[48:56] = bytes(8)  # flushed
    path.write_bytes(head)
    noted(tmp_path, begun=1, failed=1)
    successor = JournalWriter(tmp_path, SEGMENT)
    assert successor.generation() == first.generation() and successor.state().sequence == 1
    assert not sync_failed(tmp_path)


def test_a_sync_whose_end_nobody_saw_takes_nothing_away(tmp_path: Path) -> None:
    writer, good = filled(tmp_path, flushed=5, more=300)
    end = writer.committed()
    noted(tmp_path, begun=1)
    assert sync_unknown(tmp_path) and not sync_failed(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.seg")}
    settle_syncs(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.seg")} == before
    assert not sync_unknown(tmp_path)
    successor = JournalWriter(tmp_path, SEGMENT)
    assert successor.committed() == successor.flushed() == end > good


def test_if_the_reader_dies_within_a_sync_all_processes_restart_and_rows_go_on(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    relay, db = start_relay(mysql97), make_db(mysql97)
    mysql97.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    with RelayClient("127.0.0.1", relay.port, "client", SECRET, patience=20) as client:
        client.add_filter(db)
        mysql97.execute(f"INSERT INTO {db}.t VALUES (1)")
        assert [row.after for row in client.poll_many(wait=patience(5))] == [{"id": 1}]
        before = relay.pids()
        os.kill(before["reader"], signal.SIGSTOP)
        noted(relay.conf.parent / "data" / "journal", begun=1)
        os.kill(before["reader"], signal.SIGKILL)
        until(lambda: "journal_renewed" in relay.stderr.read_text())
        mysql97.execute(f"INSERT INTO {db}.t VALUES (2)")
        got: list[Any] = []

        def complete() -> bool:
            got.extend(row.after for row in client.poll_many(wait=1))
            return {"id": 2} in got

        until(complete)
        assert got in ([{"id": 2}], [{"id": 1}, {"id": 2}]), "only the row in flight may come again"
    after = relay.pids()
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


@pytest.mark.parametrize("calls", [ALLOCATE, SYNC], ids=["allocate", "sync"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_call_that_a_signal_interrupts_is_repeated(tmp_path: Path, calls: int, number: int) -> None:
    shim, folder = Shim(tmp_path), tmp_path / "journal"
    shim.watch(Watch(str(folder)[-60:], calls, errno.EINTR, number))
    program = (
        "import sys; from pathlib import Path; from tests.journal.test_journal_sync import filled;"
        "filled(Path(sys.argv[1]), flushed=5, more=300)[0].flush()"
    )
    with shim.loaded():
        subprocess.run([sys.executable, "-c", program, folder], cwd=ROOT, check=True, timeout=patience(60))
    assert shim.seen()[0] > number
    assert not sync_failed(folder)
    assert JournalWriter(folder, SEGMENT).state().sequence == 611


def test_after_the_hosts_next_start_what_is_read_is_what_the_disk_has(tmp_path: Path) -> None:
    writer, _ = filled(tmp_path, flushed=5, more=5)
    end = writer.committed()
    noted(tmp_path, begun=1, failed=1, boot=1)
    assert not sync_failed(tmp_path)
    assert JournalWriter(tmp_path, SEGMENT).committed() == end
