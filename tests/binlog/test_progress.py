"""A stream's position is tracked event by event, and packets are joined, however the bytes arrive."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay._native import Packets
from relay.binlog import BinlogError, Decoder, Flag, Replication
from relay.binlog.progress import Progress
from tests.support.binlogs import ARTIFICIAL, made, opening, query, table_map, write_rows, xid

HEARTBEAT, GTID_LIST, MARIADB_GTID, STANDALONE = 27, 163, 162, 1
BEYOND = 1 << 32


def followed(replication: Replication, *packets: bytes) -> Replication:
    """The description after events."""
    progress = Progress(replication, Decoder())
    for packet in packets:
        for event in events_in(packet):
            progress.advance(event)
    return replication


def events_in(packets: bytes) -> list[bytes]:
    found = []
    while packets:
        size = int.from_bytes(packets[:3], "little")
        found.append(packets[5 : 4 + size])
        packets = packets[4 + size :]
    return found


def begun_at(position: int, *packets: bytes, gtid_set: str = "") -> tuple[int, int, str]:
    """Of a stream that begins there: where to go on, where the last event ended, GTIDs."""
    replication = Replication("binlog.000001", position, 7, gtid_set=gtid_set)
    followed(replication, opening("binlog.000001", position), *packets)
    return replication.start_position, replication.position, replication.gtid_set


def mariadb_gtid(number: int, end: int, flags: int = 0, domain: int = 0) -> bytes:
    return made(MARIADB_GTID, struct.pack("<QIB6x", number, domain, flags), end)


def test_positions_go_on_beyond_4_gib() -> None:
    near = BEYOND - 100
    first = query("BEGIN", near + 50), table_map(1, "t", BEYOND + 20), write_rows(1, [1], BEYOND + 70)
    assert begun_at(near, *first) == (near, BEYOND + 70, "")
    assert begun_at(near, *first, xid(BEYOND + 120)) == (BEYOND + 120, BEYOND + 120, "")
    assert begun_at(3 * BEYOND + 4, query("BEGIN", 3 * BEYOND + 90)) == (3 * BEYOND + 4, 3 * BEYOND + 90, "")


def test_events_without_a_position_are_counted_and_the_commit_corrects() -> None:
    # MariaDB 11.4 and later; events that the server did not send (ANNOTATE_ROWS) are missing in the count.
    rows = table_map(1, "t", 0), write_rows(1, [1], 0)
    counted = sum(len(packet) - 5 for packet in rows)
    begun = mariadb_gtid(5, 200)
    assert begun_at(150, begun, *rows) == (150, 200 + counted, "")
    assert begun_at(150, begun, *rows, xid(900)) == (900, 900, "0-7-5")


def test_what_the_sending_thread_makes_moves_nothing() -> None:
    heartbeat = made(HEARTBEAT, b"binlog.000001", 5000, timestamp=0)
    artificial = made(GTID_LIST, struct.pack("<I", 0), 6000, ARTIFICIAL)
    assert begun_at(150, heartbeat, artificial) == (150, 150, "")


def test_a_rotate_begins_a_file_and_ends_what_was_under_way() -> None:
    replication = Replication("binlog.000001", 4, 7)
    rotate = made(4, struct.pack("<Q", 4) + b"binlog.000002", 500)
    followed(replication, opening("binlog.000001", 4), query("BEGIN", 200), rotate)
    assert (replication.file_name, replication.start_position, replication.position) == ("binlog.000002", 4, 4)
    followed(replication, opening("binlog.000002", 4), query("CREATE TABLE x (a INT)", 300))
    assert replication.start_position == 300


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ((mariadb_gtid(5, 200, STANDALONE), query("CREATE TABLE t (a INT)", 300)), (300, 300, "0-7-5")),
        ((mariadb_gtid(5, 200, STANDALONE),), (150, 200, "")),
        ((mariadb_gtid(5, 200), query("INSERT INTO t VALUES (1)", 300)), (150, 300, "")),
        ((mariadb_gtid(5, 200), query("COMMIT", 300)), (300, 300, "0-7-5")),
        ((mariadb_gtid(5, 200), query("ROLLBACK TO `s`", 300)), (150, 300, "")),
        ((mariadb_gtid(5, 200, domain=3), xid(300)), (300, 300, "3-7-5")),
        ((query("XA START X'61',X'',1", 200), query("XA END X'61',X'',1", 300)), (150, 300, "")),
        ((query("XA COMMIT X'61',X'',1", 200),), (200, 200, "")),
        ((query("BEGIN", 200), query("savepoint x", 300)), (150, 300, "")),
        ((query("create table t select 1 START TRANSACTION", 200), table_map(1, "t", 300)), (150, 300, "")),
    ],
)
def test_where_transactions_end(packets: Sequence[bytes], expected: tuple[int, int, str]) -> None:
    assert begun_at(150, *packets) == expected


def test_a_gtid_list_of_a_file_counts_where_the_stream_did_not_begin_by_gtid() -> None:
    known = made(GTID_LIST, struct.pack("<IIIQ", 1, 2, 9, 8), 300)
    assert begun_at(4, known) == (300, 300, "2-9-8")
    by_gtid = Replication(flags=Flag.GTID, gtid_set="2-9-7", server_id=7)
    followed(by_gtid, opening("binlog.000001", 4), known)
    assert by_gtid.gtid_set == "2-9-7"


def test_of_several_servers_in_a_domain_of_a_gtid_list_the_last_one_is_the_newest() -> None:
    listed = ((0, 77, 5), (0, 3, 6), (7, 3, 2))
    known = made(
        GTID_LIST, struct.pack("<I", len(listed)) + b"".join(struct.pack("<IIQ", *gtid) for gtid in listed), 300
    )
    assert begun_at(4, known) == (300, 300, "0-3-6,7-3-2")


def test_an_event_whose_size_is_not_its_own_is_named_with_its_place() -> None:
    progress = Progress(Replication("binlog.000001", 150, 7), Decoder())
    for event in (b"", bytes(18), bytes(19), events_in(xid(200))[0][:-1], events_in(xid(200))[0] + b"\0"):
        with pytest.raises(BinlogError, match=r"binlog\.000001:150"):
            progress.advance(event)


@given(st.lists(st.binary(max_size=300), max_size=30), st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_packets_come_out_as_they_went_in_however_they_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    sent = b"".join(len(payload).to_bytes(3, "little") + b"\0" + payload for payload in payloads)
    assert received(sent, cuts) == payloads


@pytest.mark.parametrize("size", [0xFFFFFE, 0xFFFFFF, 0x1000000, 2 * 0xFFFFFF, 2 * 0xFFFFFF + 1])
def test_packets_of_16_mb_are_joined_with_what_continues_them(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    payload = payload[:size]
    sent = b""
    for at in range(0, size + 1, 0xFFFFFF):
        part = payload[at : at + 0xFFFFFF]
        sent += len(part).to_bytes(3, "little") + b"\0" + part
    assert received(sent + b"\1\0\0\0x", [1 << 18]) == [payload, b"x"]


def received(sent: bytes, cuts: Sequence[int]) -> list[bytes]:
    packets, found, at, turn = Packets(), [], 0, 0
    while at < len(sent):
        room = packets.buffer()
        count = min(cuts[turn % len(cuts)], len(room), len(sent) - at)
        room[:count] = sent[at : at + count]
        packets.received(count)
        at, turn = at + count, turn + 1
        while (payload := packets.next()) is not None:
            found.append(payload)
    return found
