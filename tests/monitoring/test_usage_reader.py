"""UsageReader: rows of a journal by table, kind and minute."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from relay._native import JournalError, TableDefinition, Tally, UsageReader
from relay.errors import StopCode
from tests.support.journal_builder import DELETE, ID, INSERT, NAME, UPDATE, definition
from tests.support.timed_journal import MIDNIGHT, MINUTE, Clocked

ALL = 1 << 40
KINDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


@pytest.fixture
def made(tmp_path: Path) -> Clocked:
    return Clocked(tmp_path / "journal")


def test_rows_are_counted_by_table_kind_and_minute_of_the_event(made: Clocked) -> None:
    other = made.define(ID, NAME, table="u")
    made.changed(INSERT, 500, MIDNIGHT)
    made.changed(INSERT, 1, MIDNIGHT + 59)
    made.changed(UPDATE, 3, MIDNIGHT + 60, other)
    made.changed(DELETE, 2, MIDNIGHT + 61, other)
    made.commit(MIDNIGHT + 61)
    reader = UsageReader(made.folder)
    assert reader.read(made.flush(), ALL)
    assert reader.take() == [
        Tally(0, MINUTE, 501, 0, 0, 0, MIDNIGHT + 59),
        Tally(1, MINUTE + 1, 0, 3, 2, 0, MIDNIGHT + 61),
    ]
    definitions = [definition(ID, NAME), definition(ID, NAME, table="u")]
    assert reader.definitions() == [
        TableDefinition(0, "shop", "t", definitions[0]),
        TableDefinition(1, "shop", "u", definitions[1]),
    ]
    assert (reader.take(), reader.definitions(), reader.missed, reader.number) == ([], [], 0, 507)


def test_rows_whose_names_nothing_proves_are_counted_beside_the_others(made: Clocked) -> None:
    unproven = made.define(ID, NAME, proven=False)
    made.changed(INSERT, 4, MIDNIGHT)
    made.changed(UPDATE, 3, MIDNIGHT, unproven)
    made.changed(DELETE, 2, MIDNIGHT, unproven)
    made.commit(MIDNIGHT)
    reader = UsageReader(made.folder)
    assert reader.read(made.flush(), ALL)
    assert reader.take() == [Tally(0, MINUTE, 4, 3, 2, 5, MIDNIGHT)]


def test_versions_of_a_table_are_one_table_and_each_segment_tells_them_again(made: Clocked) -> None:
    made.happened(1, MIDNIGHT)
    newer = made.define(ID, NAME, version=2)
    made.fill(4, newer)
    reader = UsageReader(made.folder)
    assert reader.read(made.flush(), ALL)
    assert {(tally.table, tally.minute) for tally in reader.take()} == {(0, MINUTE)}
    found = reader.definitions()
    assert {table.table for table in found} == {0}
    assert [table.definition for table in found[:2]] == [definition(ID, NAME), definition(ID, NAME, version=2)]
    assert len(found) == 5
    assert {table.definition for table in found[2:]} == {definition(ID, NAME, version=2)}


def test_short_steps_and_other_readers_count_the_same(made: Clocked) -> None:
    dice = random.Random(2)
    tables = [made.define(ID, NAME, table=f"t{number}") for number in range(5)]
    wanted: Counter[tuple[int, int]] = Counter()
    for _ in range(400):
        if dice.random() < 0.1:
            made.statement("ALTER TABLE x ADD y INT")
        kind, count, number = dice.choice((INSERT, UPDATE, DELETE)), dice.randrange(1, 30), dice.randrange(5)
        made.happened(count, MIDNIGHT, kind, tables[number])
        wanted[kind, number] += count
    found: Counter[tuple[int, int]] = Counter()
    until, reader = made.flush(), UsageReader(made.folder)
    names: dict[int, str] = {}
    level, steps = False, 0
    while not level:
        level = reader.read(until, dice.choice((1, 100, 5000)))
        names |= {table.table: table.name for table in reader.definitions()}
        for tally in reader.take():
            number = int(names[tally.table][1:])
            for kind, name in KINDS.items():
                found[kind, number] += getattr(tally, name)
        steps += 1
        if dice.random() < 0.5:
            assert reader.missed == 0
            reader = UsageReader(made.folder, reader.position, reader.number)
            names = {}
    assert +found == wanted
    assert steps > 50
    assert reader.missed == 0


def test_what_retention_deleted_is_missed_and_statements_are_no_rows(made: Clocked) -> None:
    made.happened(7, MIDNIGHT)
    reader = UsageReader(made.folder)
    assert reader.read(made.flush(), ALL)
    at, number = reader.position, reader.number
    lost = 0
    while len(made.writer.segments()) < 4:
        made.happened(50, MIDNIGHT)
        made.statement("CREATE TABLE y (a INT)")
        lost += 51
    base = made.writer.segments()[-1].base
    made.flush()
    made.writer.drop_before(base)
    with pytest.raises(JournalError) as gone:
        UsageReader(made.folder, at, number).read(made.flush(), ALL)
    assert gone.value.code == StopCode.JOURNAL_LOST
    reader = UsageReader(made.folder, 0, number)
    assert reader.read(made.flush(), ALL)
    rows = sum(tally.insert for tally in reader.take())
    statements = reader.number - number - reader.missed - rows
    assert reader.missed + rows + statements == lost
    assert 0 < rows < lost
    assert abs(statements - rows // 50) <= 1  # they come in turns
    assert UsageReader(made.folder).missed == 0
