"""The ingest on constructed streams: rare behaviour of servers, damage, a full disk."""

from __future__ import annotations

import ctypes
import random
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from relay._native import Attention, Ingest
from relay.errors import RelayError, StopCode
from relay.journal import frames
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition
from tests.support.made_streams import START, plain, transaction

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

INSERT = 1


@pytest.fixture
def fed(tmp_path: Path) -> Fed:
    return Fed(tmp_path)


def test_damage_is_found_and_named(fed: Fed) -> None:
    good = plain(transaction(1, 1000))
    damaged = bytearray(good + transaction(2, 2000))
    damaged[-60] ^= 4
    fed.begin(START)
    with pytest.raises(RelayError) as caught:
        fed.feed(bytes(damaged))
    assert caught.value.code == StopCode.CHECKSUM_MISMATCH
    assert caught.value.position.startswith("binlog.000001:2")
    assert fed.writer.state().position == 2000


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """In the events, that is: their packets' heads are not under the checksum."""
    good = transaction(1, 1000)
    chance = random.Random(3)
    packets = binlogs.split(good)
    for case in range(60):
        fed = Fed(tmp_path / str(case))
        fed.begin(START)
        which = chance.randrange(len(packets))
        bad = bytearray(packets[which])
        at = chance.randrange(5, len(bad))
        bad[at] ^= 1 << chance.randrange(8)
        with pytest.raises(RelayError) as caught:
            fed.feed(plain(*packets[:which], bytes(bad), *packets[which + 1 :]))
        assert caught.value.code in (StopCode.CHECKSUM_MISMATCH, StopCode.UNKNOWN_EVENT)
        assert not fed.rows()


def test_events_that_say_no_position_are_counted_by_length(fed: Fed) -> None:
    inside = binlogs.table_map(5, "t", 0) + binlogs.write_rows(5, [1], 0)
    fed.begin(START)
    fed.feed(plain(binlogs.query("BEGIN", 100), inside))
    assert fed.ingest.position == 100 + len(inside) - 2 * 5  # without the packets' heads
    fed.feed(binlogs.xid(5000))
    assert fed.writer.state().position == 5000


def test_going_back_to_a_savepoint_is_never_passed_over(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.query("ROLLBACK TO `s`", 99), binlogs.xid(150)))
    assert [asked.asks for asked in fed.asked] == ["unknown"]


def test_rows_of_a_table_that_was_not_mapped(fed: Fed) -> None:
    fed.begin(START)
    with pytest.raises(RelayError, match="not mapped") as caught:
        fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.write_rows(5, [1], 100)))
    assert caught.value.code == StopCode.UNKNOWN_EVENT
    assert "binlog.000001:" in str(caught.value)


def test_a_table_that_the_source_opens_again_is_known_by_its_name(fed: Fed) -> None:
    """A server with more tables than its cache holds maps them with a new id each time."""
    tables = [f"t{number}" for number in range(3)]
    fed.begin(START)
    fed.feed(plain())
    for number in range(12):
        fed.feed(transaction(number, 1000 * (number + 1), table_id=100 + number, table=tables[number % 3]))
    assert [asked.table_id for asked in fed.asked] == [100, 101, 102]
    kept = [frame for frame in fed.frames() if isinstance(frame, frames.Rows)]
    assert [frame.table for frame in kept] == [kept[number % 3].table for number in range(12)]


@pytest.mark.parametrize(
    ("change", "asks"),
    [
        (lambda ingest: ingest.redefined("test", "t"), True),
        (lambda ingest: ingest.redefined("TEST", "T"), True),
        (lambda ingest: ingest.redefined("test", "other"), False),
        (lambda ingest: ingest.redefined("tes", "tt"), False),
        (lambda ingest: ingest.new_epoch(), True),
    ],
)
def test_a_table_that_may_have_changed_is_asked_for_again_whatever_its_id_is(
    fed: Fed, change: Callable[[Ingest], None], asks: bool
) -> None:
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000)))
    change(fed.ingest)
    fed.feed(transaction(2, 2000, table_id=6))
    assert [asked.table_id for asked in fed.asked] == [5, 6][: 1 + asks]


def test_a_map_with_other_columns_is_asked_for(fed: Fed) -> None:
    fed.begin(START)
    other = binlogs.table_map(6, "t", 1200, nullable=False)
    fed.feed(plain(transaction(1, 0), binlogs.query("BEGIN", 1100), other))
    assert [asked.table_id for asked in fed.asked] == [5, 6]


@pytest.mark.parametrize(
    ("change", "nullable", "asks"),
    [
        (lambda ingest: None, True, []),
        (lambda ingest: None, False, [5]),
        (lambda ingest: ingest.redefined("test", "t"), True, [5]),
        (lambda ingest: ingest.new_epoch(), True, [5]),
    ],
)
def test_the_expected_map_of_a_table_is_not_asked_for_unless_it_may_have_changed(
    fed: Fed, change: Callable[[Ingest], None], nullable: bool, asks: list[int]
) -> None:
    fed.begin(START)
    expected = binlogs.body_of(binlogs.table_map(5, "t", 0))
    definition = msgspec.msgpack.encode(binlogs.defined(expected))
    fed.ingest.expect(expected[6:], definition, definition)
    change(fed.ingest)
    fed.feed(
        plain(
            binlogs.query("BEGIN", 50),
            binlogs.table_map(5, "t", 100, nullable),
            binlogs.write_rows(5, [1], 200),
            binlogs.xid(300),
        )
    )
    assert [asked.table_id for asked in fed.asked] == asks
    assert fed.rows() == [("t", 1, 1)]


def test_a_map_holds_for_one_statement(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000)))
    with pytest.raises(RelayError, match="did not map"):
        fed.feed(binlogs.query("BEGIN", 2050) + binlogs.write_rows(5, [1], 2100))


def test_a_map_does_not_hold_beyond_its_group(fed: Fed) -> None:
    fed.begin(START)
    open_statement = binlogs.table_map(5, "t", 200) + binlogs.write_rows(5, [1], 300, statement_end=False)
    fed.feed(plain(binlogs.query("BEGIN", 100), open_statement, binlogs.xid(400)))
    with pytest.raises(RelayError, match="did not map"):
        fed.feed(binlogs.query("BEGIN", 500) + binlogs.write_rows(5, [1], 600))


def test_rows_that_do_not_fit_their_table(fed: Fed) -> None:
    fed.begin(START)
    rows = binlogs.changed(binlogs.write_rows(5, [1], 100), lambda event: event.extend(b"\0\7"))
    with pytest.raises(RelayError, match=r"rows of test\.t that do not fit"):
        fed.feed(plain(binlogs.query("BEGIN", 50), binlogs.table_map(5, "t", 70), rows))
    assert not fed.rows()


def test_a_table_is_asked_for_once_until_its_map_changes(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(*(transaction(number, number * 1000) for number in range(1, 6))))
    assert [asked.asks for asked in fed.asked] == ["table"]
    fed.feed(
        binlogs.query("BEGIN", 7000)
        + binlogs.table_map(5, "renamed", 7100)
        + binlogs.write_rows(5, [1], 7200)
        + binlogs.xid(7300)
    )
    assert [asked.asks for asked in fed.asked] == ["table", "table"]
    fed.ingest.new_epoch()
    fed.feed(transaction(9, 8000) + transaction(10, 9000))
    assert [asked.asks for asked in fed.asked] == ["table"] * 3
    assert [table for table, _, _ in fed.rows()] == ["t"] * 5 + ["renamed"] + ["t"] * 2


def test_a_group_that_was_never_ended_leaves_nothing(fed: Fed) -> None:
    fed.begin(START)
    broken = binlogs.query("BEGIN", 1100) + binlogs.table_map(5, "t", 1200) + binlogs.write_rows(5, [1, 2], 1300)
    next_file = binlogs.made(4, struct.pack("<Q", 4) + b"binlog.000002", 1400)
    fed.feed(plain(broken, next_file, binlogs.opening("binlog.000002", 4), transaction(3, 1000)))
    assert fed.rows() == [("t", INSERT, 1)]
    assert fed.writer.state()[:2] == ("binlog.000002", 2000)
    assert fed.ingest.abandoned == 1


def test_a_new_stream_drops_half_a_transaction(fed: Fed) -> None:
    fed.begin(START)
    half = binlogs.query("BEGIN", 2100) + binlogs.table_map(5, "t", 2200) + binlogs.write_rows(5, [1, 2], 2300)
    fed.feed(plain(transaction(1, 1000), half, b"\x50\0"))
    resume = fed.ingest.resume()
    assert (resume.file, resume.position) == ("binlog.000001", 2000)
    fed.ingest.start(resume.file, resume.position)
    fed.feed(plain(transaction(2, 2000, 5), start=StreamPosition("binlog.000001", 2000)))
    assert fed.rows() == [("t", INSERT, 1), ("t", INSERT, 5)]


def test_it_stops_between_transactions_when_asked(fed: Fed) -> None:
    fed.begin(START)
    stream = plain(transaction(1, 1000), transaction(2, 2000))
    half = len(plain(binlogs.query("BEGIN", 1100)))
    fed.feed(stream[:half])
    fed.ingest.stop_at_boundary(True)
    fed.feed(stream[half:])
    assert fed.asked[-1].asks == "boundary"
    assert fed.rows() == [("t", INSERT, 1)]
    fed.ingest.stop_at_boundary(False)
    fed.work()
    assert fed.rows() == [("t", INSERT, 1)] * 2


def test_unproven_tables_hold_everything_after_them_back(fed: Fed) -> None:
    waiting: list[int] = []

    def answer(asked: Attention) -> bool:
        packed = msgspec.msgpack.encode(binlogs.defined(asked.body))
        waiting.append(fed.ingest.pending(asked.table_id, packed, packed))
        return True

    fed.answer = answer
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000), transaction(2, 2000)))
    assert fed.rows() == []
    assert len(waiting) == 1
    fed.writer.resolve(waiting[0])
    assert fed.rows() == [("t", INSERT, 1)] * 2


def test_heartbeats_are_signs_of_life_and_nothing_else(fed: Fed) -> None:
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000), binlogs.made(27, b"binlog.000001", 2000), binlogs.made(41, b"\0", 0)))
    assert fed.ingest.heartbeats == 2
    assert fed.ingest.position == 2000
    assert len(fed.asked) == 1


def test_a_full_disk_only_delays(tmp_path: Path, limit_files: Callable[[int], None]) -> None:
    fed = Fed(tmp_path, segment=64 * 1024)
    fed.begin(START)
    count = 3000
    stream = plain(*(transaction(number, number * 1000, 7) for number in range(1, count)))
    limit_files(16 * 1024)
    with pytest.raises(RelayError) as caught:
        fed.feed(stream)
    assert caught.value.code == StopCode.DISK_FULL
    with pytest.raises(RelayError):
        fed.ingest.step()
    limit_files(resource.RLIM_INFINITY)
    fed.work()
    assert fed.rows() == [("t", INSERT, 7)] * (count - 1)
    assert fed.writer.state().sequence == (count - 1) * 7 + 1


def payload_packet(events: bytes, end: int, announced: int | None = None) -> bytes:
    """A TRANSACTION_PAYLOAD event around events; `announced` bytes."""
    packed = zstd.compress(events)

    def field(kind: int, value: int) -> bytes:
        return bytes([kind, 9]) + b"\xfe" + struct.pack("<Q", value)

    size = len(events) if announced is None else announced
    return binlogs.made(40, field(2, 0) + field(1, len(packed)) + field(3, size) + b"\0" + packed, end)


def inner(*packets: bytes) -> bytes:
    """Events as they stand in a payload: without checksums."""
    events = [bytearray(packet[5:-4]) for packet in packets]
    for event in events:
        event[9:13] = len(event).to_bytes(4, "little")
    return b"".join(events)


def large_transaction(count: int) -> bytes:
    maps = binlogs.table_map(5, "t", 0)
    rows = [binlogs.write_rows(5, range(at, at + 3000), 0, statement_end=False) for at in range(0, count * 3000, 3000)]
    return inner(binlogs.query("BEGIN", 0), maps, *rows, binlogs.write_rows(5, [7], 0), binlogs.xid(0))


def test_a_large_compressed_transaction_is_inflated_in_parts(fed: Fed) -> None:
    events = large_transaction(300)
    assert len(events) > 4 << 20
    fed.begin(START)
    fed.feed(plain(payload_packet(events, 5000)))
    assert fed.rows() == [("t", INSERT, 3000)] * 300 + [("t", INSERT, 1)]
    assert {frame.end_position for frame in fed.frames() if isinstance(frame, frames.Rows)} == {5000}
    assert fed.writer.state().position == 5000


@pytest.mark.parametrize("announced", [-1, 1, 10_000_000])
def test_a_large_compressed_transaction_holds_what_it_says(fed: Fed, announced: int) -> None:
    events = large_transaction(300)
    fed.begin(START)
    with pytest.raises(RelayError, match=r"a compressed event that does not hold|with a damaged event") as caught:
        fed.feed(plain(payload_packet(events, 5000, len(events) + announced)))
    assert caught.value.code == StopCode.UNKNOWN_EVENT
    assert len(fed.rows()) in (0, 301)


@pytest.mark.parametrize("announced", [4, 40_000_000])
def test_a_decompressor_that_fails_is_the_cause(fed: Fed, announced: int) -> None:
    payload = b"\2\1\0" + b"\3\x09\xfe" + struct.pack("<Q", announced) + b"\1\1\4" + b"\0" + b"junk"
    fed.begin(START)
    with pytest.raises(RelayError, match="compressed event") as caught:
        fed.feed(plain(binlogs.made(40, payload, 100)))
    assert caught.value.__cause__ is not None


def test_counts_go_where_they_are_asked_for(fed: Fed) -> None:
    words = (ctypes.c_uint64 * 512)()
    fed.ingest.count_into((ctypes.addressof(words) + 63) & ~63)
    fed.begin(START)
    fed.feed(plain(transaction(1, 1000, 3), transaction(2, 2000, 4)))
    aligned = ((ctypes.addressof(words) + 63) & ~63) - ctypes.addressof(words)
    counts = list(words)[aligned // 8 :]
    assert (counts[30], counts[19], counts[16]) == (2, 2, 2)  # by event type
    assert counts[256:260] == [7, 0, 0, 2]  # inserted, updated, deleted; transactions
