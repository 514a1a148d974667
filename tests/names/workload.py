"""Random workloads: statements that change columns in every way, each directly followed by rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

SCHEMAS: Final = ("n1", "n2", "n3")
TABLES: Final = 16  # names in each schema that all writers share
_DROPPED: Final = "n3"
_NAMES: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
_TYPES: Final = (
    "INT", "VARCHAR(20)", "BIGINT UNSIGNED", "DECIMAL(10,2)", "DATETIME(3)", "TEXT", "ENUM('x','y')", "DOUBLE",
    "VARCHAR(20) CHARACTER SET latin1", "TIMESTAMP NULL", "BIT(5)", "VARBINARY(9)", "DATE", "INT ZEROFILL", "CHAR(7)",
    "SET('p','q','r')", "JSON", "TINYINT(1)", "SMALLINT", "FLOAT", "FLOAT(7,3)", "REAL", "YEAR", "TIME(2)", "LONGBLOB",
    "BINARY(16)", "NVARCHAR(9)", "CHAR(3) BINARY", "VARCHAR(300)", "TIMESTAMP",
)  # fmt: skip
_MARIADB_TYPES: Final = ("UUID", "INET6", "VARCHAR(20) COMPRESSED", "INT INVISIBLE DEFAULT 3")
_MYSQL_TYPES: Final = ("INT INVISIBLE", "VECTOR(3)", "POINT")
_ALIKE: Final = ("INT", "INT", "INT", "VARCHAR(20)")
"""Types of most tables: columns of one type, so that nothing but a name tells one from the other."""
_CHARSETS: Final = ("latin1", "utf8mb4", "utf8mb3", "utf8mb4")


class Workload:
    """Statements about a pool of tables that several writers share.

    `columns_of` returns the current columns of a table, and none if the table does not exist. `schema` is the
    session's default schema, `quote` its quotation mark for names, `tables` the number of tables in each schema.
    """

    def __init__(
        self,
        dice: random.Random,
        mysql: bool,
        columns_of: Callable[[str], list[str]],
        schema: str,
        quote: str,
        tables: int = TABLES,
    ) -> None:
        self._dice = dice
        self._mysql = mysql
        self._columns_of = columns_of
        self._schema = schema
        self._quote = quote
        self._tables = tables
        self._type = ""
        self.table = ""

    def statements(self) -> Iterable[str]:
        """The next statement about `table`, or several that belong together."""
        dice = self._dice
        self._type = dice.choice(_ALIKE) if dice.random() < 0.7 else ""
        if dice.random() < 0.02:
            return self._short_life()
        self.table = self._any()
        columns = self._columns()
        if not columns:
            return [self._create()]
        makers: tuple[tuple[int, Callable[[list[str]], Iterable[str]]], ...] = (
            (50, lambda each: [self._alter(each)]),
            (8, lambda each: [self._swap(each)]),
            (6, self._swap_in_steps),
            (6, self._move),
            (7, self._rename),
            (5, self._drop),
            (2, lambda _: [f"TRUNCATE TABLE {self.table}"]),
            (4, self._copy),
            (3, self._index),
            (2, self._hide),
            (3, self._other),
        )
        return dice.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0](columns)

    def rows(self) -> Iterator[str]:
        """Statements that write rows to the table of the last statement."""
        dice = self._dice
        columns = self._columns()
        if not columns:
            return
        yield insert(dice, self.table, columns)
        if dice.random() < 0.3:
            yield f"DELETE FROM {self.table} LIMIT {dice.choice((1, 3, 200))}"
        if dice.random() < 0.3:
            yield f"UPDATE IGNORE {self.table} SET {dice.choice(columns)} = NULL LIMIT 3"
            yield f"UPDATE IGNORE {self.table} SET {dice.choice(columns)} = {dice.randrange(99)} LIMIT 3"

    def _columns(self) -> list[str]:
        return [self._quoted(each) for each in self._columns_of(self.table)]

    def _quoted(self, name: str) -> str:
        return f"{self._quote}{name}{self._quote}"

    def _any(self) -> str:
        """A table that all writers share."""
        schema = self._dice.choices(SCHEMAS, (8, 8, 1))[0]
        return self._named(schema, f"t{self._dice.randrange(self._tables)}")

    def _named(self, schema: str, table: str) -> str:
        if schema == self._schema and self._dice.random() < 0.5:
            return self._quoted(table)
        return f"{schema}.{self._quoted(table)}"

    def _spare(self) -> str:
        """A name that no table has."""
        return self._named(self._dice.choice(SCHEMAS[:2]), f"spare{self._dice.randrange(10**9)}")

    def _short_life(self) -> Iterator[str]:
        """Statements that create a table under a new name, fill it and drop it."""
        self.table = self._spare()
        yield self._create()
        for _ in range(self._dice.randrange(5)):
            if columns := self._columns():
                yield self._dice.choice((self._alter, self._swap))(columns)
        before, self.table = self.table, self._spare()
        yield f"RENAME TABLE {before} TO {self.table}"
        yield f"DROP TABLE IF EXISTS {before}, {self.table}"

    def _typed(self) -> str:
        dice = self._dice
        others = (*_TYPES, *(_MYSQL_TYPES if self._mysql else _MARIADB_TYPES))
        kind = self._type if self._type and dice.random() < 0.9 else dice.choice(others)
        return kind + dice.choice(("", "", "", " NULL", " NOT NULL", " COMMENT 'x, y'", " COMMENT 'it''s (a b'"))

    def _create(self) -> str:
        dice = self._dice
        columns = [f"{self._quoted(name)} {self._typed()}" for name in dice.sample(_NAMES, dice.randint(2, 6))]
        if dice.random() < 0.2:
            columns.append(f"{self._quoted('v')} INT AS (1 + 1) {dice.choice(('VIRTUAL', 'STORED'))}")
        dice.shuffle(columns)
        if dice.random() < 0.8:
            columns.insert(dice.randrange(len(columns) + 1), "id BIGINT AUTO_INCREMENT PRIMARY KEY")
        options = dice.choice(("", "", "", f" DEFAULT CHARSET {dice.choice(_CHARSETS)}"))
        verb = dice.choice(("CREATE TABLE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
        if not self._mysql:
            verb = dice.choice((verb, verb, "CREATE OR REPLACE TABLE"))
            options += dice.choice((*[""] * 8, " WITH SYSTEM VERSIONING"))
        kind = dice.random()
        if kind < 0.06:
            return f"{verb} {self.table} AS SELECT 1 AS a, 'x' AS b, 2 AS c"
        if kind < 0.12:
            return f"{verb} {self.table} ({', '.join(columns)}){options} SELECT 7 AS a, 8 AS h"
        return f"{verb} {self.table} ({', '.join(columns)}){options}"

    def _position(self, columns: Sequence[str]) -> str:
        dice = self._dice
        return dice.choice(("", "", " FIRST", f" AFTER {dice.choice(columns)}"))

    def _alter(self, columns: list[str]) -> str:
        """One ALTER TABLE. Its clauses mostly concern different columns, because servers refuse most others."""
        dice = self._dice
        left = dice.sample(columns, len(columns))
        new = [name for name in map(self._quoted, _NAMES) if name not in columns]
        new = dice.sample(new, len(new))
        clauses = []
        for _ in range(dice.choice((1, 1, 2, 2, 3, 4, 5))):
            if dice.random() < 0.05:
                left, new = [*columns], [self._quoted(name) for name in _NAMES]
            if not left or not new:
                break
            clauses.append(self._clause(left, new, columns))
        if dice.random() < 0.05:
            clauses.append(f"CONVERT TO CHARACTER SET {dice.choice(_CHARSETS)}")
        if dice.random() < 0.05:
            clauses.insert(dice.randrange(len(clauses) + 1), f"DEFAULT CHARACTER SET {dice.choice(_CHARSETS)}")
        if dice.random() < 0.03:
            before, self.table = self.table, self._any()
            return f"ALTER TABLE {before} {', '.join([*clauses, f'RENAME TO {self.table}'])}"
        clauses += dice.choice((*[[]] * 12, ["ALGORITHM = COPY"], ["ALGORITHM = INPLACE", "LOCK = NONE"]))
        return f"ALTER TABLE {self.table} {', '.join(clauses)}"

    def _clause(self, left: list[str], new: list[str], columns: Sequence[str]) -> str:
        dice = self._dice
        word = dice.choice(("", "COLUMN "))
        match dice.choice("aaaammmmccccrrrrrdddaimo"):
            case "a":
                return f"ADD {word}{new.pop()} {self._typed()}{self._position(columns)}"
            case "m":
                return f"MODIFY {word}{left.pop()} {self._typed()}{self._position(columns)}"
            case "c":
                name = left.pop()
                return f"CHANGE {word}{name} {dice.choice((name, new.pop()))} {self._typed()}{self._position(columns)}"
            case "r":
                return f"RENAME COLUMN {left.pop()} TO {new.pop()}"
            case "d":
                return f"DROP {word}{left.pop()}"
            case "i":
                return f"ADD {dice.choice(('INDEX', 'KEY', 'UNIQUE'))} ({dice.choice(columns)})"
            case "o":
                return f"ADD COLUMN ({new.pop()} {self._typed()}, {self._quoted('more')} {self._typed()})"
        return dice.choice((
            f"ALTER COLUMN {left.pop()} SET DEFAULT 7", "COMMENT = 'RENAME COLUMN a TO b'", "DROP PRIMARY KEY",
            f"ADD PRIMARY KEY ({dice.choice(columns)})", f"/*!40000 ADD COLUMN {new.pop()} INT FIRST */", "ORDER BY 1",
            f"ADD {new.pop()} INT AS (5) VIRTUAL AFTER {dice.choice(columns)}", "AUTO_INCREMENT = 100",
        ))  # fmt: skip

    def _swap(self, columns: list[str]) -> str:
        """One statement that swaps the names of columns."""
        dice = self._dice
        chain = dice.sample(columns, min(len(columns), dice.choice((2, 2, 3, 4))))
        pairs = list(zip(chain, [*chain[1:], chain[0]], strict=True))
        if dice.random() < 0.5:
            clauses = [f"RENAME COLUMN {old} TO {new}" for old, new in pairs]
        else:
            clauses = [f"CHANGE {old} {new} {self._type or 'INT'}{self._position(columns)}" for old, new in pairs]
        return f"ALTER TABLE {self.table} {', '.join(clauses)}"

    def _swap_in_steps(self, columns: list[str]) -> list[str]:
        one, other = self._dice.sample(columns, 2) if len(columns) > 1 else (columns[0], columns[0])
        names = ((one, "aside"), (other, one), ("aside", other))
        return [f"ALTER TABLE {self.table} RENAME COLUMN {old} TO {new}" for old, new in names]

    def _move(self, columns: list[str]) -> list[str]:
        clauses = (
            f"MODIFY {each} {self._type or 'INT'}{self._position(columns)}"
            for each in self._dice.sample(columns, min(len(columns), self._dice.choice((1, 2, 3))))
        )
        return [f"ALTER TABLE {self.table} {', '.join(clauses)}"]

    def _rename(self, _: list[str]) -> list[str]:
        other, spare = self._any(), self._spare()
        kind = self._dice.random()
        if kind < 0.4:
            before, self.table = self.table, other
            return [f"RENAME TABLE {before} TO {other}"]
        if kind < 0.6:
            third = self._any()
            return [
                f"RENAME TABLE {self.table} TO {spare}, {other} TO {self.table}, {third} TO {other}, {spare} TO {third}"
            ]
        return [f"RENAME TABLE {self.table} TO {spare}, {other} TO {self.table}, {spare} TO {other}"]

    def _drop(self, _: list[str]) -> list[str]:
        dice = self._dice
        drop = f"DROP TABLE {dice.choice(('', 'IF EXISTS '))}{self.table}"
        if dice.random() < 0.3:
            drop += f", {self._any()}"
        return [drop, self._create()] if dice.random() < 0.7 else [drop]

    def _copy(self, columns: list[str]) -> list[str]:
        before, self.table = self.table, self._any()
        if self._dice.random() < 0.6:
            return [f"CREATE TABLE {self.table} LIKE {before}"]
        some = self._dice.sample(columns, self._dice.randint(1, len(columns)))
        return [f"CREATE TABLE {self.table} SELECT {', '.join(some)}, 1 AS more FROM {before} LIMIT 5"]

    def _index(self, columns: list[str]) -> list[str]:
        name = f"i{self._dice.randrange(9)}"
        kind = self._dice.choice(("", "UNIQUE "))
        return self._dice.choice((
            [f"CREATE {kind}INDEX {name} ON {self.table} ({self._dice.choice(columns)})"],
            [f"DROP INDEX {name} ON {self.table}"],
        ))  # fmt: skip

    def _hide(self, _: list[str]) -> list[str]:
        """Statements with a temporary table that hides another table of the same name."""
        return [
            f"CREATE TEMPORARY TABLE {self.table} (z INT, y INT)", f"ALTER TABLE {self.table} RENAME COLUMN z TO x",
            f"INSERT INTO {self.table} VALUES (1, 2)", f"DROP TEMPORARY TABLE {self.table}",
        ]  # fmt: skip

    def _other(self, columns: list[str]) -> list[str]:
        dice = self._dice
        name = self._quoted(dice.choice(_NAMES))
        kinds = [
            [f"ALTER TABLE {self.table} FORCE"],
            [f"ALTER TABLE {self.table} ENGINE = InnoDB, COMMENT = 'x'"],
            [f"OPTIMIZE TABLE {self.table}"],
            [f"CREATE VIEW {self._spare()} AS SELECT * FROM {self.table}"],
            [f"DROP DATABASE {_DROPPED}", f"CREATE DATABASE {_DROPPED} CHARACTER SET {dice.choice(_CHARSETS)}"],
        ]
        if not self._mysql:
            kinds += [
                [f"ALTER TABLE {self.table} ADD COLUMN IF NOT EXISTS {name} INT FIRST"],
                [f"ALTER TABLE {self.table} DROP COLUMN IF EXISTS {name}, ADD COLUMN IF NOT EXISTS {columns[0]} INT"],
                [f"ALTER TABLE {self.table} {dice.choice(('ADD', 'DROP'))} SYSTEM VERSIONING"],
                [f"ALTER TABLE IF EXISTS {self.table} CHANGE COLUMN IF EXISTS {name} {name} INT"],
            ]
        return dice.choice(kinds)


def insert(dice: random.Random, table: str, columns: Sequence[str]) -> str:
    """An INSERT whose values differ from column to column."""
    lines = [", ".join(f"'{dice.randrange(99)}'" for _ in columns) for _ in range(dice.choice((1, 3, 10, 40)))]
    return f"INSERT IGNORE INTO {table} ({', '.join(columns)}) VALUES {', '.join(f'({line})' for line in lines)}"
