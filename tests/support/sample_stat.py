"""A stat document with data in each of its parts, as from a relay with a lake and a log."""

from __future__ import annotations

import msgspec

from relay.monitoring.stat import CDC, Client, Dropped, Filter, Gap, Journal, Lake, LineLog, Process, Source, Stat
from relay.runtime.process_status import (
    AssumedRows,
    AssumedTable,
    CDCStatus,
    CDCStream,
    Counts,
    ExportStatus,
    LogStatus,
    MergeStatus,
    OpenTableStatus,
    PassedOver,
    SnapshotStatus,
    StatementCount,
    Stop,
    TableUsage,
    Usage,
    Watch,
)

HOSTILE = 'a"b\\c\n{x="1"} 1\n# TYPE <script>alert(1)</script> \u202e\u2028é'

PROCESSES = ["reader", "broker", "state-writer", "monitor", "exporter", "snapshotter", "logger", "cdc-0", "server-0"]

STREAM = CDCStream(
    user="maxuser", uuid=HOSTILE, address="192.0.2.8", port=50000, state="streaming", form="json",
    schema="shop", table="orders", version=2, gtid="0-3000-11", position=650, lag_bytes=50, rows=7, bytes=900,
    since=1.7e9,
)  # fmt: skip


def client(client_id: int = 1, name: str = "cache") -> Client:
    """A connected client with a filter on shop.orders and one on all of archive."""
    return Client(
        id=client_id,
        name=name,
        connected=True,
        status="connected",
        address="192.0.2.7",
        first_seen=1.6e9,
        last_seen=1.7e9,
        filters=(Filter("shop", "orders", "IU", 0, 0), Filter("archive", "*", "D", 1, 5000)),
        matched=100,
        confirmed=60,
        in_flight=10,
        waiting=20,
        waiting_limited=0,
        served=75,
        max_waiting=50,
        repeats=0,
        dropped=Dropped(1, 2, 3, 4, 0, 0),
        lagging=False,
    )


def document(*clients: Client, stop: Stop | None = None, **changes: object) -> Stat:
    """The document of a relay that streams or has stopped; `changes` override its fields."""
    made = Stat(
        version="1.2.3",
        protocol="00010100",
        at=1.7e9 + 1.0,
        state="stopped" if stop else "running",
        started=1.7e9,
        stop=stop,
        gaps=[Gap(1.7e9, "binlog.000001:4", "binlog.000005:120", "purged")],
        source=Source(
            "db.example", 3306, "streaming", "binlog.000007", 4711, "0-1-9", 1.7e9, 0.25,
            lag_seconds=1.5, lag_bytes=4096, loss_seconds=86400.0,
            watch=Watch(1.7e9, "binlog.000007", 8807, 4096, 864000),
        ),
        journal=Journal(100, 900, 900, 800, 3 * 2**30, 43, 20 * 2**30),
        rows={"insert": 10, "update": 20, "delete": 30},
        traffic={"transactions": 7, "bytes": 12345, "skipped": 0},
        events={"XID_EVENT": 7, "WRITE_ROWS_EVENT": 3},
        processes=[
            Process(name, 100 + slot, "running", 0, 1.5, 2**23, 0.2)
            for slot, name in enumerate(PROCESSES)
        ],
        clients=list(clients),
        usage=Usage(1.6e9, 900, [TableUsage("shop", "orders", Counts(10, 20, 30), Counts(1, 2, 3), Counts(1), 1.7e9)]),
        lake=Lake(
            "s3://bucket/lake", ExportStatus(state="following", seq=42, position=800, rows=80, files=3), 0.5, 100,
            SnapshotStatus(state="idle", left=2),
            MergeStatus(
                state="following", tables=[OpenTableStatus("shop", "orders", 70, 2, 4096, 42, 1.7e9, 0.4, 1.7e9)]
            ),
        ),
        log=LineLog("/var/log/relay", LogStatus(state="following", position=700, lines=60, bytes=6000), 0.7, 200),
        cdc=CDC("0.0.0.0", 4001, [CDCStatus(state="serving", position=700, streams=[STREAM])]),
        addresses={"classic": "0.0.0.0:6001", "http": "http://0.0.0.0:6081/"},
        passed_over=PassedOver([StatementCount("mysql", "rds_heartbeat2", 12, "binlog.000007:8800")], 3),
        assumed=AssumedRows(
            [AssumedTable("shop", "old", 40, "binlog.000007:400", "binlog.000007:4100", "utf8mb4", "?", ["shop"])], 2
        ),
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)
