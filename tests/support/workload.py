"""A random mix of statements on real tables, and the exact rows that it must put into the binlog, in order.

One writer runs it, so the order of commits is the order of statements. A model in memory knows every row's values as
the client library types them; a statement's effect on the model is what a client must receive.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from examples.dbserver import DatabaseServer

Values: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["insert", "update", "delete"]


@dataclass(frozen=True)
class Change:
    """One row of the binlog."""

    kind: Kind
    table: str
    before: Values | None
    after: Values | None


COLUMNS = (
    "id INT PRIMARY KEY, small SMALLINT UNSIGNED, name VARCHAR(80), price DECIMAL(12,3),"
    " state ENUM('new','it''s','old'), tags SET('a','b','c'), made DATETIME(3), day DATE, span TIME(2),"
    " ratio DOUBLE, bits BIT(10), raw VARBINARY(40)"
)
STATES = ("new", "it's", "old")


@dataclass
class Workload:
    """Statements on `tables` of `database`; `changes` grows as transactions commit."""

    server: DatabaseServer
    database: str
    tables: tuple[str, ...] = ("alpha", "beta", "gamma")
    seed: int = 1
    ddl: bool = True
    before_ddl: Callable[[], None] = lambda: None
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.connection = self.server.connect(database=self.database)
        self.rows: dict[str, dict[int, Values]] = {table: {} for table in self.tables}
        self.extra: dict[str, int] = dict.fromkeys(self.tables, 0)
        self.next_id = 1
        self._pending: list[Change] = []
        for table in self.tables:
            self._run(f"CREATE TABLE {table} ({COLUMNS})")

    def close(self) -> None:
        self.connection.close()

    def run(self, steps: int) -> None:
        """Runs that many transactions, some of them rolled back, and sometimes changes a table's columns."""
        for _ in range(steps):
            if self.ddl and self.random.random() < 0.02:
                self._alter(self.random.choice(self.tables))
            self._transaction()

    def _transaction(self) -> None:
        self._run("BEGIN")
        kept = {table: dict(rows) for table, rows in self.rows.items()} if self.random.random() < 0.1 else None
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            table = self.random.choice(self.tables)
            self.random.choice((self._insert, self._insert, self._update, self._delete))(table)
        if kept is not None:
            self._run("ROLLBACK")
            self.rows = kept
        else:
            self._run("COMMIT")
            self.changes += self._pending
        self._pending = []

    def _insert(self, table: str) -> None:
        rows = [self._row(table) for _ in range(self.random.choice((1, 1, 3, 20)))]
        marks = ", ".join(["%s"] * len(rows[0]))
        self._run(
            f"INSERT INTO {table} VALUES " + ", ".join([f"({marks})"] * len(rows)),
            [_literal(name, value) for row in rows for name, value in row.items()],
        )
        for row in rows:
            self.rows[table][row["id"]] = row
            self._pending.append(Change("insert", table, None, row))

    def _some(self, table: str) -> list[int]:
        ids = sorted(self.rows[table])
        return sorted(self.random.sample(ids, min(len(ids), self.random.choice((1, 2, 7)))))

    def _update(self, table: str) -> None:
        ids = self._some(table)
        if not ids:
            return
        name = "n" + str(self.random.randrange(10**6))
        self._run(f"UPDATE {table} SET name = %s, price = NULL WHERE id IN ({_list(ids)}) ORDER BY id", [name])
        for id in ids:
            before = self.rows[table][id]
            after = {**before, "name": name, "price": None}
            self.rows[table][id] = after
            if after != before:
                self._pending.append(Change("update", table, before, after))

    def _delete(self, table: str) -> None:
        ids = self._some(table)
        if not ids:
            return
        self._run(f"DELETE FROM {table} WHERE id IN ({_list(ids)}) ORDER BY id")
        self._pending += [Change("delete", table, self.rows[table].pop(id), None) for id in ids]

    def _alter(self, table: str) -> None:
        """Adds a column after the id, or removes the one added before: all later columns change their position."""
        self.before_ddl()
        number = self.extra[table]
        if number and self.random.random() < 0.5:
            self._run(f"ALTER TABLE {table} DROP COLUMN extra{number}")
            for row_id, row in self.rows[table].items():
                self.rows[table][row_id] = {name: value for name, value in row.items() if name != f"extra{number}"}
            self.extra[table] = 0
        elif not number:
            number = self.random.randrange(1, 1000)
            self._run(f"ALTER TABLE {table} ADD COLUMN extra{number} INT NOT NULL DEFAULT {number} AFTER id")
            for row_id, row in self.rows[table].items():
                self.rows[table][row_id] = {"id": row_id, f"extra{number}": number} | row
            self.extra[table] = number

    def _row(self, table: str) -> Values:
        r = self.random
        row: Values = {"id": self.next_id}
        self.next_id += 1
        if number := self.extra[table]:
            row[f"extra{number}"] = r.randrange(-1000, 1000)
        row |= {
            "small": r.randrange(65536),
            "name": r.choice(("", "x" * r.randrange(80), "grün €\U0001f600", 'it\'s "q" \\', None)),
            "price": r.choice((None, f"{r.randrange(-(10**8), 10**8)}.{r.randrange(1000):03}")),
            "state": r.choice((*STATES, None)),
            "tags": r.choice(("", "a", "a,c", "a,b,c")),
            "made": f"20{r.randrange(10, 99)}-03-1{r.randrange(10)} 0{r.randrange(10)}:15:00.{r.randrange(1000):03}",
            "day": r.choice((None, f"19{r.randrange(10, 99)}-02-0{r.randrange(1, 10)}")),
            "span": r.choice(("-01:02:03.50", "00:00:00.00", "838:59:58.99", None)),
            "ratio": r.choice((None, r.random(), float(r.randrange(10**6)), 1.5e300)),
            "bits": r.randrange(1024).to_bytes(2, "big"),
            "raw": r.choice((None, bytes(r.randrange(256) for _ in range(r.randrange(40))))),
        }
        if row["price"] is not None and float(row["price"]) == 0:
            row["price"] = "1.000"
        return row

    def _run(self, statement: str, values: Iterable[Any] = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, list(values) or None)


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def _literal(name: str, value: Any) -> Any:
    return int.from_bytes(value, "big") if name == "bits" else value
