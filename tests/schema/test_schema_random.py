"""Definitions and rows change at random, and the relay lags at random: no column gets another column's name."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer
from tests.support.chance import seeds
from tests.support.lagging_reader import Laggard, columns_of, identity, write
from tests.support.random_tables import quoted

pytestmark = pytest.mark.brands

NAMES = ("a", "b", "c", "d", "e`f", "g.h", "ä")
TABLES = ("t", "u", "v")
TYPES = ("VARCHAR(20)", "VARCHAR(20)", "VARCHAR(20)", "INT")


class Life:
    """Random statements on a few tables, of the same names in two schemas."""

    def __init__(self, cursor: Cursor, chance: random.Random, schemas: tuple[str, str]) -> None:
        self.cursor = cursor
        self.chance = chance
        self.tables = [(owner, table) for owner in schemas for table in TABLES]
        self.inserted = Counter[tuple[str, str]]()
        for owner in schemas:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {owner}")
        for owner, table in self.tables:
            self._create(owner, table)

    def step(self) -> None:
        """One statement or two, oftener of rows than of definitions."""
        owner, table = self.chance.choice(self.tables)
        self.cursor.execute(f"USE {self.chance.choice(self.tables)[0]}")
        kinds: list[tuple[int, Callable[[str, str], None]]] = [
            (20, self._insert), (4, self._update), (2, self._delete), (8, self._alter), (2, self._recreate),
            (2, self._swap), (1, self._copy), (1, self._truncate),
        ]  # fmt: skip
        (do,) = self.chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        do(owner, table)

    def _create(self, owner: str, table: str) -> None:
        columns = self.chance.sample(NAMES, self.chance.randint(2, 5))
        spelled = ", ".join(f"{quoted(name)} {self.chance.choice(TYPES)}" for name in columns)
        self.cursor.execute(f"CREATE TABLE {owner}.{table} ({spelled})")

    def _insert(self, owner: str, table: str) -> None:
        write(self.cursor, owner, table)
        self.inserted[owner, table] += 1

    def _update(self, owner: str, table: str) -> None:
        names = columns_of(self.cursor, owner, table)
        values = ", ".join(f"{quoted(name)} = '{identity(name)}'" for name in names)
        self.cursor.execute(f"UPDATE {owner}.{table} SET {values}")

    def _delete(self, owner: str, table: str) -> None:
        self._update(
            owner, table
        )  # a row tells the names that it was written under, not those that columns have by now
        self.cursor.execute(f"DELETE FROM {owner}.{table}")

    def _alter(self, owner: str, table: str) -> None:
        names = columns_of(self.cursor, owner, table)
        free = [name for name in NAMES if name not in names]
        one, other = self.chance.sample(names, 2)
        new = quoted(self.chance.choice(free)) if free else ""
        one, other, kind = quoted(one), quoted(other), self.chance.choice(TYPES)
        place = self.chance.choice(["", " FIRST", f" AFTER {other}"])
        clauses = [
            f"RENAME COLUMN {one} TO {other}, RENAME COLUMN {other} TO {one}",
            f"MODIFY {one} {kind}{place}",
        ]
        if free:
            clauses += [f"ADD {new} {kind}{place}", f"DROP {one}, ADD {new} {kind}{place}"]
            clauses += [f"RENAME COLUMN {one} TO {new}", f"CHANGE {one} {new} {kind}{place}"]
        if len(names) > 2:
            clauses.append(f"DROP {one}")
        self.cursor.execute(f"ALTER TABLE {owner}.{table} {self.chance.choice(clauses)}")

    def _recreate(self, owner: str, table: str) -> None:
        self.cursor.execute(f"DROP TABLE {owner}.{table}")
        self._create(owner, table)

    def _swap(self, owner: str, table: str) -> None:
        other = self.chance.choice([known for known in self.tables if known != (owner, table)])
        first, second, between = f"{owner}.{table}", f"{other[0]}.{other[1]}", f"{owner}.between_them"
        self.cursor.execute(f"RENAME TABLE {first} TO {between}, {second} TO {first}, {between} TO {second}")

    def _copy(self, owner: str, table: str) -> None:
        other = self.chance.choice([known for known in self.tables if known != (owner, table)])
        self.cursor.execute(f"DROP TABLE {owner}.{table}")
        self.cursor.execute(f"CREATE TABLE {owner}.{table} LIKE {other[0]}.{other[1]}")

    def _truncate(self, owner: str, table: str) -> None:
        self.cursor.execute(f"TRUNCATE TABLE {owner}.{table}")


@pytest.fixture
def live(
    server: DatabaseServer, db: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[int, int, bool], None]]:
    """live(seed, steps): lets tables live, reads them with lag, and looks at every row."""
    names: list[str] = []
    (before,) = server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0]

    def run(seed: int, steps: int, full: bool) -> None:
        chance = random.Random(seed)
        schemas = (f"{db}_{seed}", f"{db}_{seed}_2")
        names.extend(schemas)
        if full:
            server.execute("SET GLOBAL binlog_row_metadata = FULL")
        folder = tmp_path / str(seed)
        folder.mkdir()
        with server.connect() as connection, connection.cursor() as cursor:
            laggard = Laggard(server, folder, f"{db}_{seed}")
            life = Life(cursor, chance, schemas)

            def meanwhile() -> None:
                for _ in range(chance.choice([0] * 10 + [1, 2])):
                    life.step()

            laggard.before_answer = laggard.after_answer = meanwhile
            for _ in range(steps):
                life.step()
                match chance.choice(["read", "read", "read a part", "restart", "", "", "", ""]):
                    case "read":
                        laggard.catch_up()
                    case "read a part":
                        laggard.catch_up(chance.randint(1, 20_000))
                    case "restart":
                        laggard.restart()
            laggard.before_answer = laggard.after_answer = lambda: None
            laggard.catch_up()
            rows = laggard.rows()
            laggard.close()
        untrue = [row for row in rows if not row.true]
        assert not untrue, f"seed {seed}: {len(untrue)} of {len(rows)} rows, the first: {untrue[0]}"
        inserted = Counter((row.schema, row.table) for row in rows if row.kind == 1)
        assert inserted == life.inserted, f"seed {seed}: rows were lost or repeated"
        proven = sum(row.proven for row in rows)
        assert proven == len(rows) if full else proven > 0, f"seed {seed}: {proven} of {len(rows)} rows are proven"

    yield run
    server.execute(f"SET GLOBAL binlog_row_metadata = {before}", *[f"DROP DATABASE IF EXISTS {name}" for name in names])


@pytest.mark.parametrize("full", [False, True], ids=["default", "full"])
def test_names_stay_true_through_a_random_life(live: Callable[[int, int, bool], None], full: bool) -> None:
    for seed in seeds(2, 1):
        live(seed, 30, full)


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True], ids=["default", "full"])
def test_names_stay_true_through_many_workloads(live: Callable[[int, int, bool], None], full: bool) -> None:
    for seed in seeds(6, 3):
        live(seed, 120, full)
