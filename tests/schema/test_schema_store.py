"""The file of the schema history: what it keeps, what it removes, and that it notices foreign changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.schema import store as module
from relay.schema.facts import Damaged, Proof, Reply, Version
from relay.schema.store import Store
from relay.schema.table import ABSENT, Unknown

T = TableName("d", "t")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "schema.db")
    yield store
    store.close()


def version(table: TableName, number: int, *, gone: bool = False) -> Version:
    state = ABSENT if gone else Unknown(f"number {number}")
    return Version(table, state, BinlogPosition("b.1", number), number, Proof.STATEMENT)


def test_what_was_not_kept_is_forgotten_and_what_was_is_there(tmp_path: Path) -> None:
    first = Store(tmp_path / "schema.db")
    first.add([version(T, 1)])
    first.commit()
    first.add([version(T, 2)])
    first.close()
    again = Store(tmp_path / "schema.db")
    assert [each.sequence for each in again.versions(T)] == [1]
    again.close()


def test_after_an_error_nothing_is_kept_of_what_may_have_been_rolled_back(tmp_path: Path) -> None:
    """Nor that it is there, however well the disk is by then."""
    first = Store(tmp_path / "schema.db")
    first.add([version(T, 1)])
    first.commit()
    first.add([version(T, 2)])
    ((pages,),) = first._db.execute("PRAGMA page_count")
    first._db.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    with pytest.raises(sqlite3.OperationalError, match="full"):
        first.add([Version(T, Unknown("long" * 100_000), BinlogPosition("b.1", 3), 3, Proof.STATEMENT)])
    first._db.execute("PRAGMA max_page_count = 100000").fetchone()
    for use in (first.commit, lambda: first.put_fact("covered", "3"), lambda: first.forget_from(9)):
        with pytest.raises(sqlite3.Error):
            use()
    first.close()
    again = Store(tmp_path / "schema.db")
    assert [each.sequence for each in again.versions(T)] == [1] and not again.fact("covered")
    again.close()


def test_of_each_table_the_newest_versions_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERSIONS_KEPT", 3)
    store.add(version(T, number) for number in range(1, 8))
    assert [each.sequence for each in store.versions(T)] == [7, 6, 5]


def test_tables_that_come_and_go_under_new_names_do_not_fill_the_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DROPPED_KEPT", 5)
    monkeypatch.setattr(module, "_DROPPED_BETWEEN_CHECKS", 10)
    store.add([version(T, 1), version(TableName("d", "back"), 2, gone=True), version(TableName("d", "back"), 3)])
    store.put_replies([Reply(TableName("d", "new0"), ABSENT, BinlogPosition("b.1", 1), BinlogPosition("b.1", 2))])
    for number in range(20):
        table = TableName("d", f"new{number}")
        store.add([version(table, 10 + 2 * number), version(table, 11 + 2 * number, gone=True)])
    kept = {name.table for name in store.tables()}
    assert {"t", "back", "new19"} <= kept, "a table that is there, or was dropped just now, is not known any more"
    assert "new0" not in kept, "a table that was dropped long ago is known forever"
    assert len(kept) <= 2 + 5 + 10


def test_what_the_journal_has_lost_is_cut(store: Store) -> None:
    store.add(version(T, number) for number in (1, 5, 9))
    store.forget_from(5)
    assert [each.sequence for each in store.versions(T)] == [1]


def test_a_row_that_was_not_written_so_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "schema.db"
    first = Store(path)
    first.add([version(T, 1)])
    first.commit()
    first.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE versions SET position = position + 1")
    again = Store(path)
    with pytest.raises(Damaged, match=r"schema\.db"):
        list(again.versions(T))
    again.close()
