"""Table usage: rolling windows under a test clock, and the persistence of counts."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from relay._native import JournalReader
from relay.monitoring import usage
from relay.monitoring.usage import DAY, HOUR, Usage
from relay.runtime import process_status
from relay.runtime.process_status import Counts, MonitorReport, StatusPage, TableUsage, Watch, write_report
from tests.support.journal_builder import DELETE, ID, INSERT, NAME, UPDATE, body, column, row
from tests.support.timed_journal import MIDNIGHT, MINUTE, Clocked

KINDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


@pytest.fixture
def made(tmp_path: Path) -> Clocked:
    return Clocked(tmp_path / "journal")


class Counting:
    """A Usage that may be ended, killed and begun again."""

    def __init__(self, made: Clocked) -> None:
        self.made = made
        self.path = made.folder.parent / "usage.db"
        self.usage = Usage(self.path, made.folder)

    def at(self, now: float) -> TableUsage:
        """Everything counted at that time; the figures of the first table."""
        until = self.made.flush()
        while not self.usage.advance(now, until):
            pass
        assert self.usage.trouble == ""
        return self.usage.tables()[0]

    def restart(self) -> None:
        self.usage.close()
        self.killed()

    def killed(self) -> None:
        self.usage = Usage(self.path, self.made.folder)


@pytest.fixture
def counting(made: Clocked) -> Iterator[Counting]:
    counting = Counting(made)
    yield counting
    counting.usage.close()


def test_the_hour_is_this_minute_and_the_59_before_it(made: Clocked, counting: Counting) -> None:
    made.happened(3, MIDNIGHT + 30)
    assert counting.at(MIDNIGHT + 30).hour.insert == 3
    assert counting.at(MIDNIGHT + 59.9).hour.insert == 3
    assert counting.at(MIDNIGHT + 3599.9).hour.insert == 3
    assert counting.at(MIDNIGHT + 3600).hour.insert == 0
    assert counting.at(MIDNIGHT + 3600).day.insert == 3


def test_the_day_is_this_minute_and_the_1439_before_it(made: Clocked, counting: Counting) -> None:
    made.happened(3, MIDNIGHT + 59)
    made.happened(4, MIDNIGHT + 60, UPDATE)
    assert counting.at(MIDNIGHT + 86399.9).day == Counts(3, 4, 0)
    assert counting.at(MIDNIGHT + 86400).day == Counts(0, 4, 0)
    assert counting.at(MIDNIGHT + 86459.9).day == Counts(0, 4, 0)
    found = counting.at(MIDNIGHT + 86460)
    assert (found.day, found.hour, found.total) == (Counts(), Counts(), Counts(3, 4, 0))


@pytest.mark.parametrize("end", ["restart", "killed", "none"])
def test_nothing_begins_anew_at_midnight_or_at_a_full_hour(made: Clocked, counting: Counting, end: str) -> None:
    made.happened(1, MIDNIGHT - 3600)
    made.happened(2, MIDNIGHT - 1)
    assert counting.at(MIDNIGHT - 1).hour.insert == 3
    if end == "restart":
        counting.restart()
    elif end == "killed":
        counting.killed()
    made.happened(4, MIDNIGHT)
    found = counting.at(MIDNIGHT)
    assert (found.day.insert, found.hour.insert, found.total.insert) == (7, 6, 7)
    found = counting.at(MIDNIGHT + 59 * 60)
    assert (found.day.insert, found.hour.insert) == (7, 4)


def test_a_standstill_of_hours_is_caught_up_with_in_the_minutes_of_its_events(
    made: Clocked, counting: Counting
) -> None:
    made.happened(1, MIDNIGHT)
    assert counting.at(MIDNIGHT).hour.insert == 1
    counting.restart()
    for hour in range(1, 31):
        made.happened(1, MIDNIGHT + 3600 * hour)
    found = counting.at(MIDNIGHT + 3600 * 30 + 59)
    assert (found.total.insert, found.day.insert, found.hour.insert) == (31, 24, 1)
    assert found.last == MIDNIGHT + 3600 * 30


def test_events_ahead_of_the_clock_count_as_now(made: Clocked, counting: Counting) -> None:
    made.happened(5, MIDNIGHT + 7200)
    found = counting.at(MIDNIGHT)
    assert (found.hour.insert, found.day.insert, found.last) == (5, 5, MIDNIGHT)
    assert counting.usage.minutes("shop", "t")[-1].insert == 5
    counting.restart()
    assert counting.at(MIDNIGHT + 3540).hour.insert == 5
    assert counting.at(MIDNIGHT + 3600).hour.insert == 0


def test_a_clock_that_is_put_back_takes_nothing_away_and_forward_again_neither(
    made: Clocked, counting: Counting
) -> None:
    made.happened(1, MIDNIGHT)
    made.happened(2, MIDNIGHT + 7200)
    assert counting.at(MIDNIGHT + 7200).hour.insert == 2
    assert counting.at(MIDNIGHT - 3 * 86400).hour.insert == 3
    assert counting.at(MIDNIGHT + 600).hour.insert == 3
    assert counting.at(MIDNIGHT + 7200).hour.insert == 2
    assert counting.at(MIDNIGHT + 7200 + 59 * 60).hour.insert == 2
    found = counting.at(MIDNIGHT + 7200 + 60 * 60)
    assert (found.hour, found.day, found.total) == (Counts(), Counts(insert=3), Counts(insert=3))


def test_minutes_of_a_table_are_the_last_sixty_oldest_first(made: Clocked, counting: Counting) -> None:
    made.happened(9, MIDNIGHT)
    made.happened(1, MIDNIGHT + 60)
    counting.at(MIDNIGHT + 60)
    counting.restart()
    made.happened(2, MIDNIGHT + 60, DELETE)
    made.happened(3, MIDNIGHT + 3600, UPDATE)
    found = counting.at(MIDNIGHT + 3601)
    minutes = counting.usage.minutes("shop", "t")
    assert len(minutes) == HOUR
    assert minutes[0] == Counts(1, 0, 2)
    assert minutes[-1] == Counts(0, 3, 0)
    assert [sum(getattr(m, kind) for m in minutes) for kind in ("insert", "update", "delete")] == [1, 3, 2]
    assert found.hour == Counts(1, 3, 2)
    assert counting.usage.minute == MINUTE + 60
    assert counting.usage.minutes("shop", "none") == [Counts()] * HOUR


def test_any_life_of_journal_and_clock_gives_what_counting_by_hand_gives(made: Clocked, counting: Counting) -> None:
    dice = random.Random(7)
    tables = {name: made.define(ID, NAME, table=name) for name in ("a", "b", "c")}
    events: list[tuple[str, int, int, int]] = []  # table, kind, minute, rows
    now = float(MIDNIGHT - 400)
    for _ in range(700):
        for _ in range(dice.randrange(4)):
            late = dice.choice((0, 0, 0, 30, 600, 3600, 100_000))
            table, kind, count, when = dice.choice("abc"), dice.choice(list(KINDS)), dice.randrange(1, 20), now - late
            made.happened(count, when, kind, tables[table])
            events.append((table, kind, int(when) // 60, count))
        now += dice.choice((0.3, 1, 7, 20, 59, 61, 300, 3000 * (dice.random() < 0.1)))
        if dice.random() < 0.02:
            now += dice.choice((3600, 23 * 3600, 30 * 3600))
        if dice.random() < 0.1:
            dice.choice((counting.restart, counting.killed))()
        if not events:
            continue
        counting.at(now)
        found = {table.table: table for table in counting.usage.tables()}
        for length, window in ((HOUR, "hour"), (DAY, "day"), (1 << 40, "total")):
            wanted: Counter[tuple[str, str]] = Counter()
            for name, kind, minute, count in events:
                if minute > int(now) // 60 - length:
                    wanted[name, KINDS[kind]] += count
            got = {(name, kind): getattr(getattr(table, window), kind)
                   for name, table in found.items() for kind in KINDS.values()}  # fmt: skip
            assert {key: value for key, value in got.items() if value} == wanted, window
    assert now > MIDNIGHT + 3 * 86400


def test_old_minutes_leave_the_file(made: Clocked, counting: Counting) -> None:
    for minute in range(0, 3000, 10):
        made.happened(1, MIDNIGHT + 60 * minute)
        counting.at(MIDNIGHT + 60 * minute)
    counting.restart()
    counting.at(MIDNIGHT + 60 * 2990)
    assert counting.usage._store is not None
    rows = counting.usage._store.between(0, 1 << 40)
    assert 144 <= rows[0][1] <= 155


# ---- what a count survives


def count_in_child(path: Path, folder: Path, until: int, seconds: float) -> None:
    """Counts in short steps, each saved, in a process that is killed after some time."""
    pid = os.fork()
    if pid == 0:
        usage.STEP_BYTES = 500
        counting, now = Usage(path, folder), float(MIDNIGHT)
        while True:
            counting.advance(now, until)
            now += 3
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_process_killed_at_any_point_counts_every_row_once(made: Clocked, counting: Counting) -> None:
    dice = random.Random(3)
    tables = [made.define(ID, NAME, table=f"t{number}") for number in range(10)]
    wanted: Counter[str] = Counter()
    for _ in range(6000):
        number, count = dice.randrange(10), dice.randrange(1, 9)
        made.changed(INSERT, count, MIDNIGHT - dice.randrange(3000), tables[number])
        made.commit(MIDNIGHT)
        wanted[f"t{number}"] += count
    until = made.flush()
    for _ in range(25):
        count_in_child(counting.path, made.folder, until, dice.uniform(0.005, 0.06))
    counting.at(MIDNIGHT)
    assert {table.table: table.total.insert for table in counting.usage.tables()} == wanted
    assert {table.table: table.hour.insert for table in counting.usage.tables()} == wanted
    assert counting.usage.usage().missed == 0


def test_a_new_journal_goes_on_from_its_beginning(made: Clocked, counting: Counting) -> None:
    made.happened(5, MIDNIGHT)
    counting.at(MIDNIGHT + 1)
    counting.restart()
    shutil.rmtree(made.folder)
    newer = Clocked(made.folder)
    counting.made = newer
    newer.happened(2, MIDNIGHT + 100)
    found = counting.at(MIDNIGHT + 101)
    assert (found.total.insert, found.hour.insert) == (7, 7)
    told = counting.usage.usage()
    assert (told.since, told.missed, told.position) == (MIDNIGHT + 1, 0, newer.flush())


def test_rows_that_come_again_after_a_journal_was_restored_are_counted_once(
    made: Clocked, counting: Counting, tmp_path: Path
) -> None:
    made.happened(5, MIDNIGHT)
    made.statement("CREATE TABLE z (a INT)")
    shutil.copytree(made.folder, tmp_path / "backup")
    made.happened(6, MIDNIGHT)
    made.statement("CREATE TABLE z (a INT)")
    made.happened(7, MIDNIGHT)
    assert counting.at(MIDNIGHT).total.insert == 18
    counting.restart()
    shutil.rmtree(made.folder)
    shutil.copytree(tmp_path / "backup", made.folder)
    again = Clocked.__new__(Clocked)
    again.__dict__.update(made.__dict__)
    again.writer = type(made.writer)(made.folder, 1 << 16)
    again.table = again.define(ID, NAME)
    counting.made = again
    again.happened(6, MIDNIGHT)
    assert counting.at(MIDNIGHT).total.insert == 18
    counting.restart()
    again.statement("CREATE TABLE z (a INT)")
    again.happened(7, MIDNIGHT)
    assert counting.at(MIDNIGHT).total.insert == 18
    again.happened(1, MIDNIGHT)
    assert counting.at(MIDNIGHT).total.insert == 19
    assert counting.usage.usage().missed == 0


@pytest.mark.parametrize("running", [True, False])
def test_what_retention_was_faster_with_is_told_and_the_rest_is_counted(
    made: Clocked, counting: Counting, running: bool
) -> None:
    made.happened(5, MIDNIGHT)
    assert counting.at(MIDNIGHT).total.insert == 5
    if not running:
        counting.restart()
    happened = 5 + made.fill(5)
    made.flush()
    made.writer.drop_before(made.writer.segments()[-1].base)
    found = counting.at(MIDNIGHT + 10)
    missed = counting.usage.usage().missed
    assert missed > 0
    assert found.total.insert + missed == happened
    counting.restart()
    assert counting.at(MIDNIGHT + 20).total.insert + counting.usage.usage().missed == happened


def test_the_newest_definition_of_each_table_outlives_its_frame(made: Clocked, counting: Counting) -> None:
    made.happened(1, MIDNIGHT)
    counting.at(MIDNIGHT)
    assert [len(known.columns) for known in counting.usage.definitions()] == [2]
    newer = made.define(ID, NAME, column("c", 3), version=2)
    made.writer.rows(newer, INSERT, 9000, MIDNIGHT, 1, body(INSERT, 3, row(1) + bytes(4)))
    made.commit()
    counting.at(MIDNIGHT)
    for _ in range(2):
        (known,) = counting.usage.definitions()
        assert ([c.name for c in known.columns], known.version) == (["id", "name", "c"], 2)
        assert counting.usage.definition("shop", "t") == known
        counting.restart()
        counting.at(MIDNIGHT)
    assert counting.usage.definition("shop", "none") is None


def test_a_file_that_is_no_database_is_trouble_and_its_end_is_noticed(made: Clocked, counting: Counting) -> None:
    made.happened(1, MIDNIGHT)
    until = made.flush()
    counting.path.write_bytes(b"nonsense " * 1000)
    assert counting.usage.advance(MIDNIGHT, until)
    assert "usage.db: file is not a database" in counting.usage.trouble
    assert counting.usage.usage().trouble == counting.usage.trouble
    counting.path.unlink()
    assert counting.usage.advance(MIDNIGHT + 1, until)
    assert counting.usage.trouble, "not tried again at once"
    assert counting.at(MIDNIGHT + 6).total.insert == 1


def test_a_file_that_a_stranger_locks_is_trouble_and_nothing_is_counted_twice(
    made: Clocked, counting: Counting
) -> None:
    made.happened(1, MIDNIGHT)
    counting.at(MIDNIGHT)
    stranger = sqlite3.connect(counting.path, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    made.happened(2, MIDNIGHT + 10)
    assert counting.usage.advance(MIDNIGHT + 10, made.flush())
    assert "database is locked" in counting.usage.trouble
    assert counting.usage.advance(MIDNIGHT + 100, made.flush())
    assert counting.usage.trouble
    stranger.execute("ROLLBACK")
    assert counting.at(MIDNIGHT + 110).hour.insert == 3
    made.happened(4, MIDNIGHT + 120)
    assert counting.at(MIDNIGHT + 120).total.insert == 7
    stranger.execute("BEGIN IMMEDIATE")
    made.happened(8, MIDNIGHT + 120)
    counting.usage.advance(MIDNIGHT + 121, made.flush())
    counting.restart()
    stranger.close()
    assert counting.at(MIDNIGHT + 122).total.insert == 15


def test_a_damaged_journal_is_trouble_and_what_stands_before_it_is_counted(made: Clocked, counting: Counting) -> None:
    made.happened(3, MIDNIGHT)
    good = made.flush()
    made.happened(4, MIDNIGHT)
    until = made.flush()
    segment = next(iter(made.folder.glob("*.seg")))
    with open(segment, "r+b") as file:
        file.seek(good + 8)
        file.write(b"\x98\x02" + b"\xff" * 60)
    assert counting.usage.advance(MIDNIGHT, until)
    assert "malformed" in counting.usage.trouble
    assert counting.usage.tables()[0].total.insert == 3


def test_without_a_journal_nothing_is_counted_yet(tmp_path: Path) -> None:
    counting = Usage(tmp_path / "usage.db", tmp_path / "journal")
    assert counting.advance(MIDNIGHT, 0)
    assert (counting.trouble, counting.tables(), counting.definitions()) == ("", [], [])
    assert counting.advance(MIDNIGHT, 100)
    assert "there is none" in counting.trouble
    made = Clocked(tmp_path / "journal")
    made.happened(1, MIDNIGHT)
    assert counting.advance(MIDNIGHT + 10, made.flush())
    assert (counting.trouble, counting.tables()[0].total.insert) == ("", 1)
    counting.close()


def test_a_journal_can_be_read_while_it_is_counted_in_short_steps(
    made: Clocked, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "STEP_BYTES", 1000)
    for _ in range(100):
        made.happened(10, MIDNIGHT)
    until = made.flush()
    counts = []
    while not counting.usage.advance(MIDNIGHT, until):
        counts.append(counting.usage.tables()[0].total.insert)
    assert len(counts) > 5
    assert all(later > earlier for earlier, later in pairwise(counts))
    assert counting.usage.usage().position == until == JournalReader(made.folder).flushed()


# ---- the status page


def test_tables_that_have_no_room_are_those_with_the_fewest_rows_of_the_day() -> None:
    small = StatusPage(8192)
    tables = [TableUsage("shop", f"table_{n}", Counts(9), Counts(n), Counts(), 0.0) for n in range(1000)]
    shown = MonitorReport(process_status.Usage(1.0, 2, tables), Watch(file="binlog.000001"))
    write_report(small, shown)
    found = small.decode(MonitorReport)
    assert found.watch.file == "binlog.000001"
    kept = [table.day.insert for table in found.usage.tables]
    assert kept == list(range(999, 999 - len(kept), -1))
    assert 10 < len(kept) < 1000
    assert found.usage.left_out == 1000 - len(kept)
    assert len(tables) == 1000
    write_report(small, MonitorReport(process_status.Usage(1.0, 2, tables[:10]), Watch()))
    assert (small.decode(MonitorReport).usage.tables, small.decode(MonitorReport).usage.left_out) == (tables[:10], 0)
