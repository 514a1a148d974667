"""The schema history beside a journal: after any kill or failure of the host, no binlog position misleads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay._native import JournalWriter
from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.schema import history
from relay.schema.facts import Reply
from relay.schema.history import NOTHING_KNOWN
from relay.schema.restore import SOURCE, HistoryCommitter, restore
from relay.schema.store import Store
from relay.schema.table import ABSENT, State, Unknown

T = TableName("d", "t")
FIRST, SECOND = "mysql:first", "mysql:second"


class Beside:
    """A journal and the history beside it, as the reader keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open()

    def open(self) -> None:
        """As a reader that starts."""
        self.writer = JournalWriter(self.folder / "journal", 1 << 20)
        self.store = Store(self.folder / "schema.db")
        restore(self.store, self.writer, self.folder / "journal", list)
        self.history = history.History(self.store, lambda *_: None)

    def begin(self, source: str, *, moved: bool = False) -> None:
        """The stream begins at a source, not to be asked yet."""
        if moved:
            self.store.new_epoch()
        self.writer.source(4, "b.1", "", source)
        self.writer.flush()

    def look(self, source: str, state: State) -> None:
        """The source is asked for its tables, at 500."""
        self.store.put_fact(SOURCE, source)
        self.store.put_replies([Reply(T, state, BinlogPosition("b.1", 500), BinlogPosition("b.1", 500))])
        self.store.commit()

    def statement(self, position: int, left: State) -> None:
        """A statement that ends at a position; what it leaves of the table is not kept beside the journal yet."""
        outcomes: list[history.Outcome] = [(*T, left)]
        end = BinlogPosition("b.1", position)
        self.history.add(outcomes, end, self.writer.sequence())
        self.writer.ddl(position, 0, "d", "DROP TABLE t", tables=history.packed(outcomes))
        self.writer.commit(position, 0)
        self.writer.flush()

    def keep(self) -> None:
        HistoryCommitter(self.store, self.writer).commit()

    def kill(self) -> None:
        self.store.close()
        self.open()

    def state(self, position: int) -> State:
        return self.history.state(T, BinlogPosition("b.1", position))


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    """At a first source, that has no table at 500 and leaves something of it at 1000."""
    made = Beside(tmp_path)
    made.begin(FIRST)
    made.look(FIRST, ABSENT)
    made.statement(1000, Unknown("made at 1000"))
    made.keep()
    yield made
    made.store.close()


def test_what_a_kill_kept_out_of_the_store_is_read_from_the_journal(beside: Beside) -> None:
    beside.statement(2000, ABSENT)
    beside.statement(3000, Unknown("made at 3000"))
    beside.kill()
    assert [beside.state(at) for at in (600, 1000, 2000, 3000)] == [
        ABSENT, Unknown("made at 1000"), ABSENT, Unknown("made at 3000"),
    ]  # fmt: skip
    assert [each.sequence for each in beside.store.versions(T)] == [3, 2, 1]


def test_a_kill_between_two_sources_leaves_nothing_of_the_first_ones_places(beside: Beside) -> None:
    """The journal has the second one, and the store does not have it yet."""
    beside.begin(SECOND, moved=True)
    beside.kill()
    assert beside.state(1000) == beside.state(600) == NOTHING_KNOWN


def test_a_kill_before_the_second_source_is_asked_again_changes_nothing_that_it_said(beside: Beside) -> None:
    beside.begin(SECOND, moved=True)
    beside.look(SECOND, Unknown("at the second"))
    epoch = beside.store.epoch
    beside.kill()
    assert beside.store.epoch == epoch, "all tables are asked for twice"
    assert beside.state(600) == beside.state(1000) == Unknown("at the second")


def test_a_journal_that_lost_the_way_to_the_second_source_takes_nothing_from_it(beside: Beside) -> None:
    """The host died: what was kept beside the journal outlived the journal's end."""
    before = beside.folder / "before"
    shutil.copytree(beside.folder / "journal", before)
    beside.begin(SECOND, moved=True)
    beside.look(SECOND, Unknown("at the second"))
    beside.store.close()
    shutil.rmtree(beside.folder / "journal")
    before.rename(beside.folder / "journal")
    beside.open()
    assert beside.state(600) == beside.state(1000) == NOTHING_KNOWN


def test_statements_that_the_journal_lost_come_again(beside: Beside) -> None:
    before = beside.folder / "before"
    shutil.copytree(beside.folder / "journal", before)
    beside.statement(2000, ABSENT)
    beside.keep()
    beside.store.close()
    shutil.rmtree(beside.folder / "journal")
    before.rename(beside.folder / "journal")
    beside.open()
    assert beside.state(2000) == Unknown("made at 1000")
    beside.statement(2000, ABSENT)
    assert [each.sequence for each in beside.store.versions(T)] == [2, 1]


def test_a_gap_leaves_nothing_of_the_places_before_it(beside: Beside) -> None:
    beside.store.new_epoch()
    beside.writer.gap(1000, "b.1", "purged")
    beside.begin(FIRST)
    beside.kill()
    assert beside.state(1000) == beside.state(600) == NOTHING_KNOWN
