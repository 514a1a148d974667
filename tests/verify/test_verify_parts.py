"""The parts of `relay verify` that need no server: values, steps of a journal, ranges, the report."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay._native import JournalWriter
from relay.binlog.events.column_types import Type
from relay.binlog.events.position import BinlogPosition
from relay.commands.progress import Bar
from relay.errors import RelayError
from relay.journal.frames import Column, Definition
from relay.source.facts import ServerFacts
from relay.verify import faults, ranges, values
from relay.verify.compare import Difference, Finding
from relay.verify.journal import RETIRED, TORN, Journal
from relay.verify.reference import choose_server_id
from relay.verify.report import SHOWN, Report
from relay.verify.run import Progress
from relay.verify.sides import ReferenceColumn, Step
from relay.verify.values import DIFFERENT, SAME


def column(kind: Type, meta: int = 0, **settings: Any) -> Column:
    return msgspec.structs.replace(Column("v", 1, kind, meta, False, True, False, "", [], ""), **settings)


def judged(
    kind: Column, ours: Any, theirs: Any, raw: bytes = b"", *, encoding: str = "utf8", named: bool = True,
    labels: tuple[str, ...] = (),
) -> str:  # fmt: skip
    known = ReferenceColumn(kind.type, "v" if named else None, encoding if named else None, labels)
    return values.compare_value(kind, known, ours, theirs, lambda: raw)


INT, UNSIGNED = column(Type.LONG), column(Type.LONG, unsigned=True)
TEXT = column(Type.VARCHAR, 40, charset="utf8mb4")
BINARY = column(Type.STRING, 4, charset="binary", sql_type="binary(4)")
UUID = column(Type.STRING, 16, charset="binary", sql_type="uuid")
ENUM = column(Type.ENUM, 1, labels=["a", "é"])
SET = column(Type.SET, 1, labels=["a", "é"])
TIME = column(Type.TIME2, 6)
TIMESTAMP = column(Type.TIMESTAMP2, 0)


@pytest.mark.parametrize(
    ("verdict", "arguments", "settings"),
    [
        (SAME, (INT, 7, 7), {}),
        (DIFFERENT, (INT, 7, 8), {}),
        (SAME, (INT, None, None), {}),
        (DIFFERENT, (INT, None, 0), {}),
        (DIFFERENT, (INT, 0, None), {}),
        (faults.NO_SIGNS, (UNSIGNED, 2**32 - 1, -1), {"named": False}),
        (DIFFERENT, (UNSIGNED, 2**32 - 1, -1), {}),
        (DIFFERENT, (UNSIGNED, 2**32 - 1, -2), {"named": False}),
        (SAME, (column(Type.FLOAT, 4), 0.5, 0.5), {}),
        (DIFFERENT, (column(Type.DOUBLE, 8), 0.0, -0.0), {}),
        (SAME, (column(Type.NEWDECIMAL, 0x0A02), "12.50", Decimal("12.5")), {}),
        (DIFFERENT, (column(Type.NEWDECIMAL, 0x0A02), "12.50", Decimal("12.51")), {}),
        (SAME, (column(Type.BIT, 9), b"\x01\x05", "100000101"), {}),
        (DIFFERENT, (column(Type.BIT, 9), b"\x01\x05", "100000100"), {}),
        (SAME, (TEXT, "é", "é"), {}),
        (DIFFERENT, (TEXT, "é", "e", "é".encode()), {}),
        (faults.CHARSET, (TEXT, "\x81x", "x", b"\x81x"), {"encoding": "cp1252"}),
        (DIFFERENT, (TEXT, "\x81x", "y", b"\x81x"), {"encoding": "cp1252"}),
        (faults.NO_CHARSET, (TEXT, "é", "", b"\xe9"), {"named": False}),
        (faults.PADDING, (BINARY, b"a\0\0\0", b"a", b"a"), {"encoding": "binary"}),
        (DIFFERENT, (BINARY, b"a\0\0\0", b"b", b"a"), {"encoding": "binary"}),
        (
            faults.NO_TYPES,
            (UUID, "01890a5d-ac96-774b-bcce-b302099a8057", b"\1\2", b"\1\2"),
            {"encoding": "binary"},
        ),
        (DIFFERENT, (UUID, "01890a5d-ac96-774b-bcce-b302099a8057", b"\1\3", b"\1\2"), {"encoding": "binary"}),
        (SAME, (ENUM, "a", "a"), {"labels": ("a", "é")}),
        (faults.LABEL_CHARSET, (ENUM, "é", ""), {"labels": ("a", "")}),
        (DIFFERENT, (ENUM, "a", ""), {"labels": ("a", "")}),
        (faults.NO_LABELS, (ENUM, "a", None), {"named": False}),
        (SAME, (SET, "a,é", {"a", "é"}), {"labels": ("a", "é")}),
        (faults.LABEL_CHARSET, (SET, "a,é", {"a", ""}), {"labels": ("a", "")}),
        (DIFFERENT, (SET, "a,é", {"a"}), {"labels": ("a", "é")}),
        (faults.EMPTY_SET, (SET, "", None), {"labels": ("a", "é")}),
        (DIFFERENT, (SET, "a", None), {"labels": ("a", "é")}),
        (faults.ZERO_YEAR, (column(Type.YEAR), 0, 1900), {}),
        (DIFFERENT, (column(Type.YEAR), 1901, 1900), {}),
        (SAME, (column(Type.DATE), "2024-02-29", date(2024, 2, 29)), {}),
        (faults.ZERO_DATE, (column(Type.DATE), "2024-00-29", None), {}),
        (DIFFERENT, (column(Type.DATE), "2024-02-29", None), {}),
        (SAME, (column(Type.DATETIME2, 3), "0999-01-02 03:04:05.006", datetime(999, 1, 2, 3, 4, 5, 6000)), {}),
        (DIFFERENT, (column(Type.DATETIME2, 3), "2024-01-02 03:04:05.006", datetime(2024, 1, 2, 3, 4, 5)), {}),
        (SAME, (TIMESTAMP, "2038-01-19 03:14:07", datetime(2038, 1, 19, 3, 14, 7)), {}),
        (faults.ZERO_TIMESTAMP, (TIMESTAMP, "0000-00-00 00:00:00", datetime(1970, 1, 1)), {}),
        (faults.LATE_TIMESTAMP, (TIMESTAMP, "2038-01-19 03:14:08", datetime(1901, 12, 13, 20, 45, 52)), {}),
        (DIFFERENT, (TIMESTAMP, "2037-01-19 03:14:08", datetime(1900, 12, 13, 20, 45, 52)), {}),
        (SAME, (TIME, "-838:59:59.000000", -timedelta(hours=838, minutes=59, seconds=59)), {}),
        (faults.NEGATIVE_TIME, (TIME, "-12:59:59.999999", -timedelta(hours=12, seconds=3599, microseconds=1)), {}),
        (DIFFERENT, (TIME, "-12:59:59.999999", -timedelta(hours=12, seconds=3599, microseconds=2)), {}),
        (DIFFERENT, (TIME, "12:59:59.999999", timedelta(hours=12, seconds=3599, microseconds=1)), {}),
        (SAME, (column(Type.JSON, 4), '{"a": [1, 1.5, null, "é"]}', {b"a": [1, 1.5, None, "é".encode()]}), {}),
        (DIFFERENT, (column(Type.JSON, 4), '{"a": 1}', {b"a": 2}), {}),
        (DIFFERENT, (column(Type.JSON, 4), '{"a": 1}', {b"a": True}), {}),
        (DIFFERENT, (column(Type.JSON, 4), '{"a": 1}', {b"b": 1}), {}),
        (faults.OPAQUE_JSON, (column(Type.JSON, 4), '{"a": 1.50, "b": 2}', {b"a": Decimal("1.5"), b"b": 2}), {}),
        (DIFFERENT, (column(Type.JSON, 4), '{"a": 1.50, "b": 2}', {b"a": Decimal("1.5"), b"b": 3}), {}),
        (SAME, (column(Type.GEOMETRY, 4), b"\0\1", b"\0\1"), {}),
    ],
)
def test_a_fault_excuses_what_the_witness_makes_of_the_value_and_nothing_else(
    verdict: str, arguments: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    assert judged(*arguments, **settings) == verdict


TABLE = Definition("s", "t", 7, 1, 2, True, [column(Type.LONG)])
BODY = b"\1\xff\0" + (5).to_bytes(4, "little")
MINE = "mariadb:1:0"


class Written:
    """A journal of the smallest segments, in which each transaction has one row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = JournalWriter(folder, 1 << 16)
        self.table = self.writer.define(msgspec.msgpack.encode(TABLE))
        self.place = 4

    def begin(self, identity: str = MINE, file: str = "binlog.000001", position: int = 4) -> None:
        self.writer.source(position, file, "", identity)
        self.place = position

    def transactions(self, count: int, rows: int = 1) -> None:
        for _ in range(count):
            for _ in range(rows):
                self.place += 50
                self.writer.rows(self.table, 1, self.place, 0, 1, BODY)
            self.place += 50
            self.writer.commit(self.place, 0, "")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def facts(identity: str = MINE) -> ServerFacts:
    _, server_id, domain = identity.split(":")
    return ServerFacts("mariadb", "", int(server_id), "", int(domain), False, "", False, 0)


def found(journal: Journal, start: str, end: str, oldest: int = 4) -> ranges.Range:
    return ranges.find(journal, start, end, facts(), BinlogPosition("binlog.000001", oldest))


def steps_of(folder: Path) -> list[Step]:
    """All steps, but for the beginning of a new journal, which knows no place yet."""
    return list(Journal(folder).steps(0))[1:]


def test_steps_tell_each_transaction_with_its_rows(written: Written) -> None:
    written.begin()
    written.transactions(2000, rows=3)  # several segments, some of which begin within a transaction
    journal = Journal(written.folder)
    steps = list(journal.steps(0))[1:]
    assert len(journal.segments()) > 3 and not any(step.lost for step in steps)
    assert [step.rows for step in steps] == [0] + [3] * 2000
    assert [step.position.position for step in steps] == [4 + 200 * number for number in range(2001)]
    again = list(journal.steps(steps[500]))
    assert again == steps[501:]
    first = next(journal.steps(steps[0]))
    assert [rows.position.position for rows in journal.rows(first)] == [54, 104, 154]


def test_statements_are_counted_as_changes(written: Written) -> None:
    written.begin()
    for number in range(2000):  # some segments begin with a statement, some between a statement and its rows
        written.place += 50
        written.writer.ddl(written.place, 0, "shop", "ALTER TABLE t COMMENT ''")
        written.transactions(1, rows=number % 5)
    bases = [base for base, _ in Journal(written.folder).segments()]
    assert len(bases) > 3
    begins = {step.end: step.start for step in steps_of(written.folder) if not step.lost}
    assert len(begins) == 2001
    told = set()
    for base in bases[1:]:
        _, first, *rest = Journal(written.folder).steps(base)
        assert first.lost == (TORN if begins[first.end] < base else "")
        assert not any(step.lost for step in rest)
        told.add(first.lost)
    assert told == {TORN, ""}


def test_what_retention_deletes_meanwhile_is_a_step_with_its_reason(written: Written) -> None:
    written.begin()
    written.transactions(3000, rows=3)
    journal = Journal(written.folder)
    bases = [base for base, _ in journal.segments()]
    steps = journal.steps(0)
    before = [next(steps) for _ in range(3)]
    written.writer.drop_before(bases[3])
    after = list(steps)
    lost = [step for step in after if step.lost]
    assert {step.lost for step in lost} <= {RETIRED, TORN} and lost[0].lost == RETIRED
    assert lost[0].position.position > before[-1].position.position
    assert after[-1].position.position == 4 + 200 * 3000, "it goes on behind what is gone"


def test_what_retention_takes_up_to_the_end_of_the_range_is_told_too(written: Written) -> None:
    written.begin()
    written.transactions(3000, rows=3)
    journal = Journal(written.folder)
    bases = [base for base, _ in journal.segments()]
    steps = steps_of(written.folder)
    last = [step for step in steps if step.end < bases[3]][-1]
    walk = journal.between(steps[0], last)
    next(walk)
    written.writer.drop_before(bases[5])
    *_, end = walk
    assert (end.position, end.rows, end.lost) == (last.position, 0, RETIRED)
    assert list(journal.between(last, last)) == []


def test_an_accepted_gap_is_told_with_its_reason(written: Written) -> None:
    written.begin()
    written.transactions(1)
    written.writer.gap(written.place, "binlog.000001", "purged")
    written.begin(position=9000)
    written.transactions(1)
    steps = steps_of(written.folder)
    assert [(step.position.position, step.lost) for step in steps] == [
        (4, ""), (104, ""), (9000, "an accepted gap: purged"), (9100, ""),
    ]  # fmt: skip


def test_what_waits_for_its_definition_is_not_there_yet(written: Written) -> None:
    written.begin()
    written.transactions(1)
    waiting = written.writer.define(msgspec.msgpack.encode(TABLE), True)
    written.writer.rows(waiting, 1, 500, 0, 1, BODY)
    written.writer.commit(600, 0)
    assert [step.position.position for step in steps_of(written.folder)] == [4, 104]
    written.writer.resolve(waiting)
    assert [step.position.position for step in steps_of(written.folder)] == [4, 104, 600]


def test_a_range_lies_in_the_last_part_of_the_journal_that_is_of_one_source(written: Written) -> None:
    written.begin("mariadb:9:9")
    written.transactions(3)
    written.begin()
    written.transactions(1000)
    journal = Journal(written.folder)
    everything = found(journal, "oldest", "newest")
    assert (everything.first.position.position, everything.last.position.position) == (4, 4 + 1000 * 100)
    inside = found(journal, "binlog.000001:50777", "binlog.000001:99999")
    assert (inside.first.position.position, inside.last.position.position) == (50704, 99904)
    later = found(journal, "oldest", "newest", 70000)
    assert later.first.position.position == 70004
    beyond = found(journal, "newest", "binlog.000002:4")
    assert beyond.first == beyond.last == everything.last


@pytest.mark.parametrize(
    ("identity", "start", "oldest", "code"),
    [
        (MINE, "binlog.000001:500", 4, "journal_lost"),
        (MINE, "binlog.000001:1200", 1500, "binlog_purged"),
        (MINE, "oldest", 99999, "binlog_purged"),
        (MINE, "0-1-77", 4, "journal_lost"),
        ("mariadb:9:9", "oldest", 4, "wrong_source"),
    ],
)
def test_what_one_of_the_two_lacks_is_refused_by_name(
    written: Written, identity: str, start: str, oldest: int, code: str
) -> None:
    written.begin(position=1000)
    written.transactions(10)
    with pytest.raises(RelayError) as refused:
        ranges.find(Journal(written.folder), start, "newest", facts(identity), BinlogPosition("binlog.000001", oldest))
    assert refused.value.code == code


def test_a_damaged_journal_is_a_named_stop_and_no_end(written: Written) -> None:
    written.begin()
    written.transactions(10)
    written.writer.flush()
    journal = Journal(written.folder)
    last = list(journal.steps(0))[-1]
    with open(next(written.folder.glob("*.seg")), "r+b") as segment:
        segment.seek(last.start + 30)
        segment.write(b"\xee")
    with pytest.raises(RelayError) as damaged:
        list(journal.steps(0))
    assert damaged.value.code == "journal_corrupt"


def report() -> Report:
    return Report("mariadb:1:0 at host:3306", "binlog.000001:4", "binlog.000001:999", 64, 4096)


def finding(rows: int = 10, **settings: Any) -> Finding:
    return Finding(BinlogPosition("binlog.000001", 500), "s.t", rows)._replace(**settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"compared": 10, "equal": 10}, ""),
        ({"faults": {faults.VECTOR: 10}}, "the reference reader could not read any rows"),
        (
            {"faults": {faults.DIED: 10}, "compared": 0},
            "the reference reader could not read 10 rows, for an unknown reason",
        ),
        ({"left_out": "of tables"}, ""),
    ],
)
def test_a_report_knows_whether_all_was_compared(settings: dict[str, Any], says: str) -> None:
    made = report()
    made.add(finding(**settings))
    assert made.incomplete.startswith(says) and bool(made.incomplete) == bool(says)


def test_a_report_lists_the_first_differences_and_counts_all() -> None:
    made = report()
    different = Difference(BinlogPosition("binlog.000001", 500), "s.t", 1, "value", "v", "'\x1b[2J'", "'b'")
    made.add(finding(compared=10, equal=9, differences=[different] * (SHOWN + 5)))
    text = made.text()
    assert made.differences == SHOWN + 5 and len(made.listed) == SHOWN
    assert "binlog.000001:500 s.t row 1 column v: value" in text and "and 5 more" in text
    assert "\x1b" not in text, "what comes from rows cannot command the terminal"


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    at = BinlogPosition("binlog.000007", 4711)
    terminal, file = StringIO(), StringIO()
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    for stream in (terminal, file):
        with Bar(stream, "verifying") as bar:
            for second in range(1, 40):
                progress = Progress(second / 40, at, 1000 * second, float(second))
                bar.show(progress.seconds, progress.done, progress.text)
    assert "[###############---------------]  50%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K"), "it is taken away at the end"
    lines = file.getvalue().splitlines()
    assert len(lines) == 3 and lines[0].endswith("25%  10,000 rows  1,000 rows/s  binlog.000007:4711")


def test_the_server_id_is_nobody_else_s() -> None:
    drawn: Callable[[int], int] = iter([5, 6, 7]).__next__  # type: ignore[assignment]
    assert choose_server_id({2**31 + 5, 2**31 + 6}, lambda _: drawn()) == 2**31 + 7  # type: ignore[call-arg]


def test_it_needs_a_journal(tmp_path: Path) -> None:
    with pytest.raises(RelayError, match="there is none"):
        Journal(tmp_path).segments()
