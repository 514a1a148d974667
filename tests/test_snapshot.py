"""The snapshot of a lake's tables: existing rows arrive while changes flow, and both together are the source."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from tests.snapshotted import Lake, MakeReader, running, writer


@pytest.fixture
def make_lake(server: DatabaseServer, db: str, tmp_path: Path, make_reader: MakeReader) -> Callable[[], Lake]:
    return lambda: Lake(server, db, tmp_path, make_reader)


def test_rows_of_before_and_changes_of_after_are_the_table(
    server: DatabaseServer, db: str, make_lake: Callable[[], Lake]
) -> None:
    server.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DATE)",
        "INSERT INTO t VALUES (1, 'one', '2024-02-29'), (2, 'two', NULL), (3, NULL, '2024-01-01')",
        "CREATE TABLE none (id INT PRIMARY KEY)",
    )
    lake = make_lake()
    lake.fetch()
    assert lake.known("t").complete_from is not None
    lake.check("t", "none")
    server.execute(f"UPDATE {db}.t SET v = 'TWO', id = 7 WHERE id = 2", f"DELETE FROM {db}.t WHERE id = 3")
    server.execute(f"INSERT INTO {db}.t VALUES (9, 'nine', NULL)", f"INSERT INTO {db}.none VALUES (5)")
    lake.export()
    lake.check("t", "none")
    lake.fetch()
    assert len([line for line in lake.records if line.startswith("snapshot_begins ")]) == 2


def busy(chance: random.Random) -> list[str]:
    """A transaction on t and n: inserts, updates, key changes and deletes."""
    statements = []
    for _ in range(chance.randint(1, 4)):
        one, other = chance.randrange(600), chance.randrange(600)
        statements.append(
            chance.choice([
                f"REPLACE INTO t VALUES ({one}, {chance.random()}, 'new')",
                f"UPDATE t SET v = {chance.random()}, w = NULL WHERE id BETWEEN {one} AND {one + 3}",
                f"UPDATE IGNORE t SET id = {one} WHERE id = {other}",
                f"DELETE FROM t WHERE id = {one}",
                f"INSERT INTO n VALUES ({one}, 'x')",
                f"UPDATE n SET v = v + 1 WHERE v = {one}",
                f"DELETE FROM n WHERE v = {one} LIMIT 1",
            ])
        )  # fmt: skip
    return statements


def test_heavy_writing_meanwhile_leaves_no_gap_and_no_duplicate(
    server: DatabaseServer, db: str, make_lake: Callable[[], Lake]
) -> None:
    server.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE, w VARCHAR(20))",
        "CREATE TABLE n (v INT, w VARCHAR(20))",
        f"INSERT INTO t VALUES {', '.join(f'({number}, 0, NULL)' for number in range(0, 600, 2))}",
        f"INSERT INTO n VALUES {', '.join(f'({number % 50}, NULL)' for number in range(200))}",
    )
    lake = make_lake()
    with running(*(writer(server, db, seed, busy) for seed in range(3))), lake.exporting():
        lake.fetch(most_rows=7)
    lake.export()
    assert lake.known("t").complete_from is not None
    lake.check("t", "n")
