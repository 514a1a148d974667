"""A relay with everything on (the CDC port, a lake, a log), and what each must have in the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from examples.dbserver import free_port
from tests.faults.ordeal import Trial
from tests.support.cdc_client import USERS_LINE
from tests.support.exported_lake import Lake
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

_CHANGES = ("insert", "update_postimage", "delete")  # beside those that stand for statements


def settings(data: Path, db: str) -> dict[str, object]:
    """To be given to start_relay; all its files are in `data`, which is made."""
    data.mkdir()
    (data / "log").mkdir()
    (data / "cdcusers").write_text(USERS_LINE)
    return {
        "Relay.DataDir": data,
        "Relay.SegmentBytes": "256KiB",
        "Logger.Schema": db,
        "Logger.Format": "json",
        "Logger.Path": data / "log",
        "Lake.Path": data / "lake",
        "Lake.RollSeconds": "1s",
        "Lake.Snapshot": "manual",
        "CDC.Enabled": "yes",
        "CDC.Port": free_port(),
        "CDC.Address": "127.0.0.1",
        "CDC.AuthAttempts": 1000,
    }


def check(trial: Trial, relay: RelayProcess, data: Path, db: str) -> None:
    """Table usage, log and lake have every row once. Ends the relay."""
    rows = len(trial.load.workload.changes)

    def counted() -> int:
        tables = relay.stat()["usage"]["tables"]
        return sum(sum(table["total"].values()) for table in tables if table["schema"] == db)

    def lines() -> int:
        return sum(path.read_bytes().count(b"\n") for path in (data / "log").glob("*.jsonl"))

    until(lambda: counted() >= rows, 60, "rows that table usage does not count")
    until(lambda: lines() >= rows, 60, "rows that do not come into the log")
    assert counted() == rows
    relay.stop(20)  # with it the exporter seals what it has
    assert lines() == rows
    lake = Lake(data / "lake")
    lake.check()
    sequences = Counter(
        row["_seq"]
        for table in trial.load.workload.tables
        for row in lake.rows(db, table)
        if row["_change_type"] in _CHANGES
    )
    assert set(sequences.values()) <= {1}, "rows that are in the lake twice"
    assert len(sequences) == rows
