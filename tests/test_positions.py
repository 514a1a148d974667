"""Where the reader asks a source to go on: by place, by GTID, and beyond what a command can carry."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relay.binlog import resume
from relay.binlog.catalog import Catalog
from relay.binlog.commands import SHORT_POSITION, binlog_dump_gtid
from relay.binlog.facts import ServerFacts
from relay.binlog.place import Place as CatalogPlace
from relay.binlog.resume import Known, LowPlace
from relay.errors import RelayError, StopCode
from relay.journal import frames
from tests import binlogs
from tests.binlogs import Fed, Place

FILE = "binlog.000007"
BEYOND = 2**32 + 1500
MYSQL_SET = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"


def facts_of(flavor: str, gtid_mode: str = "ON", version: str = "10.11.18") -> ServerFacts:
    return ServerFacts(flavor, version, 1, "u", 0, True, "ROW", "FULL", "MINIMAL", "CRC32", gtid_mode, {})


@pytest.fixture
def low(tmp_path: Path) -> Iterator[LowPlace]:
    with closing(Catalog(tmp_path / "state.db")) as catalog:
        yield LowPlace(catalog)


def known(server: ServerFacts, position: int, gtid_set: str, possible: bool = True) -> Known:
    return Known(FILE, position, gtid_set, server.identity, possible)


def test_a_place_is_asked_for_as_it_is_while_the_command_can_carry_it(low: LowPlace) -> None:
    server = facts_of("mysql")
    start = resume.plan(known(server, SHORT_POSITION, MYSQL_SET), server, low)
    assert start == (False, FILE, SHORT_POSITION, MYSQL_SET, False, "")


def test_mysql_takes_a_place_beyond_4_gib_with_the_gtids(low: LowPlace) -> None:
    server = facts_of("mysql")
    start = resume.plan(known(server, BEYOND, MYSQL_SET), server, low)
    assert start[:4] == (True, FILE, BEYOND, MYSQL_SET)
    assert struct.pack("<Q", BEYOND) in binlog_dump_gtid(1, b"", start.file, start.position)


def test_mariadb_finds_a_place_beyond_4_gib_by_gtid(low: LowPlace) -> None:
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
    low: LowPlace, server: ServerFacts, gtid_set: str, possible: bool
) -> None:
    start = resume.plan(known(server, BEYOND, gtid_set, possible), server, low)
    assert start == (False, FILE, 4, gtid_set, False, f"{FILE}:{BEYOND}")
    for position in (1000, 3_000_000_000, BEYOND):
        low.passed(CatalogPlace(FILE, position), CatalogPlace(FILE, position + 7))
    start = resume.plan(known(server, BEYOND, gtid_set, possible), server, low)
    assert start[:3] == (False, FILE, 3_000_000_000)


def test_what_only_gtids_can_find_is_asked_for_by_them(low: LowPlace) -> None:
    server = facts_of("mysql")
    moved = Known("", 0, MYSQL_SET, server.identity)  # with a transaction that was prepared on another server
    assert resume.plan(moved, server, low) == (True, "", 4, MYSQL_SET, False, "")
    mariadb = facts_of("mariadb")
    with pytest.raises(RelayError, match="cannot leave out a transaction that was prepared") as refused:
        resume.plan(Known("", 0, "0-1-5", mariadb.identity, False), mariadb, low)
    assert refused.value.code is StopCode.WRONG_SOURCE


def test_the_last_low_place_of_a_file_outlives_the_process(tmp_path: Path) -> None:
    with closing(Catalog(tmp_path / "state.db")) as catalog:
        before = LowPlace(catalog)
        for position in (500, SHORT_POSITION, BEYOND, BEYOND + 1):
            before.passed(CatalogPlace(FILE, position), CatalogPlace(FILE, position))
    with closing(Catalog(tmp_path / "state.db")) as catalog:
        after = LowPlace(catalog)
        assert after.of(FILE) == SHORT_POSITION
        assert after.of("binlog.000008") == 4
        after.passed(CatalogPlace(FILE, BEYOND), CatalogPlace(FILE, BEYOND))  # a stream that begins beyond
        assert after.of(FILE) == SHORT_POSITION


def test_a_low_place_is_kept_while_the_transaction_behind_it_goes_on(low: LowPlace) -> None:
    done = CatalogPlace(FILE, 700)
    low.passed(done, CatalogPlace(FILE, 3_000_000_000))
    assert low.of(FILE) == 4
    low.passed(done, CatalogPlace(FILE, BEYOND))
    assert low.of(FILE) == 700
    low.passed(CatalogPlace("binlog.000008", 4), CatalogPlace("binlog.000009", BEYOND))
    assert low.of(FILE) == 700


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
            fed.begin(Place(FILE, 4))
            fed.feed(binlogs.opening(FILE, 4) + b"".join(stream[:done]))
            assert commits(fed) == [at + 1000 for at in STARTS[:done]]
            fed.open()
            start = Place(FILE, STARTS[again] if again < len(STARTS) else STARTS[-1] + 1000)
            fed.ingest.start(*start)
            assert fed.ingest.skipping == (again < done)
            fed.feed(binlogs.opening(*start) + b"".join(stream[again:]))
            assert values(fed) == list(range(len(STARTS)))
            assert not fed.ingest.skipping or done == len(STARTS)
            assert commits(fed) == [at + 1000 for at in STARTS]


def test_what_mariadb_leaves_out_by_gtid_does_not_make_positions_small(tmp_path: Path) -> None:
    stream = [mariadb_transaction(number, at) for number, at in enumerate(STARTS, 1)]
    for done in range(1, len(STARTS)):
        fed = Fed(tmp_path / str(done))
        fed.begin(Place(FILE, 4))
        fed.feed(binlogs.opening(FILE, 4) + b"".join(stream[:done]))
        fed.open()
        fed.ingest.start("", 4, by_gtid=True)
        fed.feed(binlogs.opening(FILE, 4) + b"".join(stream[done:]))
        assert values(fed) == list(range(1, len(STARTS) + 1))
        assert commits(fed) == [at + 1000 for at in STARTS]


def test_a_place_in_the_journal_is_64_bits_wide(tmp_path: Path) -> None:
    fed = Fed(tmp_path)
    fed.begin(Place(FILE, 4))
    fed.feed(binlogs.opening(FILE, 4) + b"".join(transaction(number, at) for number, at in enumerate(STARTS)))
    fed.open()
    assert fed.ingest.resume()[:2] == (FILE, STARTS[-1] + 1000)
    ends = [frame.end_position for frame in fed.frames() if isinstance(frame, frames.Rows)]
    assert ends == [at + 900 for at in STARTS]
