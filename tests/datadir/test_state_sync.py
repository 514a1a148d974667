"""A sync of an SQLite file that failed, or whose result is unknown: which content is trusted, and by which process."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay._native import SyncNote
from relay.client import RelayClient
from relay.datadir import sync
from relay.datadir.sqlite import opened
from relay.errors import RelayError, StopCode
from relay.queues.state import ClientState
from tests.faults.powercut import compiled, lose_power
from tests.faults.shim import SYNC, Shim, Watch
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until

_LIFE = """
import os, sqlite3, sys
from pathlib import Path
from relay.datadir import sync
from relay.errors import RelayError
from relay.queues.state import ClientState
data, order, *names = sys.argv[1:]
for file in sync.doubtful(Path(data), "state-writer"):
    sync.rewrite(file)
state = ClientState(Path(data) / "state.db")
for number, name in enumerate(names):
    if name.startswith("fails"):
        Path(order).write_text("state.db")
    try:
        state.add_client(state.last_id() + 1, name)
        state.checkpoint(number + 1, [])
        print(name)
    except (RelayError, sqlite3.OperationalError):
        pass
sys.stdout.flush()
os._exit(0)
"""


class NothingElse(random.Random):
    """Of what was not flushed nothing is on disk."""

    def random(self) -> float:
        return 0.0


def names(path: Path) -> set[str]:
    state = ClientState(path)
    found = {client.name for client in state.clients()}
    state.close()
    return found


def test_what_was_said_to_be_on_disk_is_there_after_a_sync_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, mirror = tmp_path / "data", tmp_path / "mirror"
    data.mkdir()
    shutil.copytree(data, mirror)
    monkeypatch.setenv("LD_PRELOAD", str(compiled(tmp_path)))
    monkeypatch.setenv("RELAY_DATA", str(data))
    monkeypatch.setenv("RELAY_MIRROR", str(mirror))
    said = set[str]()
    for life in (["one", "two", "fails", "three"], ["four", "five"], ["fails again", "six"], ["seven"]):
        done = subprocess.run(
            [sys.executable, "-c", _LIFE, data, f"{mirror}.fail", *life], capture_output=True, text=True, check=True
        )
        said |= set(done.stdout.splitlines())
        copy = tmp_path / f"after {life[0]}"
        shutil.copytree(data, copy)
        lose_power(copy, shutil.copytree(mirror, tmp_path / f"mirror after {life[0]}"), NothingElse())
        assert names(copy / "state.db") >= said, f"after {life}"
    assert said == {"one", "two", "four", "five", "seven"}


def test_after_a_failure_nobody_uses_the_file_until_it_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first, second = ClientState(path), ClientState(path)
    first.add_client(1, "one")
    SyncNote(tmp_path / "state.db-sync").fail()
    uses = lambda: first.add_client(2, "two"), lambda: second.checkpoint(9, []), first.close, lambda: ClientState(path)
    for use in uses:
        with pytest.raises(RelayError) as caught:
            use()
        assert caught.value.code is StopCode.SYNC_FAILED and "state.db" in str(caught.value)
    assert path.with_name("state.db-wal").exists(), "it is not taken for being in the file"
    assert sync.doubtful(tmp_path, "reader") == sync.doubtful(tmp_path, "state-writer") == [path]
    assert not sync.doubtful(tmp_path, "monitor")
    sync.rewrite(path)
    assert not sync.doubtful(tmp_path, "state-writer") and names(path) == {"one"}


def test_a_death_within_a_sync_counts_as_one_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "cdc.db"
    opened(path, 1).close()
    SyncNote(tmp_path / "cdc.db-sync").begin()
    assert sync.doubtful(tmp_path, "cdc-3") == [path]
    sync.rewrite(path)
    assert not sync.doubtful(tmp_path, "cdc-3")


def test_a_log_that_is_damaged_by_then_is_believed_up_to_there(tmp_path: Path) -> None:
    """Pages that the kernel took for written may be read as they were before."""
    path = tmp_path / "state.db"
    state = ClientState(path)
    state.add_client(1, "one")
    log = path.with_name("state.db-wal")
    good = log.stat().st_size
    state.add_client(2, "two")
    with log.open("r+b") as file:
        file.seek(good)
        file.write(bytes(log.stat().st_size - good))
    note = SyncNote(tmp_path / "state.db-sync")
    note.fail()
    sync.rewrite(path)
    assert names(path) == {"one"}


def test_the_log_begins_anew_once_it_is_long(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    database = opened(path, 1)
    database.execute("CREATE TABLE t (v BLOB)")
    log, longest = path.with_name("usage.db-wal"), 0
    for _ in range(200):
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")
        longest = max(longest, log.stat().st_size)
    assert sync.LOG_BYTES < longest < 2 * sync.LOG_BYTES
    database.close()
    assert not log.exists() and path.stat().st_size > 20_000_000


@pytest.mark.parametrize("persists", [False, True], ids=["once", "again and again"])
def test_a_relay_goes_on_after_a_sync_of_its_state_that_failed(
    mariadb1011: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Callable[..., RelayProcess],
    tmp_path: Path,
    persists: bool,
) -> None:
    shim, db = Shim(tmp_path), make_db(mariadb1011)
    with shim.loaded():
        relay = start_relay(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    got = list[int]()
    with RelayClient("127.0.0.1", relay.port, "client", SECRET, patience=20) as client:
        client.add_filter(db)
        time.sleep(2.5)  # it is no quick death
        shim.watch(*(Watch("state.db", SYNC, errno.EIO, at) for at in (range(1, 16) if persists else (1,))))
        if persists:
            mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
            got += [row.after["id"] for row in client.poll_many(wait=patience(5)) if row.after]
            stop = until(lambda: relay.stat()["stop"], 20, "no stop is shown")
            assert stop["code"] == "sync_failed" and "state.db" in stop["text"], stop
            shim.calm()
            time.sleep(1)
            os.system(f"{sys.executable} -m relay resume -c {relay.conf}")
        for id in range(2, 40):
            mariadb1011.execute(f"INSERT INTO {db}.t VALUES ({id})")
            got += [row.after["id"] for row in client.poll_many(wait=0.1) if row.after]
        until(lambda: "state_renewed" in relay.stderr.read_text(), 20, "it was not written anew")

        def rest() -> bool:
            got.extend(row.after["id"] for row in client.poll_many(wait=0.1) if row.after)
            return 39 in got

        until(rest, 20)
    assert sorted(set(got)) == list(range(1 if persists else 2, 40))
    until(lambda: relay.stat()["stop"] is None)
