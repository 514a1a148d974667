"""ChangeReader: the journal's transactions as columns for the lake, from constructed journals and real servers."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from relay._native import ChangeReader, JournalError, JournalReader, JournalWriter, Reached
from relay.errors import StopCode
from tests.support.change_batches import ALL, drain, ids, read_all, taken
from tests.support.journal_builder import (
    ID,
    INSERT,
    NAME,
    NOON,
    SEGMENT,
    UPDATE,
    Made,
    body,
    column,
    definition,
    row,
)
from tests.support.waiting import until


def test_a_statement_has_a_number_and_stops_the_reading_after_its_transaction(made: Made) -> None:
    made.inserted(1, 2)
    made.statement("TRUNCATE t")
    made.inserted(3)
    reader = made.reader()
    [(position, _)] = JournalReader(made.folder).frames(made.writer.first(), made.flush(), kinds=[6])
    assert read_all(reader, made) == Reached("ddl", 3, NOON + 1, "shop", "TRUNCATE t", b"", b"", position)
    assert (ids(reader), reader.seq, reader.in_transaction) == ([1, 2], 3, False)
    assert read_all(reader, made) == Reached("end", 4, NOON, "", "", b"", b"", 0)
    (batch,) = taken(reader)
    assert batch.column("_seq").to_pylist() == [4]
    assert made.writer.state().sequence == 5


def test_bytes_of_a_statement_that_are_no_utf8_can_be_written_as_text(made: Made) -> None:
    made.statement("ALTER TABLE t COMMENT 'caf\udce9'")
    assert read_all(made.reader(), made).text == "ALTER TABLE t COMMENT 'caf\ufffd'"


def test_statements_and_rows_of_one_transaction_are_told_at_its_end(made: Made) -> None:
    start = made.writer.committed()
    made.writer.ddl(made.place, NOON, "shop", "CREATE TABLE a")
    made.rows(INSERT, row(1))
    made.writer.ddl(made.place, NOON, "shop", "CREATE TABLE b")
    made.rows(INSERT, row(2))
    made.commit()
    reader = made.reader()
    assert read_all(reader, made)[::4] == ("ddl", "CREATE TABLE a")
    assert reader.in_transaction and reader.position == start, "the other one is still to be told"
    assert read_all(reader, made)[::4] == ("ddl", "CREATE TABLE b")
    assert not reader.in_transaction and reader.position == made.writer.committed()
    assert read_all(reader, made).why == "end"
    (batch,) = taken(reader)
    assert batch.column("_seq").to_pylist() == [2, 4]
    assert batch.column("_commit_version").to_pylist() == [4, 4]


def test_gaps_and_another_source_stop_the_reading(made: Made) -> None:
    made.inserted(1)
    made.writer.gap(77, "binlog.000003", "purged")
    made.inserted(2)
    made.writer.file(4, "binlog.000004")
    made.writer.source(200, "other.000001", "", "server two")
    made.inserted(3)
    reader = made.reader()
    assert read_all(reader, made) == Reached("gap", 1, NOON, "", "purged", b"", b"", 0)
    assert (ids(reader), reader.file, reader.offset) == ([1], "binlog.000003", 77)
    assert read_all(reader, made) == Reached("source", 2, NOON, "", "server two", b"", b"", 0)
    assert (ids(reader), reader.file, reader.offset) == ([2], "other.000001", 200)
    assert read_all(reader, made).why == "end"
    (batch,) = taken(reader)
    assert batch.column("_file").to_pylist() == ["other.000001"]


def test_columns_may_be_taken_within_a_large_transaction(made: Made) -> None:
    made.inserted(0)
    before = made.writer.committed()
    for number in range(0, 3000, 10):
        made.rows(INSERT, *(row(n, b"y" * 70) for n in range(number, number + 10)))
    made.commit(gtid="0-1-9")
    reader, found = made.reader(before), list[int]()
    while (reached := read_all(reader, made, 20_000)).why == "full":
        assert reader.in_transaction and reader.position == before
        (batch,) = taken(reader)
        assert batch.nbytes < 30_000
        assert reached.seq == reader.seq == batch.column("_seq").to_pylist()[-1]
        assert set(batch.column("_commit_version").to_pylist()) == {3001}
        assert set(batch.column("_gtid").to_pylist()) == {"0-1-9"}
        found += batch.column("id").to_pylist()
    assert reached.why == "end" and not reader.in_transaction
    assert found + ids(reader) == list(range(3000))
    assert len(found) > 2000


@pytest.mark.parametrize("most", [20_000, 200_000, ALL])
def test_rows_may_be_of_any_size_whatever_size_the_first_ones_have(made: Made, most: int) -> None:
    other = made.define(ID, NAME, table="other")
    sizes = [0] * 70 + [250] * 900 + [1] * 400 + [200, 0]
    for number, size in enumerate(sizes):
        made.rows(UPDATE, row(number, None), row(number, b"y" * size))
        made.rows(INSERT, row(number, b"z" * size), table=other)
    made.commit()
    reader = made.reader()
    names: dict[str, list[str | None]] = {"t": [], "other": []}
    reached = None
    while reached != "end":
        reached = read_all(reader, made, most).why
        for batch in taken(reader):
            names[batch.schema.metadata[b"table"].decode()] += batch.column("name").to_pylist()
    assert names["other"] == ["z" * size for size in sizes]
    assert names["t"] == [name for size in sizes for name in (None, "y" * size)]


def test_the_least_that_is_read_is_a_row(made: Made) -> None:
    made.inserted(1, 2)
    made.inserted(3)
    reader, found = made.reader(), list[list[int]]()
    while read_all(reader, made, 1).why == "full":
        found.append(ids(reader))
    assert [*found, ids(reader)] == [[1], [2], [3]] or [*found, ids(reader)] == [[1], [2], [3], []]


def test_reading_goes_on_at_any_boundary_as_if_it_had_never_stopped(made: Made) -> None:
    for number in range(600):
        made.rows(INSERT, *(row(n, b"z" * 60) for n in range(number % 7)))
        made.rows(INSERT, row(number, b"w" * 100))
        made.commit(gtid=f"0-1-{number + 1}")
        if number % 90 == 5:
            made.writer.file(4, f"binlog.{number:06}")
            made.place = 4
        if number % 100 == 50:
            made.statement(f"ALTER {number}")
    until = made.flush()
    assert len(list(made.folder.glob("*.seg"))) > 3

    def facts(reader: ChangeReader) -> tuple[Any, ...]:
        return reader.position, reader.seq, reader.file, reader.offset

    whole, places = made.reader(), list[tuple[Any, ...]]()
    while whole.read(until, 3000).why != "end":
        whole.take()
        if not whole.in_transaction:
            places.append(facts(whole))
    assert len(places) > 100
    for place in places:
        again = ChangeReader(made.folder, place[0])
        assert facts(again) == place
    rest = ChangeReader(made.folder, places[-30][0])
    drain(rest, until)
    assert facts(rest) == facts(whole)


def test_it_begins_with_the_oldest_whole_transaction_and_names_what_retention_took(made: Made) -> None:
    for number in range(40):
        for _ in range(60):
            made.rows(INSERT, row(number, b"q" * 70))
        made.commit()
    until = made.flush()
    start = made.writer.committed()
    bases = [segment.base for segment in made.writer.segments()]
    early = ChangeReader(made.folder)
    early.read(until, 1)
    for drop in bases[1:-1]:
        made.writer.drop_before(drop)
        reader = ChangeReader(made.folder)
        assert reader.read(until, ALL).why == "end"
        numbers = ids(reader)
        assert len(numbers) % 60 == 0, "the rest of a transaction whose beginning is gone is left out"
        assert numbers == [n for n in range(40 - len(numbers) // 60, 40) for _ in range(60)]
        assert reader.position == start
    with pytest.raises(JournalError) as lost:
        ChangeReader(made.folder, bases[1] + 64)
    assert lost.value.code is StopCode.JOURNAL_LOST
    with pytest.raises(JournalError) as lost:
        drain(early, until)
    assert lost.value.code is StopCode.JOURNAL_LOST


def test_a_position_within_a_transaction_is_refused(made: Made) -> None:
    made.rows(INSERT, row(1))
    within = made.writer.end()
    made.rows(INSERT, row(2))
    made.commit()
    with pytest.raises(JournalError, match="not between transactions"):
        made.reader(within)


def test_tables_are_chosen_by_name_once(made: Made) -> None:
    asked, other = list[tuple[str, str]](), made.define(ID, table="other")
    for number in range(3):
        made.rows(INSERT, row(number))
        made.rows(INSERT, b"\0" + struct.pack("<i", 70 + number), table=other, columns=1)
        made.commit()
    made.table = made.define(ID, NAME, version=2)
    made.inserted(9)

    def wanted(schema: str, table: str) -> bool:
        asked.append((schema, table))
        return table == "other"

    reader = made.reader(wanted=wanted)
    assert read_all(reader, made) == Reached("end", 7, NOON, "", "", b"", b"", 0)
    (batch,) = taken(reader)
    assert (batch.column("id").to_pylist(), batch.column("_seq").to_pylist()) == ([70, 71, 72], [2, 4, 6])
    assert asked == [("shop", "t"), ("shop", "other")]


def test_a_reading_returns_now_and_then_though_nothing_is_wanted(tmp_path: Path) -> None:
    made = Made(tmp_path, segment_bytes=1 << 26)
    large = b"\x03" + b"\0" * (1 << 22)
    for _ in range(2):
        for number in range(10):  # of a transaction: 40 MiB
            made.writer.rows(made.table, INSERT, number, NOON, 1, large)
        made.commit()
    reader = made.reader(wanted=lambda schema, table: False)
    reasons = list[str]()
    while not reasons or reasons[-1] != "end":
        reasons.append(read_all(reader, made).why)
    assert reasons.count("more") in (2, 3)
    assert (reader.seq, reader.position) == (20, made.writer.committed())


def test_a_definition_that_waits_for_its_proof_stops_the_reading(made: Made) -> None:
    made.inserted(1)
    pending = made.writer.define(definition(column("@1", 3), table="late"), pending=True)
    made.writer.rows(pending, INSERT, 900, NOON, 1, body(INSERT, 1, b"\0\5\0\0\0"))
    made.commit()
    made.inserted(2)
    reader, end = made.reader(), made.writer.end()
    assert reader.read(end, ALL).seq == 1
    assert ids(reader) == [1]
    made.writer.resolve(pending, definition(ID, table="late"))
    until = made.flush()
    assert reader.read(until, ALL).seq == 3
    assert ids(reader) == [5, 2]
    assert reader.position == until == ChangeReader(made.folder, until).position, "the proof stands at the end"


def test_reading_is_level_behind_a_definition_that_was_proven_last(made: Made) -> None:
    pending = made.writer.define(definition(column("@1", 3), table="late"), pending=True)
    made.writer.rows(pending, INSERT, 900, NOON, 1, body(INSERT, 1, b"\0\5\0\0\0"))
    made.commit()
    made.writer.resolve(pending, definition(ID, table="late"))
    reader, end = made.reader(), made.flush()
    assert reader.read(end, ALL).why == "end"
    assert reader.position == end
    assert ChangeReader(made.folder, end).seq == 1


def test_what_is_flushed_is_told_to_any_process(made: Made) -> None:
    other = JournalReader(made.folder)
    first = made.flush()
    assert other.flushed() == first == made.writer.committed()
    made.inserted(1)
    assert other.flushed() == first
    pid = os.fork()
    if pid == 0:
        os._exit(0 if JournalReader(made.folder).flushed() == first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    second = made.flush()
    assert other.flushed() == JournalReader(made.folder).flushed() == second > first
    for _ in range(3000):  # several segments of a transaction that is open, and then taken back
        made.rows(INSERT, row(1, b"l" * 70))
    assert other.flushed() == JournalReader(made.folder).flushed() == made.flush() == second
    made.writer.rollback()
    assert other.flushed() == JournalReader(made.folder).flushed() == second
    made.inserted(2)
    third = made.flush()
    assert other.flushed() == JournalReader(made.folder).flushed() == third == made.writer.committed()


def test_a_folder_without_a_journal_has_nothing_flushed(tmp_path: Path) -> None:
    assert JournalReader(tmp_path).flushed() == 0
    with pytest.raises(JournalError):
        ChangeReader(tmp_path)


def killed_writer(folder: Path, seed: int) -> None:
    """Transactions whose rows have their own numbers as ids, in a process that is killed; flushed now and then.

    With an even seed it is killed only after a flush, however slow the machine is.
    """
    journal = JournalReader(folder)
    flushed = journal.flushed()
    pid = os.fork()
    if pid == 0:
        try:
            chance = random.Random(seed)
            writer = JournalWriter(folder, SEGMENT)
            table = writer.define(definition(ID, NAME))
            while True:
                number = writer.state().sequence
                for first in range(number, number + chance.randrange(60), 3):
                    images = [row(each, b"k" * 70) for each in range(first, first + 3)]
                    writer.rows(table, INSERT, number, NOON, 3, body(INSERT, 2, *images))
                if chance.random() < 0.1:
                    writer.rollback()
                    continue
                writer.commit(number, NOON, f"0-1-{number}")
                if chance.random() < 0.2:
                    writer.flush()
        finally:
            os._exit(1)
    try:
        if seed % 2 == 0:
            until(lambda: journal.flushed() > flushed, what=f"nothing flushed after byte {flushed}", pause=0.001)
        time.sleep(random.Random(seed).uniform(0.01, 0.05))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_was_read_as_flushed_stands_whatever_becomes_of_the_writer(tmp_path: Path) -> None:
    JournalWriter(tmp_path, SEGMENT).flush()
    journal, found, position = JournalReader(tmp_path), list[int](), 0
    for seed in range(25):
        reader = ChangeReader(tmp_path, position)
        flushed = journal.flushed()
        killed_writer(tmp_path, seed)
        assert journal.flushed() >= flushed
        while reader.read(journal.flushed(), 30_000).why != "end":
            if not reader.in_transaction:
                position = reader.position
            for batch in taken(reader):
                assert batch.column("id").to_pylist() == batch.column("_seq").to_pylist()
                found += [number for number in batch.column("_seq").to_pylist() if number > len(found)]
        for batch in taken(reader):
            found += [number for number in batch.column("_seq").to_pylist() if number > len(found)]
        position = reader.position
        assert found == list(range(1, reader.seq + 1))
    assert len(found) > 25 / 2
