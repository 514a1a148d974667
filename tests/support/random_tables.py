"""A random workload on tables with all column types between them: rows, keys and definitions change, by a seed.

The statements depend only on the seed, so a failure can be reproduced. SELECT shows what the tables hold in the end;
this module only knows which rows exist, by a number `n` in each of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pymysql

from examples.dbserver import DatabaseServer
from tests.support.column_values import KEYS, PLAIN, Key, others, random_value, wider
from tests.support.value_cases import CASES, MORE_CASES, Case

SESSION = (
    "SET NAMES utf8mb4",
    "SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION', max_error_count = 0",
)
# MySQL 9.7.4 sometimes crashes in an ALTER with several threads: ADD PRIMARY KEY builds an index that has a record
# twice ("Records in wrong order", btr0load.cc).
ONE_THREAD = "SET SESSION innodb_ddl_threads = 1, innodb_parallel_read_threads = 1"
NAMES = (
    "plain", "0012", "two words", "per%cent=x", "Größe", "a.b", "date", "_log", "cdc_table=x",
)  # fmt: skip
AWKWARD = ("select", "a b", "tick`", "é", "x.y", "_seq", "_change_type", "cdc_date", "v__text", "value", "50%")
NEVER_NULL = "NOT NULL"  # the case group of such a column
MOST_COLUMNS = 20  # of a table that is created again, besides its key
PARTITIONS = (40, 80, 120)  # upper limits of the partitions of a partitioned table


@dataclass
class Table:
    """A table as the workload knows it. `primary`: the current names of its key's columns."""

    name: str
    kind: str
    columns: list[tuple[str, Case]]
    primary: tuple[str, ...]
    live: list[int] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return KEYS[self.kind]


def _spoiled_by_convert(column: str, mariadb: bool) -> bool:
    """Whether the server reads such a column incorrectly after CONVERT TO CHARACTER SET.

    Labels beyond ASCII: MariaDB prints others than its table maps and information_schema report; MySQL 9.7 takes the
    old bytes for the new character set ("set('','','?')", and SELECT sends those bytes). And MariaDB crashes (10.11.18,
    11.8.6) at the first long value of a CHAR whose length took one byte in utf8mb3 and takes two in utf8mb4.
    """
    if column[:3] in ("ENU", "SET"):
        return not column.isascii() or "X'" in column  # X'FF' is a label, too
    char = re.match(r"CHAR\((\d+)\)", column)
    return mariadb and char is not None and 64 <= int(char[1]) <= 85


def quoted(name: str) -> str:
    """Quotes a name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


class RandomWorkload:
    """Random statements on the tables of `database`, which it creates.

    `before_ddl` is called before each statement that changes a definition; `done` counts by kind the statements that
    the server accepted.
    """

    def __init__(
        self, server: DatabaseServer, database: str, seed: int, before_ddl: Callable[[], None] = lambda: None
    ) -> None:
        self.chance = random.Random(seed)
        self.seed, self.database, self.before_ddl = seed, database, before_ddl
        self.done: Counter[str] = Counter()
        self._connection = server.connect(database=database)
        for statement in SESSION:
            self._run(statement)
        if server.kind.mysql:
            self._run(ONE_THREAD)
        self._cases = [case for case in [*CASES, *MORE_CASES] if server.name in case.on]
        self._mariadb = not server.kind.mysql
        self._names = 0
        self._numbers = 0
        whole = [kind for kind in KEYS if kind != "partitioned"]
        self.tables = [
            self._create(name, kind, self._cases[at :: len(whole)])
            for at, (name, kind) in enumerate(zip(NAMES, whole, strict=True))
        ]
        self.tables.append(self._create("partitioned", "partitioned", PLAIN))

    def close(self) -> None:
        self._connection.close()

    def fill(self, rows: int) -> None:
        """Inserts that many rows into each table."""
        for table in self.tables:
            while len(table.live) < rows:
                self._insert(table)

    def touch(self) -> None:
        """Inserts a row into each table, because rows show the types of columns."""
        for table in self.tables:
            self._insert(table)

    def run(self, steps: int, definitions: float = 0.08) -> None:
        """Runs that many transactions, some rolled back; before a fraction `definitions`, a definition changes."""
        for _ in range(steps):
            if self.chance.random() < definitions:
                self.define()
            self._transaction()

    def define(self, kind: str | None = None) -> None:
        """Runs a statement that changes a definition, of that kind or of any."""
        self.before_ddl()
        kinds = self._definitions()
        chosen = kind or self.chance.choice(list(kinds))
        self.done[chosen] += any(kinds[chosen](table) for table in self.chance.sample(self.tables, len(self.tables)))

    def _transaction(self) -> None:
        kept = [list(table.live) for table in self.tables]
        self._run("BEGIN")
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            table = self.chance.choice(self.tables)
            doing = self.chance.choice(
                (self._insert, self._insert, self._update, self._update, self._move, self._swap, self._replace,
                 self._delete)
            )  # fmt: skip
            doing(table)
            self.done[doing.__name__.strip("_")] += 1
        if self.chance.random() < 0.1:
            self._run("ROLLBACK")
            for table, live in zip(self.tables, kept, strict=True):
                table.live = live
            self.done["rollback"] += 1
        else:
            self._run("COMMIT")

    # Rows

    def _insert(self, table: Table) -> None:
        rows = [self._number() for _ in range(self.chance.choice((1, 2, 8)))]
        self._run(f"INSERT INTO {self._into(table)} VALUES {', '.join(self._row(table, n) for n in rows)}")
        table.live += rows
        if table.kind == "none" and self.chance.random() < 0.5 and not table.primary:
            self._run(f"INSERT INTO {quoted(table.name)} SELECT * FROM {quoted(table.name)} WHERE n = {rows[0]}")

    def _replace(self, table: Table) -> None:
        """Inserts existing rows again, if the table has a key, by one of the statements that allow that."""
        for n in self._some(table):
            row = f"{self._into(table)} VALUES {self._row(table, n)}"
            if self.chance.random() < 0.5 or not table.columns:
                self._run(f"REPLACE INTO {row}")
            else:
                name, case = self.chance.choice(table.columns)
                self._run(f"INSERT INTO {row} ON DUPLICATE KEY UPDATE {quoted(name)} = {self._value(case)}")

    def _update(self, table: Table) -> None:
        chosen = self.chance.sample(table.columns, min(len(table.columns), self.chance.choice((1, 2, 5))))
        sets = ", ".join(f"{quoted(name)} = {self._value(case)}" for name, case in chosen)
        if (some := self._some(table)) and sets:
            self._run(f"UPDATE {quoted(table.name)} SET {sets} WHERE n IN ({_list(some)})")

    def _move(self, table: Table) -> None:
        """Changes the keys of rows."""
        for n in self._some(table):
            self._rename(table, n, self._number())

    def _swap(self, table: Table) -> None:
        """Exchanges the keys of two rows."""
        if len(some := self._some(table)) > 1:
            first, second = some[:2]
            between = self._number()
            self._rename(table, first, between)
            self._rename(table, second, first)
            self._rename(table, between, second)

    def _rename(self, table: Table, old: int, new: int) -> None:
        names = [quoted(name) for name, _ in table.key.columns]
        sets = [f"{name} = {value}" for name, value in zip(names, table.key.values(new), strict=True)]
        self._run(f"UPDATE {quoted(table.name)} SET {', '.join([*sets, f'n = {new}'])} WHERE n = {old}")
        table.live = [new if n == old else n for n in table.live]

    def _delete(self, table: Table) -> None:
        if some := self._some(table):
            self._run(f"DELETE FROM {quoted(table.name)} WHERE n IN ({_list(some)})")
            table.live = [n for n in table.live if n not in some]

    def _some(self, table: Table) -> list[int]:
        return self.chance.sample(table.live, min(len(table.live), self.chance.choice((1, 2, 5))))

    def _into(self, table: Table) -> str:
        names = ["n", *(name for name, _ in (*table.key.columns, *table.columns))]
        return f"{quoted(table.name)} ({', '.join(map(quoted, names))})"

    def _row(self, table: Table, n: int) -> str:
        return f"({', '.join([str(n), *table.key.values(n), *(self._value(case) for _, case in table.columns)])})"

    def _value(self, case: Case) -> str:
        if case.family != NEVER_NULL and self.chance.random() < 0.15:
            return "NULL"
        if self.chance.random() < 0.5 and (value := random_value(self.chance, case.sql)) is not None:
            return value
        return self.chance.choice(case.values)

    # Definitions. Each method returns whether the server accepted the statement. If it refuses (a text that another
    # character set lacks, rows that are not unique), the table is unchanged.

    def _definitions(self) -> dict[str, Callable[[Table], bool]]:
        return {
            "truncate": self._truncate,
            "drop and create": self._recreate,
            "create as select": self._copy,
            "swap tables": self._swap_tables,
            "add nullable": lambda table: self._add(table, "NULL"),
            "add with default": lambda table: self._add(table, "NOT NULL"),
            "drop column": self._drop,
            "widen": self._widen,
            "another type": self._retype,
            "rename column": self._rename_column,
            "swap columns": self._swap_columns,
            "another key": self._rekey,
            "convert": self._convert,
            "drop partition": self._drop_partition,
            "truncate partition": self._truncate_partition,
            "index": self._index,
        }

    def _create(self, name: str, kind: str, cases: Sequence[Case]) -> Table:
        awkward = list(AWKWARD) if kind in ("integer", "none") else []
        table = Table(name, kind, [(awkward.pop() if awkward else self._name(), case) for case in cases], ())
        columns = [("n", "INT NOT NULL"), *table.key.columns, *((name, case.sql) for name, case in table.columns)]
        spelled = [f"{quoted(column)} {sql}" for column, sql in columns]
        if kind != "none":
            table.primary = tuple(column for column, _ in table.key.columns) or ("n",)
            spelled.append(f"PRIMARY KEY ({', '.join(map(quoted, table.primary))})")
        options = " CHARACTER SET utf8mb4"
        if kind == "partitioned":
            table.partitions = [*PARTITIONS, 0]
            ends = [*(f"({end})" for end in PARTITIONS), "MAXVALUE"]
            parts = [
                f"PARTITION p{end} VALUES LESS THAN {than}" for end, than in zip(table.partitions, ends, strict=True)
            ]
            options += f" PARTITION BY RANGE (n) ({', '.join(parts)})"
        self._run(f"CREATE TABLE {quoted(name)} ({', '.join(spelled)}){options}")
        return table

    def _truncate(self, table: Table) -> bool:
        table.live = []
        return self._try(f"TRUNCATE TABLE {quoted(table.name)}")

    def _recreate(self, table: Table) -> bool:
        """Creates a table with the same name and everything else new."""
        self._run(f"DROP TABLE {quoted(table.name)}")
        kind = self.chance.choice(list(KEYS))
        every = PLAIN if kind == "partitioned" else [*self._cases, *PLAIN]
        cases = self.chance.sample(every, min(len(every), self.chance.randint(1, MOST_COLUMNS)))
        self._put(table, self._create(table.name, kind, cases))
        return True

    def _copy(self, table: Table) -> bool:
        """As `_recreate`, with columns and rows of another table, without a key."""
        other = self.chance.choice([each for each in self.tables if each is not table])
        if self._mariadb and any("X'" in case.sql for _, case in other.columns):
            # The binlog has such labels as bytes. The relay asks the source, and rows before a next statement are
            # unproven.
            return False
        self._run(f"DROP TABLE {quoted(table.name)}")
        self._run(f"CREATE TABLE {quoted(table.name)} AS SELECT * FROM {quoted(other.name)} WHERE n % 2 = 0")
        even = [n for n in other.live if n % 2 == 0]
        self._put(table, Table(table.name, other.kind, list(other.columns), (), even))
        return True

    def _put(self, table: Table, new: Table) -> None:
        self.tables[self.tables.index(table)] = new

    def _swap_tables(self, table: Table) -> bool:
        other = self.chance.choice([each for each in self.tables if each is not table])
        one, two, between = map(quoted, (table.name, other.name, "between them"))
        self._run(f"RENAME TABLE {one} TO {between}, {two} TO {one}, {between} TO {two}")
        table.name, other.name = other.name, table.name
        return True

    def _add(self, table: Table, null: str) -> bool:
        name, place = self._name(), ""
        if self.chance.random() < 0.6:
            after = self.chance.choice(["n", *(column for column, _ in table.columns)])
            place = self.chance.choice([" FIRST", f" AFTER {quoted(after)}"])
        sql, default = self.chance.choice([("INT", "7"), ("VARCHAR(30)", "'given'"), ("DECIMAL(10,2)", "1.50")])
        clause = f"{sql} NOT NULL DEFAULT {default}" if null == "NOT NULL" else f"{sql} NULL"
        if taken := self._alter(table, f"ADD COLUMN {quoted(name)} {clause}{place}"):
            table.columns.append((name, Case(NEVER_NULL if "NOT NULL" in clause else "added", sql, [default])))
        return taken

    def _drop(self, table: Table) -> bool:
        if not table.columns:
            return False
        column = self.chance.choice(table.columns)
        if taken := self._alter(table, f"DROP COLUMN {quoted(column[0])}"):
            table.columns.remove(column)
        return taken

    def _widen(self, table: Table) -> bool:
        return self._modify(table, wider)

    def _retype(self, table: Table) -> bool:
        return self._modify(table, lambda sql: others(self.chance, sql))

    def _modify(self, table: Table, new: Callable[[str], str | None]) -> bool:
        """Changes the type of a column that can be given a new one."""
        able = [(at, sql) for at, (_, case) in enumerate(table.columns) if (sql := new(case.sql))]
        if not able:
            return False
        at, sql = self.chance.choice(able)
        name, _ = table.columns[at]
        if taken := self._alter(table, f"MODIFY {quoted(name)} {sql}"):
            table.columns[at] = (name, Case("changed", sql, ["'1'", "'2'"]))
        return taken

    def _rename_column(self, table: Table) -> bool:
        if not table.columns:
            return False
        at, new = self.chance.randrange(len(table.columns)), self._name()
        name, case = table.columns[at]
        if taken := self._alter(table, f"RENAME COLUMN {quoted(name)} TO {quoted(new)}"):
            table.columns[at] = (new, case)
        return taken

    def _swap_columns(self, table: Table) -> bool:
        """Exchanges the names, and so the types, of two columns."""
        if len(table.columns) < 2:
            return False
        one, two = self.chance.sample(range(len(table.columns)), 2)
        (first, a), (second, b) = table.columns[one], table.columns[two]
        names = quoted(first), quoted(second)
        if taken := self._alter(table, "RENAME COLUMN {0} TO {1}, RENAME COLUMN {1} TO {0}".format(*names)):
            table.columns[one], table.columns[two] = (second, a), (first, b)
        return taken

    def _rekey(self, table: Table) -> bool:
        """Replaces or removes the key, or adds one."""
        own = tuple(name for name, _ in table.key.columns)
        choices: list[tuple[str, ...]] = [("n",), ("n", *own), ()]
        new = self.chance.choice([names for names in choices if names != table.primary])
        clauses = ["DROP PRIMARY KEY"] if table.primary else []
        clauses += [f"ADD PRIMARY KEY ({', '.join(map(quoted, new))})"] if new else []
        if taken := self._alter(table, ", ".join(clauses)):
            table.primary = new
        return taken

    def _convert(self, table: Table) -> bool:
        if any(_spoiled_by_convert(case.sql, self._mariadb) for _, case in table.columns):
            return False
        return self._alter(table, f"CONVERT TO CHARACTER SET {self.chance.choice(['latin1', 'utf8mb4', 'utf8mb3'])}")

    def _drop_partition(self, table: Table) -> bool:
        if len(table.partitions) < 2:
            return False
        end = table.partitions.pop(0)
        self._alter(table, f"DROP PARTITION p{end}")
        table.live = [n for n in table.live if n >= end]
        return True

    def _truncate_partition(self, table: Table) -> bool:
        if not table.partitions:
            return False
        end = table.partitions[0]
        self._alter(table, f"TRUNCATE PARTITION p{end}")
        table.live = [n for n in table.live if end and n >= end]
        return True

    def _index(self, table: Table) -> bool:
        return self._alter(table, f"ADD INDEX {quoted(self._name())} (n)")

    def _alter(self, table: Table, clauses: str) -> bool:
        return self._try(f"ALTER TABLE {quoted(table.name)} {clauses}")

    def _name(self) -> str:
        self._names += 1
        return f"c{self._names}"

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _try(self, statement: str) -> bool:
        try:
            self._run(statement)
        except pymysql.MySQLError:
            return False
        return True

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except pymysql.MySQLError as error:
                error.add_note(f"seed {self.seed}, statement: {statement[:500]}")
                raise


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
