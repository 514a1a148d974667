"""Disks that are full or damaged: a fatal error, nothing lost, and clients that are served meanwhile."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.datadir.disk_errors import fatal_error
from relay.errors import ErrorCode, RelayError
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.server_processes import QUEUE_MEMORY, Serving
from tests.support.waiting import until

Start = Callable[..., RelayProcess]


def ids(client: RelayClient, wait: float) -> list[object]:
    return [row.after["id"] for row in client.poll_many(wait=wait) if row.after]


def room(pid: int, size: int) -> None:
    """Let the process write files of up to `size` bytes; -1: of any size."""
    psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (size, -1))


def test_a_journal_without_room_is_a_named_stop_and_goes_on_where_it_stood(
    mariadb1011: DatabaseServer, start_relay: Start, make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT)")
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter(db)
        room(relay.pids()["reader"], 1 << 20)  # of which a file of the journal takes four
        values = ", ".join(["(REPEAT('x', 4000))"] * 500)
        for _ in range(4):  # beyond the file that is there
            mariadb1011.execute(f"INSERT INTO {db}.t (v) VALUES {values}")
        until(lambda: relay.stat()["stop"])
        assert relay.stat()["stop"]["code"] == "disk_full"
        assert "free space for DataDir" in relay.stat()["stop"]["hint"]
        got = ids(client, 5)
        assert got, "what is in the queues is served"
        assert run_relay("resume", "-c", relay.conf).returncode == 0  # the successor has no limit
        while len(got) < 2000:
            got += ids(client, 10)
        assert got == list(range(1, 2001))


def test_a_broker_that_can_write_nothing_down_goes_on_serving(
    mariadb1011: DatabaseServer, start_relay: Start, make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT)")
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter(db)
        broker, writer = relay.pids()["broker"], relay.pids()["state-writer"]
        room(writer, 8192)  # of which state.db has more, and the log less
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1), (2)")
        assert ids(client, 10) == [1, 2]
        until(lambda: "checkpoint_failed" in relay.stderr.read_text())
        with pytest.raises(RelayError, match="disk"):
            RelayClient("127.0.0.1", relay.port, "stranger", SECRET, patience=0).connect()
        assert relay.stat()["state"] == "running" and relay.pids()["broker"] == broker
        assert relay.pids()["state-writer"] == writer
        room(writer, -1)
        with RelayClient("127.0.0.1", relay.port, "stranger", SECRET) as stranger:
            stranger.add_filter(db)
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES (3)")
        assert ids(client, 10) == [3]
    time.sleep(1.5)  # a checkpoint
    relay.stop()
    assert relay.stderr.read_text().count("checkpoint_failed") == 1, "told once, not each second"


def test_a_queue_for_which_there_is_no_memory_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    def full(offset: int, size: int) -> None:
        raise RelayError(ErrorCode.ENVIRONMENT, "allocate shared memory", "No space left on device")

    running = Serving(tmp_path)
    running.allocate = full
    with running:
        modest, greedy = running.client("modest", "shop.*"), running.client("greedy")
        refused = greedy.add_filter("shop", "*", limit=QUEUE_MEMORY // 64)
        assert refused.text == "allocate shared memory: No space left on device"
        running.insert((1, "a"), (2, "b"))
        assert modest.ids(2) == [1, 2]


def test_only_a_full_disk_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    database.execute("CREATE TABLE t (v BLOB)")
    database.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as full:
        database.execute("INSERT INTO t VALUES (ZEROBLOB(1000000))")
    (tmp_path / "b.db").write_bytes(b"no database " * 1000)
    with pytest.raises(sqlite3.DatabaseError) as damaged:
        sqlite3.connect(tmp_path / "b.db").execute("SELECT * FROM t")
    with pytest.raises(sqlite3.OperationalError) as wrong:
        database.execute("SELECT * FROM nothing")
    with pytest.raises(OSError) as device, open("/dev/full", "wb", buffering=0) as file:
        file.write(b"x")
    stops = map(fatal_error, (full.value, device.value, damaged.value, wrong.value))
    codes = [stop and str(stop.code) for stop in stops]
    assert codes == ["disk_full", "disk_full", "state_damaged", None]
    assert fatal_error(FileNotFoundError("x")) is None and fatal_error(sqlite3.ProgrammingError("closed")) is None
