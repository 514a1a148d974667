"""The lake of a running relay: a separate process, whose fatal errors stop nothing else, and an orderly end."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.errors import ExitCode
from relay.lake.delta.table import OpenTable
from relay.lake.documents import Table
from relay.lake.storage import open_storage
from tests.support.exported_lake import Lake
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]
LAKE = {"Lake.Path": "lake", "Lake.RollSeconds": "1s", "Lake.Snapshot": "manual"}


def lake_of(relay: RelayProcess) -> Lake:
    return Lake(relay.conf.parent / "lake")


def ids(lake: Lake, db: str) -> list[int]:
    return [row["id"] for row in lake.rows(db, "t") if row["_change_type"] == "insert"]


@pytest.fixture
def db(mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    """A database with an empty table t."""
    name = make_db(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    return name


def test_the_relay_keeps_a_lake_level_and_drains_it(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, LAKE)
    lake = lake_of(relay)
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1), (2)")
    until(lambda: (lake.folder / "_log").is_dir() and ids(lake, db) == [1, 2])
    status = until(lambda: (found := relay.stat()["lake"])["export"]["rows"] == 2 and found)
    assert status["path"] == str(lake.folder) and status["export"]["stop"] is None
    assert status["export"]["state"] == "following"
    assert "2 rows in 1 files" in " ".join(run_relay("stat", "-c", relay.conf).stdout.split())
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (3)")
    drained = run_relay("drain", "-c", relay.conf)
    assert drained.returncode == ExitCode.OK, drained.stderr
    assert relay.wait() == 0
    assert ids(lake, db) == [1, 2, 3]
    lake.check()


def test_a_drain_waits_for_open_tables(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, LAKE | {"Lake.OpenTables": "delta"})
    until(lambda: (relay.stat()["lake"]["open_tables"] or {}).get("state") == "following")
    mariadb1011.execute(f"CREATE TABLE {db}.new (id INT PRIMARY KEY)", f"INSERT INTO {db}.new VALUES (1), (2)")
    drained = run_relay("drain", "-c", relay.conf)
    assert drained.returncode == ExitCode.OK, drained.stderr
    assert relay.wait() == 0
    table = OpenTable(open_storage(str(lake_of(relay).folder)), Table(db, "new"))
    assert table.rows == 2


def test_what_was_read_when_the_relay_is_stopped_is_in_the_lake(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LAKE | {"Lake.RollSeconds": "1h"})
    lake = lake_of(relay)
    until(lambda: relay.stat()["lake"]["export"]["state"] == "following", what="the exporter does not begin")
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter("*")
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
        until(lambda: client.poll_many(wait=1))
    assert ids(lake, db) == []
    assert relay.stop() == 0
    assert ids(lake, db) == [1], "sealed after the reader flushed its last"
    assert "killed process=exporter" not in relay.stderr.read_text()


@pytest.mark.slow
def test_a_named_stop_of_the_export_is_shown_and_stops_nothing_else(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LAKE)
    lake = lake_of(relay)
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: (lake.folder / "_log").is_dir() and ids(lake, db) == [1])
    other = run_relay("export", "-c", relay.conf)  # a second exporter of the same lake
    assert other.returncode == ExitCode.OK, other.stderr
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (2)")

    def conflict() -> Any:
        run_relay("export", "-c", relay.conf)
        return (relay.stat()["lake"]["export"]["stop"] or {}).get("code") == "lake_conflict"

    for number in range(3, 30):
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES ({number})")
        if conflict():
            break
    document = relay.stat()
    assert document["lake"]["export"]["stop"]["code"] == "lake_conflict"
    assert document["lake"]["export"]["state"] == "stopped"
    assert document["state"] == "running" and document["stop"] is None
    assert "lake_conflict" in run_relay("stat", "-c", relay.conf).stdout
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter("*")
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1000)")
        assert [row.after for row in client.poll_many(wait=patience(10))] == [{"id": 1000}], (
            "clients are served as before"
        )
    assert run_relay("resume", "-c", relay.conf).returncode == 0
    until(lambda: 1000 in ids(lake, db))
    assert relay.stat()["lake"]["export"]["stop"] is None
    assert set(lake.sequences().values()) == {1}


@pytest.mark.slow
def test_a_lost_journal_is_a_stop_of_the_export_until_it_is_accepted(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LAKE)
    lake = lake_of(relay)
    mariadb1011.execute(f"CREATE TABLE {db}.known (id INT)", f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: (lake.folder / "_log").is_dir() and ids(lake, db) == [1])
    relay.stop()
    seq = lake.state().place.seq  # type: ignore[union-attr]
    shutil.rmtree(relay.conf.parent / "data")
    relay.start()
    stop = until(lambda: relay.stat()["lake"]["export"]["stop"])
    assert stop["code"] == "journal_lost" and "--accept-gap" in stop["hint"]
    assert relay.stat()["state"] == "running"
    relay.accept_gap()
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (2)")
    until(lambda: ids(lake, db) == [1, 2])
    [gap] = lake.state().gaps
    assert gap.seq > seq and "the lake was exported from" in gap.reason
    assert lake.rows(db, "t")[-1]["_seq"] > gap.seq
    assert lake.table(db, "known").complete_from is None, "what happened meanwhile is not known"


def test_without_pyarrow_the_relay_runs_and_says_what_the_lake_needs(
    mariadb1011: DatabaseServer, start_relay: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "pyarrow.py").write_text("raise ImportError('blocked for a test')\n")
    monkeypatch.setenv("PYTHONPATH", f"{blocked}:{os.getcwd()}")
    plain = start_relay(mariadb1011)
    assert plain.stat()["lake"] is None
    plain.stop()
    relay = start_relay(mariadb1011, LAKE)
    stop = until(lambda: relay.stat()["lake"]["export"]["stop"])
    assert all(relay.stat()["lake"]["export"]["stop"] == stop for _ in range(20)), "it is tried again meanwhile"
    assert stop["code"] == "environment" and stop["hint"] == "pip install 'binlog-relay[lake]'"
    assert relay.stat()["state"] == "running"
    by_hand = run_relay("export", "-c", relay.conf)
    assert by_hand.returncode == ExitCode.ENVIRONMENT and "pip install 'binlog-relay[lake]'" in by_hand.stderr
    assert relay.stop() == 0


@pytest.mark.slow
def test_retention_waits_for_the_lake(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    relay = start_relay(
        mariadb1011,
        LAKE
        | {
            "Lake.RollSeconds": "1h",
            "Relay.SegmentBytes": "64KiB",
            "Relay.JournalKeepBytes": "0",
            "Relay.JournalKeepAge": "0",
            "Relay.JournalMaxBytes": "4MiB",
        },
    )
    lake = lake_of(relay)
    mariadb1011.execute(f"ALTER TABLE {db}.t ADD COLUMN v VARCHAR(1000)")
    for number in range(8):
        values = ", ".join(f"({number * 100 + each}, REPEAT('x', 1000))" for each in range(100))
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES {values}")
    until(lambda: relay.stat()["journal"]["flushed"] > 800_000)
    time.sleep(2.5)  # two rounds of retention
    assert relay.stat()["journal"]["first"] < 10_000, "nothing is exported yet"
    relay.stop()
    assert len(ids(lake, db)) == 800
    relay.start()
    until(lambda: relay.stat()["journal"]["first"] > 700_000)
    assert relay.stat()["lake"]["export"]["stop"] is None


@pytest.mark.slow
def test_the_cap_is_kept_whatever_the_lake_needs(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    settings = {"Relay.SegmentBytes": "64KiB", "Relay.JournalKeepBytes": "0", "Relay.JournalMaxBytes": "1MiB"}
    relay = start_relay(mariadb1011, LAKE | settings)
    lake = lake_of(relay)
    mariadb1011.execute(f"ALTER TABLE {db}.t ADD COLUMN v VARCHAR(1000)", f"INSERT INTO {db}.t VALUES (-1, '')")
    until(lambda: (lake.folder / "_log").is_dir() and ids(lake, db) == [-1])
    exporter = relay.pids()["exporter"]
    os.kill(exporter, signal.SIGSTOP)
    for number in range(30):
        values = ", ".join(f"({number * 100 + each}, REPEAT('x', 1000))" for each in range(100))
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES {values}")
    until(lambda: relay.stat()["journal"]["committed"] > 3_000_000)
    until(lambda: relay.stat()["journal"]["bytes"] <= 1 << 20)
    assert "journal_cap_near" in relay.stderr.read_text() and "exported=" in relay.stderr.read_text()
    os.kill(exporter, signal.SIGCONT)
    stop = until(lambda: relay.stat()["lake"]["export"]["stop"])
    assert stop["code"] == "journal_lost" and "retention" in stop["text"]
    assert relay.stat()["state"] == "running"
