"""Where the reader asks a source to resume: by binlog position, by GTID, and beyond the limits of a command."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relay.binlog.events.position import BinlogPosition
from relay.errors import RelayError, StopCode
from relay.ingest import resume
from relay.ingest.reader_state import ReaderState
from relay.ingest.resume import JournalEnd, LowPosition
from relay.journal import frames
from relay.source.commands import SHORT_POSITION, binlog_dump_gtid
from relay.source.facts import ServerFacts
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition

FILE = "binlog.000007"
BEYOND = 2**32 + 1500
MYSQL_SET = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"


def facts_of(flavor: str, gtid_mode: str = "ON", version: str = "10.11.18") -> ServerFacts:
    return ServerFacts(flavor, version, 1, "u", 0, False, "CRC32", gtid_mode == "ON", 0)


@pytest.fixture
def low(tmp_path: Path) -> Iterator[LowPosition]:
    with closing(ReaderState(tmp_path / "state.db")) as reader_state:
        yield LowPosition(reader_state)


def known(server: ServerFacts, position: int, gtid_set: str, possible: bool = True) -> JournalEnd:
    return JournalEnd(FILE, position, gtid_set, server.identity, possible)


def test_a_place_is_asked_for_as_it_is_while_the_command_can_carry_it(low: LowPosition) -> None:
    server = facts_of("mysql")
    start = resume.plan(known(server, SHORT_POSITION, MYSQL_SET), server, low)
    assert start == (False, FILE, SHORT_POSITION, MYSQL_SET, False, "")


def test_mysql_takes_a_place_beyond_4_gib_with_the_gtids(low: LowPosition) -> None:
    server = facts_of("mysql")
    start = resume.plan(known(server, BEYOND, MYSQL_SET), server, low)
    assert start[:4] == (True, FILE, BEYOND, MYSQL_SET)
    assert struct.pack("<Q", BEYOND) in binlog_dump_gtid(1, b"", start.file, start.position)


def test_mariadb_finds_a_place_beyond_4_gib_by_gtid(low: LowPosition) -> None:
    server = facts_of("mariadb")
    assert resume.plan(known(server, BEYOND, "0-1-5"), server, low)[:4] == (True, "", 4, "0-1-5")


@pytest.mark.parametrize(
    ("server", "gtid_set", "possible"),
    [
        (facts_of("mysql", "OFF"), "", True),
        (facts_of("mysql", "ON_PERMISSIVE"), MYSQL_SET, True),
        (facts_of("mariadb"), "0-1-5", False),  # a prepared transaction that its position cannot leave out
        (facts_of("mariadb"), "", True),
        (facts_of("mariadb", version="11.8.6-MariaDB"), "0-1-5", True),  # its index has 32 bits for a place
    ],
)
def test_without_gtids_the_file_is_read_again(
    low: LowPosition, server: ServerFacts, gtid_set: str, possible: bool
) -> None:
    start = resume.plan(known(server, BEYOND, gtid_set, possible), server, low)
    assert start == (False, FILE, 4, gtid_set, False, f"{FILE}:{BEYOND}")
    for position in (1000, 3_000_000_000, BEYOND):
        low.update(BinlogPosition(FILE, position), BinlogPosition(FILE, position + 7))
    start = resume.plan(known(server, BEYOND, gtid_set, possible), server, low)
    assert start[:3] == (False, FILE, 3_000_000_000)


def test_what_only_gtids_can_find_is_asked_for_by_them(low: LowPosition) -> None:
    server = facts_of("mysql")
    moved = JournalEnd("", 0, MYSQL_SET, server.identity)  # with a transaction that was prepared on another server
    assert resume.plan(moved, server, low) == (True, "", 4, MYSQL_SET, False, "")
    mariadb = facts_of("mariadb")
    with pytest.raises(RelayError, match="cannot exclude a prepared transaction") as refused:
        resume.plan(JournalEnd("", 0, "0-1-5", mariadb.identity, False), mariadb, low)
    assert refused.value.code is StopCode.WRONG_SOURCE


def test_the_last_low_place_of_a_file_outlives_the_process(tmp_path: Path) -> None:
    with closing(ReaderState(tmp_path / "state.db")) as reader_state:
        before = LowPosition(reader_state)
        for position in (500, SHORT_POSITION, BEYOND, BEYOND + 1):
            before.update(BinlogPosition(FILE, position), BinlogPosition(FILE, position))
    with closing(ReaderState(tmp_path / "state.db")) as reader_state:
        after = LowPosition(reader_state)
        assert after.in_file(FILE) == SHORT_POSITION
        assert after.in_file("binlog.000008") == 4
        after.update(BinlogPosition(FILE, BEYOND), BinlogPosition(FILE, BEYOND))  # a stream that begins beyond
        assert after.in_file(FILE) == SHORT_POSITION


def test_a_low_place_is_kept_while_the_transaction_behind_it_goes_on(low: LowPosition) -> None:
    done = BinlogPosition(FILE, 700)
    low.update(done, BinlogPosition(FILE, 3_000_000_000))
    assert low.in_file(FILE) == 4
    low.update(done, BinlogPosition(FILE, BEYOND))
    assert low.in_file(FILE) == 700
    low.update(BinlogPosition("binlog.000008", 4), BinlogPosition("binlog.000009", BEYOND))
    assert low.in_file(FILE) == 700


def transaction(number: int, at: int) -> bytes:
    """One row in the 1000 bytes of the binlog from `at` on."""
    return (
        binlogs.query("BEGIN", at + 100)
        + binlogs.table_map(5, "t", at + 200)
        + binlogs.write_rows(5, [number], at + 900)
        + binlogs.xid(at + 1000)
    )


def mariadb_transaction(number: int, at: int) -> bytes:
    gtid = binlogs.made(162, struct.pack("<QIB", number, 0, 0) + bytes(6), at + 50)
    rows = binlogs.table_map(5, "t", at + 200) + binlogs.write_rows(5, [number], at + 900)
    return gtid + rows + binlogs.xid(at + 1000)


def values(fed: Fed) -> list[int]:
    return [int.from_bytes(frame.body[3:7], "little") for frame in fed.frames() if isinstance(frame, frames.Rows)]


def commits(fed: Fed) -> list[int]:
    return [frame.position for frame in fed.frames() if isinstance(frame, frames.Commit)]


STARTS = [4, 1_500_000_000, 3_000_000_000, 4_294_966_500, 4_294_967_500, 6_000_000_000, 8_000_000_000, 9_000_000_000]
"""Of transactions in one file, none further than 2 GiB from the next; one crosses 4 GiB."""


def test_a_file_that_is_read_again_gives_each_row_once(tmp_path: Path) -> None:
    stream = [transaction(number, at) for number, at in enumerate(STARTS)]
    for done in range(1, len(STARTS) + 1):
        for again in {0, done // 2, done}:
            fed = Fed(tmp_path / f"{done}-{again}")
            fed.begin(StreamPosition(FILE, 4))
            fed.feed(binlogs.opening(FILE, 4) + b"".join(stream[:done]))
            assert commits(fed) == [at + 1000 for at in STARTS[:done]]
            fed.open()
            assert fed.ingest.resume()[:2] == (FILE, STARTS[done - 1] + 1000)
            start = StreamPosition(FILE, STARTS[again] if again < len(STARTS) else STARTS[-1] + 1000)
            fed.ingest.start(*start)
            assert fed.ingest.skipping == (again < done)
            fed.feed(binlogs.opening(*start) + b"".join(stream[again:]))
            assert values(fed) == list(range(len(STARTS)))
            assert not fed.ingest.skipping or done == len(STARTS)
            assert commits(fed) == [at + 1000 for at in STARTS]
            ends = [frame.end_position for frame in fed.frames() if isinstance(frame, frames.Rows)]
            assert ends == [at + 900 for at in STARTS]


def test_what_mariadb_leaves_out_by_gtid_does_not_make_positions_small(tmp_path: Path) -> None:
    stream = [mariadb_transaction(number, at) for number, at in enumerate(STARTS, 1)]
    for done in range(1, len(STARTS)):
        fed = Fed(tmp_path / str(done))
        fed.begin(StreamPosition(FILE, 4))
        fed.feed(binlogs.opening(FILE, 4) + b"".join(stream[:done]))
        fed.open()
        fed.ingest.start("", 4, by_gtid=True)
        fed.feed(binlogs.opening(FILE, 4) + b"".join(stream[done:]))
        assert values(fed) == list(range(1, len(STARTS) + 1))
        assert commits(fed) == [at + 1000 for at in STARTS]
