"""The output of `relay stat` and `relay drain` fits a terminal, and no data from outside can control that terminal."""

from __future__ import annotations

import msgspec
import pytest

from relay.commands.text import stat
from relay.monitoring.stat import CDC, Client, Dropped, Filter, Gap, Journal, Lake, Process, Source, Stat
from relay.runtime.process_status import (
    CDCStatus,
    Counts,
    ExportStatus,
    MergeStatus,
    SnapshotStatus,
    Stop,
    TableUsage,
    Usage,
    Watch,
)
from tests.support.sample_stat import STREAM


def lake(
    lag_bytes: int = 0,
    stop: Stop | None = None,
    path: str = "s3://bucket/" + "lake/" * 20,
    merger: MergeStatus | None = None,
) -> Lake:
    """A lake whose exporter and snapshotter have worked for a while."""
    export = ExportStatus(
        state="following", seq=10**12, position=800, file="binlog.000007", offset=4711, rows=10**12, files=10**6,
        stop=stop,
    )  # fmt: skip
    snapshot = SnapshotStatus(state="reading", table="shop.orders", rows=10**9, total=2 * 10**9, left=4)
    return Lake(path, export, 12345.6, lag_bytes, snapshot, merger)


def document(
    *clients: Client,
    stop: Stop | None = None,
    reader_pid: int = 11,
    decided: int = 900,
    lake: Lake | None = None,
) -> Stat:
    """A document as a relay that has run for a while gives it."""
    return Stat(
        version="1.2.3",
        protocol="00010100",
        at=1.7e9 + 1.0,
        state="running",
        started=1_700_000_000.0,
        stop=stop,
        gaps=[Gap(1.7e9, "binlog.000001:4", "binlog.000005:120", "the source purged it " * 9)],
        source=Source(
            "db.example", 3306, "streaming", "binlog.000007", 4711, "0-1-" + "9" * 120, 1.7e9, 0.25,
            lag_seconds=12345.6, lag_bytes=10**13, loss_seconds=10**6,
            watch=Watch(1.7e9, "binlog.001234", 10**9, 10**13, 864000),
        ),
        journal=Journal(
            first=100, decided=decided, committed=900, flushed=800, bytes=3 * 2**30, sequence=43, max_bytes=2**35
        ),
        rows={"insert": 10**12, "update": 2, "delete": 0},
        traffic={"transactions": 10**10, "bytes": 10**15, "skipped": 3},
        events={f"EVENT_{number}": 10**number for number in range(12)},
        processes=[
            Process("reader", reader_pid, "running", 0, 1.5, 2**23, 0.2),
            Process("broker", 0, "down", 1234, 123456.7, 2**33, 0.0),
        ],
        clients=list(clients),
        usage=Usage(1.6e9, 900, [TableUsage("shop", "orders", Counts(10**12, 2, 0), Counts(10**9), Counts(), 1.7e9)]),
        lake=lake,
        log=None,
        cdc=None,
        addresses={"classic": "0.0.0.0:6001", "http": "http://0.0.0.0:6081/"},
    )  # fmt: skip


def client(name: str = "cache", waiting: int = 0, in_flight: int = 0, schema: str = "shop") -> Client:
    """A client with an unlimited and a limited filter."""
    filters = Filter(schema, "orders", "IUD", 0, 0), Filter(schema, "*", "I", 1, 5000)
    dropped = Dropped(1, 0, 0, 2, 0, 0)
    return Client(
        1,
        name,
        True,
        "connected",
        "192.0.2.7",
        1.7e9,
        0.0,
        filters,
        100,
        97,
        in_flight,
        waiting,
        0,
        99,
        1000,
        0,
        dropped,
        True,
    )


def test_nothing_is_wider_than_the_terminal() -> None:
    stop = Stop("binlog_purged", "the source says " + "word " * 60, "do " * 60)
    shown = stat.stat(
        document(client(name="n" * 300, waiting=10**9, schema="s" * 200), stop=stop, lake=lake(stop=stop))
    )
    assert max(map(len, shown.splitlines())) <= stat.WIDTH
    assert max(map(len, stat.receipt(document(client(name="n" * 300))).splitlines())) <= stat.WIDTH


def test_a_client_is_shown_with_its_filters_and_what_it_lost() -> None:
    shown = stat.stat(document(client(waiting=7, in_flight=1)))
    assert "shop.orders IUD" in shown
    assert "shop.* I, at most 5,000 rows, then drops the oldest" in shown
    assert "dropped: limit_oldest 1, flush 2" in shown
    assert "lagging" in shown


def test_a_named_stop_is_shown_with_its_hint() -> None:
    shown = stat.stat(document(stop=Stop("gtid_gap", "a gap", "mend it")))
    assert "gtid_gap: a gap" in shown
    assert "mend it" in shown


def test_a_source_that_was_never_reached_is_shown_with_what_to_do() -> None:
    new = document()
    new.source.state, new.source.file, new.source.silent_seconds = "reconnecting", "", 0.0
    shown = stat.stat(new)
    assert "reconnecting, no event yet" in shown and "`relay check` reports what is wrong" in shown
    assert "position" not in shown and "none; `relay tail` prints rows" in shown


def test_a_relay_without_rows_is_shown_with_what_to_do() -> None:
    new = document()
    assert "insert a row at the source" not in stat.stat(new)
    new.usage.tables = []
    assert "insert a row at the source: it appears here and at clients" in stat.stat(new)
    new.state = "stopped"
    assert "insert a row at the source" not in stat.stat(new)


def test_before_the_first_transaction_nothing_is_said_to_be_unflushed() -> None:
    new = document()
    assert "100 B not flushed" in stat.stat(new)
    new.journal.committed = 0
    assert "0 B not flushed" in stat.stat(new)


def test_a_lake_is_shown_with_what_waits_and_with_a_stop_of_its_own() -> None:
    shown = stat.stat(document(lake=lake(4096, Stop("journal_lost", "a part of it is gone", "accept the gap"))))
    assert "relay 1.2.3: running" in shown, "the clients are served"
    assert "following, 3 h 25 min and 4.0 KiB behind" in shown
    assert "journal_lost: a part of it is gone" in shown and "accept the gap" in shown
    assert "reading shop.orders, 1,000,000,000 of about 2,000,000,000 rows, 4 tables left" in " ".join(shown.split())


@pytest.mark.parametrize("name", ["\x1b[2Jgone", "a\nb", "\udcff", "\u202egnp"])
def test_names_cannot_steer_the_terminal(name: str) -> None:
    hostile = msgspec.structs.replace(STREAM, user=name, uuid=name, schema=name, table=name)
    waiting = msgspec.structs.replace(hostile, version=0)
    status = CDCStatus(state="serving", trouble=f"Permission denied: {name}", streams=[hostile, waiting])
    port = CDC("0.0.0.0", 4001, [status])
    shown = stat.stat(msgspec.structs.replace(document(client(name=name, schema=name)), cdc=port))
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert name not in shown
    shown.encode()


def test_a_receipt_counts_what_remains() -> None:
    assert stat.receipt(document(client())).endswith("no rows remain")
    left = stat.receipt(document(client(waiting=1000), client(name="other", in_flight=1)))
    assert left.endswith("1,001 rows remain")
    assert "binlog.000007:4711" in left
    assert "changes 42" in left
    assert "not exported" not in left
    assert "lake       4.0 KiB not exported to s3://bucket/" in stat.receipt(document(lake=lake(4096)))
    port = CDC("0.0.0.0", 4001, [CDCStatus(state="serving", streams=[STREAM])])
    shown = stat.receipt(msgspec.structs.replace(document(), cdc=port))
    assert "cdc        1 connection, the slowest 50 B behind" in shown


def test_a_drain_is_done_when_nothing_is_read_queued_or_waiting() -> None:
    assert stat.drained(document(client(), reader_pid=0))
    assert not stat.drained(document(client(), reader_pid=11))
    assert not stat.drained(document(client(waiting=1), reader_pid=0))
    assert not stat.drained(document(client(in_flight=1), reader_pid=0))
    assert not stat.drained(document(client(), reader_pid=0, decided=899))
    assert stat.drained(document(client(), reader_pid=0, lake=lake()))
    assert not stat.drained(document(client(), reader_pid=0, lake=lake(lag_bytes=1)))
    assert stat.drained(document(client(), reader_pid=0, lake=lake(1, Stop("lake_conflict", "", "")))), "it waits"
    assert not stat.drained(document(client(), reader_pid=0, lake=lake(merger=MergeStatus(seq=10**12 - 1))))
    assert stat.drained(document(client(), reader_pid=0, lake=lake(merger=MergeStatus(seq=10**12))))
    stopped = MergeStatus(stop=Stop("unexpected", "", ""))
    assert stat.drained(document(client(), reader_pid=0, lake=lake(merger=stopped))), "it waits"


def test_the_cdc_port_shows_how_many_are_connected_how_far_behind_and_its_stops() -> None:
    first = CDCStatus(state="serving", refused=3, streams=[STREAM, msgspec.structs.replace(STREAM, lag_bytes=5 << 20)])
    second = CDCStatus(state="stopped", trouble="Permission denied: cdcusers", stop=Stop("unexpected", "why", "hint"))
    shown = stat.stat(msgspec.structs.replace(document(), cdc=CDC("0.0.0.0", 4001, [first, second])))
    line = " ".join(shown[shown.index("0.0.0.0:4001") :].split())
    assert line.startswith(
        "0.0.0.0:4001 serving, stopped, 2 connections, the slowest 5.0 MiB behind; 0 rows, 0 B sent;"
    )
    assert "3 logins rejected" in line
    assert "Permission denied: cdcusers" in line and "unexpected" in line


def test_cdc_streams_are_shown_with_their_places_the_ones_furthest_behind_first() -> None:
    waiting = msgspec.structs.replace(
        STREAM, user="w" * 99, port=2, state="registered", table="to come", version=0, gtid="", lag_bytes=0, rows=0
    )
    nobody = msgspec.structs.replace(waiting, user="", port=3, state="wait_auth", form="", schema="", table="")
    slow = msgspec.structs.replace(STREAM, user="slow", port=4, lag_bytes=5 << 20, form="avro", rows=10**15)
    first = CDCStatus(state="serving", rows=7, bytes=900, streams=[STREAM, nobody])
    second = CDCStatus(state="serving", streams=[waiting, slow], left_out=1200)
    made = msgspec.structs.replace(document(), cdc=CDC("0.0.0.0", 4001, [first, second]))
    lines = stat.stat(made).splitlines()
    assert max(map(len, lines)) <= stat.WIDTH
    place = next(number for number, line in enumerate(lines) if line.startswith("CDC USER"))
    assert lines[place - 1] == ""
    assert [" ".join(line.split()) for line in lines[place : place + 10]] == [
        "CDC USER TABLE STATE FORM ROWS BEHIND",
        "slow shop.orders streaming avro 1,000 T 5.0 MiB",
        "from 192.0.2.8:4 for 1.0 s, 900 B sent; version 2 at 0-3000-11",
        "maxuser shop.orders streaming json 7 50 B",
        "from 192.0.2.8:50000 for 1.0 s, 900 B sent; version 2 at 0-3000-11",
        "- - wait_auth 0 -",
        "from 192.0.2.8:3 for 1.0 s, 900 B sent",
        f"{'w' * 14}… shop.to come registered json 0 -",
        "from 192.0.2.8:2 for 1.0 s, 900 B sent; waiting for shop.to come",
        "1,200 more connections",
    ]
    nowhere = msgspec.structs.replace(made, cdc=CDC("0.0.0.0", 4001, [CDCStatus(state="serving")]))
    assert "CDC USER" not in stat.stat(nowhere)
