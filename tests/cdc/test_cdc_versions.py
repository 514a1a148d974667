"""The CDC service's knowledge of a journal: versions and their numbers, triplets, and positions of transactions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relay._native import CdcScan, JournalReader
from relay.cdc.statements import Statements, defines
from relay.cdc.store import Store
from relay.cdc.versions import Versions
from relay.ddl import Dialect
from relay.ddl.dialect import packed
from relay.protocol.cdc_messages import Gtid
from relay.schema import history
from relay.schema.table import ABSENT, Schema, Table, Unknown
from tests.support.journal_builder import ID, INSERT, NAME, UPDATE, Made, column, row

ONE, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "0e9cc2d6-9af3-11ee-a9a5-0242ac110002"
WIDE = column("id", 8)
Open = Callable[..., Versions]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "journal")


@pytest.fixture
def opened(made: Made, tmp_path: Path) -> Open:
    """A catalogue of all that the journal has, as each process begins with one."""

    def open_(made: Made = made) -> Versions:
        journal = JournalReader(made.folder)
        committed = made.flush()
        table_versions = Versions(journal, Store(tmp_path / "cdc.db", journal.generation()), committed)
        while table_versions.position < committed:
            table_versions.step(committed)
        table_versions.keep()
        return table_versions

    return open_


def redefined(made: Made, *columns: object, gtid: str = "") -> None:
    """A transaction with a row under another definition."""
    table = made.define(*columns)  # type: ignore[arg-type]
    image = b"\0" + (1).to_bytes(8, "little") if columns == (WIDE,) else row(1)
    made.rows(INSERT, image, table=table, columns=len(columns))
    made.commit(gtid=gtid)


def numbers(table_versions: Versions, table: str = "t") -> list[tuple[int, str]]:
    return [(version.number, version.gtid) for version in table_versions.versions("shop", table)]


def test_versions_are_counted_in_the_journals_order_and_named_by_their_statement(made: Made, opened: Open) -> None:
    made.inserted(1, gtid="0-1-1")
    made.writer.ddl(made.place + 10, 1_700_000_000, "shop", "ALTER TABLE `T` MODIFY id BIGINT, DROP name")
    made.commit(gtid="0-1-2")
    made.inserted(2, gtid="0-1-3")  # a definition that is as it was is no version
    redefined(made, WIDE, gtid="0-1-4")
    redefined(made, ID, NAME, gtid="0-1-5")
    assert numbers(opened()) == [(1, "0-1-1"), (2, "0-1-2"), (3, "0-1-5")]


def test_numbers_stay_over_restarts_and_over_a_new_journal(made: Made, opened: Open, tmp_path: Path) -> None:
    made.inserted(1, gtid="0-1-1")
    redefined(made, WIDE, gtid="0-1-2")
    before = numbers(opened())
    assert numbers(opened()) == before == [(1, "0-1-1"), (2, "0-1-2")]
    new = Made(tmp_path / "new", generation=77)
    redefined(new, WIDE, gtid="0-1-3")
    redefined(new, ID, gtid="0-1-4")
    assert numbers(opened(new)) == [(2, "0-1-2"), (3, "0-1-4")]
    assert numbers(opened()) == before


def test_what_the_journal_has_lost_with_its_end_is_looked_at_anew(made: Made, opened: Open, tmp_path: Path) -> None:
    made.inserted(1, gtid="0-1-1")
    cut = made.flush()
    redefined(made, WIDE, gtid="0-1-2")
    assert numbers(opened()) == [(1, "0-1-1"), (2, "0-1-2")]
    journal = JournalReader(made.folder)
    store = Store(tmp_path / "cdc.db", journal.generation())
    assert numbers(Versions(journal, store, cut)) == [(1, "0-1-1")]
    assert store.known() == cut
    redefined(made, ID, NAME, gtid="0-1-3")
    assert numbers(opened()) == [(1, "0-1-1"), (2, "0-1-2"), (3, "0-1-3")]


def test_a_version_that_another_process_has_found_meanwhile_is_the_same(
    made: Made, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1500):  # some segments
        made.inserted(*range(30), gtid=f"0-1-{number + 1}")
    redefined(made, WIDE, gtid="0-1-2000")
    asked: dict[str, Callable[[Store], Any]] = {"known": Store.known, "versions": Store.versions}

    def overtaken(name: str, store: Store) -> Any:
        """Another process goes through all of the journal between the two questions that a new one asks."""
        for each, ask in asked.items():
            monkeypatch.setattr(Store, each, ask)
        answer = asked[name](store)
        opened()
        return answer

    for name in asked:
        monkeypatch.setattr(Store, name, lambda store, name=name: overtaken(name, store))
    assert numbers(opened()) == numbers(opened()) == [(1, "0-1-1"), (2, "0-1-2000")]


@pytest.mark.parametrize("text", ["ALTER TABLE older RENAME TO t", "RENAME TABLE other.t TO shop.t"])
def test_a_table_that_got_its_name_by_a_statement_is_made_by_it(made: Made, opened: Open, text: str) -> None:
    for number, each in enumerate(("CREATE TABLE u (id INT)", text, "CREATE TABLE other.v (w INT)")):
        made.writer.ddl(10, 1_700_000_000, "shop", each)
        made.commit(gtid=f"0-1-{number + 1}")
    made.inserted(1, gtid="0-1-4")
    assert numbers(opened()) == [(1, "0-1-2")]


def test_what_a_statement_left_counts_and_not_its_words(made: Made, opened: Open) -> None:
    left: list[history.Outcome] = [
        ("shop", "", Schema("utf8mb4")),
        ("shop", "t", Table("shop", "t", (), None, "")),
        ("shop", "u", ABSENT),
        ("other", "v", Unknown("it is not understood")),
    ]
    assert defines("ALTER TABLE w FROB", "shop", history.packed(left)) == [("shop", "t"), ("other", "v")]
    dialect = packed(Dialect(False, 90704))
    for number, outcomes in enumerate((left, [])):
        made.writer.ddl(10, 1_700_000_000, "shop", "ALTER TABLE t ADD x INT", dialect, history.packed(outcomes))
        made.commit(gtid=f"0-1-{number + 1}")
    made.inserted(1, gtid="0-1-3")
    assert numbers(opened()) == [(1, "0-1-1")], "the second statement left no table with another definition"


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("ALTER TABLE t COMMENT '\\', RENAME TO w, COMMENT 'x'", {("shop", "t"), ("shop", "w")}),
        ("CREATE TABLE IF NOT EXISTS other.T (a INT)", {("other", "T")}),
        ("RENAME TABLE t TO u, u TO v", {("shop", "u"), ("shop", "v")}),
        ("TRUNCATE t", set()),
        ("INSERT INTO t VALUES (1)", set()),
    ],
)
def test_a_journal_from_before_the_schema_history_has_the_words_only(text: str, tables: set[tuple[str, str]]) -> None:
    assert set(defines(text, "shop", b"")) == tables
    assert ("shop", "t") in defines("ALTER TABLE t FROBNICATE", "shop", b"")


def test_statements_are_remembered_for_a_while_and_then_forgotten() -> None:
    known = Statements(most=3)
    for number, text in enumerate(("CREATE TABLE a (id INT)", "ALTER TABLE A ADD x INT", "CREATE TABLE b (a INT)")):
        known.add(10 * number, defines(text, "shop", b""), f"0-1-{number}")
    assert [known.gtid_of("shop", "a", -1, until) for until in (0, 1, 10, 11, 99)] == ["", "0-1-0", "0-1-0"] + [
        "0-1-1"
    ] * 2
    for schema, table, since in (("shop", "a", 10), ("other", "a", -1), ("shop", "x", -1)):
        assert known.gtid_of(schema, table, since, 99) == ""
    known.add(30, defines("DROP TABLE a", "shop", b""), "0-1-3")
    assert [known.gtid_of("shop", "a", -1, until) for until in (10, 99)] == ["", "0-1-1"]
    known.add(40, defines("CREATE TABLE other.a LIKE b", "shop", b""), "0-1-4")
    assert known.gtid_of("shop", "a", -1, 99) == ""
    assert known.gtid_of("OTHER", "a", -1, 99) == "0-1-4"


def test_no_transaction_has_the_number_zero_and_none_is_looked_for(
    made: Made, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.inserted(1, gtid="0-1-1")
    monkeypatch.setattr("relay.cdc.versions.STEP_BYTES", 1)
    assert next(opened().find(Gtid(0, 1, 0)), "none") == "none"


def test_two_processes_that_go_through_a_journal_find_the_same(made: Made, tmp_path: Path) -> None:
    """One is ahead; of the other's way retention has deleted a part, with the first rows of a version in it."""
    made.inserted(1, gtid="0-1-1")
    journal = JournalReader(made.folder)
    ahead, behind = (
        Versions(journal, Store(tmp_path / "cdc.db", journal.generation()), made.flush()) for _ in range(2)
    )
    behind.step(made.flush())
    table = made.define(WIDE)
    for number in range(2, 400):
        made.rows(INSERT, *[b"\0" + bytes(8)] * 100, table=table, columns=1)
        made.commit(gtid=f"0-1-{number}")
    ahead.step(made.flush())
    made.writer.drop_before(made.flush() - (1 << 17))
    assert made.writer.first() > ahead.versions("shop", "t")[-1].position
    behind.step(made.flush())
    redefined(made, ID, NAME, gtid="0-1-500")
    for each in (behind, ahead):
        each.step(made.flush())
        assert numbers(each) == [(2, "0-1-2"), (3, "0-1-500")]


def test_what_is_known_of_a_journal_never_becomes_less_but_by_the_journals_own_end(tmp_path: Path) -> None:
    store = Store(tmp_path / "cdc.db", 1)
    store.forget_after(50)
    assert store.known() == 0
    for position, known in ((20, 20), (10, 20), (30, 30)):
        store.keep_known(position)
        assert store.known() == known
    for end, known in ((100, 30), (5, 5)):
        store.forget_after(end)
        assert store.known() == known


def test_versions_whose_rows_are_deleted_are_gone_and_the_others_keep_their_numbers(made: Made, opened: Open) -> None:
    for _ in range(3):
        for number in range(800):
            made.inserted(*range(30), gtid=f"0-1-{number + 1}")
        redefined(made, WIDE, gtid="0-1-900")
        made.table = made.define(ID, NAME)
    table_versions = opened()
    assert [number for number, _ in numbers(table_versions)] == [1, 2, 3, 4, 5, 6]
    made.writer.drop_before(table_versions.versions("shop", "t")[4].position)
    assert [number for number, _ in numbers(table_versions)] == [3, 4, 5, 6]
    assert numbers(opened()) == numbers(table_versions)


def test_domains_of_mysql_are_numbered_as_they_are_met_and_kept(made: Made, opened: Open) -> None:
    for gtid in (f"{OTHER}:5", f"{ONE}:7", f"{ONE}:tag:1", f"{OTHER}:6"):
        made.inserted(1, gtid=gtid)
    for table_versions in (opened(), opened()):
        assert table_versions.triplet(f"{OTHER}:6", 3) == Gtid(1, 3, 6)
        assert table_versions.triplet(f"{ONE}:8", 4) == Gtid(2, 4, 8)
        assert table_versions.triplet(f"{ONE}:tag:2", 4) == Gtid(3, 4, 2)
    assert table_versions.triplet("", 0) is None


@pytest.mark.parametrize("source", ["0-1-", f"{ONE}:"])
def test_a_transaction_is_looked_for_from_the_segment_before_it(made: Made, opened: Open, source: str) -> None:
    other = made.define(ID, NAME, table="other")
    for number in range(1, 2001):
        made.rows(UPDATE, *(row(number, b"x" * 60) for _ in range(10)))
        made.rows(INSERT, row(number), table=other)
        made.commit(gtid=f"{source}{number}")
    table_versions = opened()
    domain = 0 if source == "0-1-" else 1
    starts = [table_versions.start_of(Gtid(domain, 9, number)) for number in (1, 500, 1000, 1999, 5000)]
    assert starts == sorted(starts)
    assert starts[0] == 0 and len(set(starts)) > 3
    for number in (1, 500, 1999, 2000):
        *steps, found = table_versions.find(Gtid(domain, 9, number))
        assert not any(steps) and found
        assert (found.gtid, found.images, found.tables) == (
            f"{source}{number}", 11, [("shop", "t"), ("shop", "other")],
        )  # fmt: skip
    assert list(table_versions.find(Gtid(domain, 9, 2001))) == []
    assert table_versions.last.gtid == f"{source}2000"
    assert opened().last == table_versions.last


def test_a_step_tells_what_it_concerns(made: Made, tmp_path: Path) -> None:
    other = made.define(ID, NAME, table="other")
    made.inserted(1, gtid="0-1-1")
    journal = JournalReader(made.folder)
    table_versions = Versions(journal, Store(tmp_path / "cdc.db", journal.generation()), made.flush())
    step = table_versions.step(made.flush())
    assert (step.touched, step.defined) == ({("shop", "t")}, {("shop", "t")})
    before = table_versions.position
    made.rows(INSERT, row(1), table=other)
    made.commit(gtid="0-1-2")
    step = table_versions.step(made.flush())
    assert (step.before, step.touched, step.defined) == (before, {("shop", "other")}, {("shop", "other")})
    made.inserted(2, gtid="0-1-3")
    step = table_versions.step(made.flush())
    assert (step.touched, step.defined) == ({("shop", "t")}, set())


def test_a_scan_may_stop_anywhere_and_tells_whole_transactions_only(made: Made) -> None:
    for number in range(1, 20):
        made.rows(INSERT, row(number), row(number))
        made.rows(UPDATE, row(number), row(number))
        made.commit(gtid=f"0-1-{number}")
    until = made.flush()
    scan, positions, met = CdcScan(JournalReader(made.folder)), set(), 0
    while not scan.read(until, 1):
        positions.add(scan.position)
        assert scan.last.images in (0, 4)
        met += len(scan.definitions())
    assert met == 1
    assert scan.position == until
    for position in positions:
        again = CdcScan(JournalReader(made.folder), position)
        again.read(until, 1 << 30)
        assert (again.last.gtid, again.last.images) == ("0-1-19", 4)


def test_a_transaction_over_segments_that_is_not_on_disk_yet_is_read_from_its_beginning(
    made: Made, tmp_path: Path
) -> None:
    for number in (1, 2):
        made.inserted(number, gtid=f"0-1-{number}")
    begin = made.flush()
    for number in range(3000):
        made.rows(INSERT, row(number))
    made.commit(gtid="0-1-3")
    committed = made.writer.committed()
    journal = JournalReader(made.folder)
    inside = [journal.segment(at) for at in range(begin, committed, 1 << 12)]
    inside = sorted({segment for segment in inside if segment > begin})
    assert inside and journal.flushed() < committed
    assert all(journal.torn(segment, committed) for segment in inside)
    table_versions = Versions(journal, Store(tmp_path / "cdc.db", journal.generation()), committed)
    while table_versions.position < committed:
        table_versions.step(committed)
    assert table_versions.start_of(Gtid(0, 1, 3)) <= begin
    scan = CdcScan(journal, inside[0])  # and what lacks its beginning is no transaction
    scan.read(committed, 1 << 30)
    assert (scan.position, scan.last.images) == (committed, 0)


def test_what_comes_in_place_of_an_end_that_was_lost_is_looked_at_anew(made: Made, opened: Open) -> None:
    """The host lost its power, and the journal had grown beyond where it had been before anybody looked."""
    made.inserted(1, gtid="0-1-1")
    made.flush()
    [segment] = made.folder.glob("*.seg")
    flushed = segment.read_bytes()
    redefined(made, WIDE, gtid="0-1-2")
    journal = JournalReader(made.folder)
    with closing(Store(made.folder.parent / "cdc.db", journal.generation())) as store:
        table_versions = Versions(journal, store, made.writer.committed())
        table_versions.step(made.writer.committed())  # what is committed, and is not on disk yet
        table_versions.keep()
        assert numbers(table_versions) == [(1, "0-1-1"), (2, "0-1-2")]
    del journal, table_versions
    segment.write_bytes(flushed)
    again = Made(made.folder)
    again.inserted(2, gtid="0-1-3")
    redefined(again, ID, gtid="0-1-4")
    redefined(again, ID, NAME, gtid="0-1-5")
    assert numbers(opened(again)) == [(1, "0-1-1"), (2, "0-1-4"), (3, "0-1-5")]
