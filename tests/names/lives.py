"""Random lives of tables: statements of every kind that changes columns, with rows at once behind each of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import Synchronized
from typing import Any, Final, NamedTuple

import pymysql

SCHEMAS: Final = ("n1", "n2")
TABLES: Final = 24  # names of them in each schema
DEFINERS, FILLERS = 10, 4
_NAMES: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
_BOTH: Final = (
    "INT", "INT", "INT", "INT", "VARCHAR(20)", "VARCHAR(20)", "BIGINT UNSIGNED", "DECIMAL(10,2)", "DATETIME(3)", "TEXT",
    "ENUM('x','y')", "VARCHAR(20) CHARACTER SET latin1", "DOUBLE", "TIMESTAMP NULL", "BIT(5)", "VARBINARY(9)", "DATE",
    "INT ZEROFILL", "SET('p','q','r')", "CHAR(7)", "JSON",
)  # fmt: skip
_CHARSETS: Final = ("latin1", "utf8mb4", "utf8mb3", "utf8mb4")
_WAIT_SECONDS: Final = 5  # for locks
_PAUSE_SECONDS: Final = 0.01  # between transactions, so that the cores of one machine do for all


class Counts(NamedTuple):
    """What the writers did so far."""

    statements: Synchronized[int]
    failed: Synchronized[int]
    rows: Synchronized[int]
    held: Synchronized[int]  # 1 while writers wait for those who read
    until: Synchronized[float]


def define(address: tuple[str, int], account: tuple[str, str], seed: int, mysql: bool, counts: Counts) -> None:
    """One connection that defines tables, and writes rows behind each statement."""
    with _connect(address, account) as cursor:
        lives = _Lives(random.Random(seed), cursor, mysql)
        while _goes_on(counts):
            statement = lives.statement()
            ok = _do(cursor, statement)
            with counts.statements:
                counts.statements.value += ok
            with counts.failed:
                counts.failed.value += not ok
            for each in lives.rows():
                _write(cursor, each, counts)


def fill(address: tuple[str, int], account: tuple[str, str], seed: int, _mysql: bool, counts: Counts) -> None:
    """One connection that writes rows into any table, whatever happens to it."""
    dice = random.Random(seed)
    with _connect(address, account) as cursor:
        while _goes_on(counts):
            table = f"{dice.choice(SCHEMAS)}.t{dice.randrange(TABLES)}"
            many = ",".join(["()"] * dice.choice((1, 5, 30, 80)))
            cursor.execute("BEGIN")
            for _ in range(dice.choice((1, 1, 2))):
                _write(cursor, f"INSERT INTO {table} () VALUES {many}", counts)
            _do(cursor, "COMMIT")
            time.sleep(_PAUSE_SECONDS)


def _connect(address: tuple[str, int], account: tuple[str, str]) -> Any:
    connection = pymysql.connect(
        host=address[0], port=address[1], user=account[0], password=account[1], autocommit=True
    )
    cursor = connection.cursor()
    cursor.execute(f"SET SESSION lock_wait_timeout = {_WAIT_SECONDS}, innodb_lock_wait_timeout = {_WAIT_SECONDS}")
    cursor.execute("SET SESSION sql_mode = ''")
    return cursor


def _goes_on(counts: Counts) -> bool:
    while counts.held.value and time.time() < counts.until.value:
        time.sleep(0.05)
    return time.time() < counts.until.value


def _write(cursor: Any, statement: str, counts: Counts) -> None:
    if _do(cursor, statement):
        with counts.rows:
            counts.rows.value += cursor.rowcount


def _do(cursor: Any, statement: str) -> bool:
    try:
        cursor.execute(statement)
    except pymysql.err.MySQLError as error:
        if error.args[0] in (2006, 2013):
            raise
        return False
    return True


class _Lives:
    """Statements about a pool of tables that others define too."""

    def __init__(self, dice: random.Random, cursor: Any, mysql: bool) -> None:
        self._dice = dice
        self._cursor = cursor
        self._mysql = mysql
        self._table = ""

    def statement(self) -> str:
        """One statement, about a table that may be there."""
        dice = self._dice
        self._table = self._any()
        columns = self._columns()
        if not columns:
            return self._create()
        makers: tuple[tuple[int, Callable[[list[str]], str]], ...] = (
            (60, self._alter),
            (10, self._swap),
            (6, self._rename),
            (4, self._drop),
            (3, lambda _: f"TRUNCATE TABLE {self._table}"),
            (4, lambda _: self._like()),
            (3, lambda _: f"CREATE INDEX i{dice.randrange(99)} ON {self._table} ({dice.choice(columns)})"),
            (3, self._other),
        )  # fmt: skip
        weights = [weight for weight, _ in makers]
        return dice.choices([maker for _, maker in makers], weights)[0](columns)

    def rows(self) -> Iterator[str]:
        """Rows of the table of the last statement."""
        dice = self._dice
        many = ",".join(["()"] * dice.choice((1, 3, 10, 40)))
        yield f"INSERT INTO {self._table} () VALUES {many}"
        if dice.random() < 0.3:
            yield f"DELETE FROM {self._table} LIMIT {dice.choice((1, 3, 200))}"
        if dice.random() < 0.3 and (columns := self._columns()):
            yield f"UPDATE IGNORE {self._table} SET {dice.choice(columns)} = NULL LIMIT 3"
            yield f"UPDATE IGNORE {self._table} SET {dice.choice(columns)} = {dice.randrange(9)} LIMIT 3"

    def _any(self) -> str:
        return f"{self._dice.choice(SCHEMAS)}.t{self._dice.randrange(TABLES)}"

    def _columns(self) -> list[str]:
        owner, name = self._table.split(".")
        if not _do(self._cursor, f"SHOW COLUMNS FROM {owner}.{name}"):
            return []
        return [str(row[0]) for row in self._cursor.fetchall() if row[0] != "id"]

    def _type(self) -> str:
        dice = self._dice
        return dice.choice(_BOTH) + (dice.choice(("", "", "", " NULL", " DEFAULT NULL", " COMMENT 'x, y'")))

    def _create(self) -> str:
        dice = self._dice
        names = dice.sample(_NAMES, dice.randint(2, 5))
        columns = [f"{name} {self._type()}" for name in names]
        columns.insert(dice.randrange(len(columns) + 1), "id BIGINT AUTO_INCREMENT PRIMARY KEY")
        options = dice.choice(("", "", f" DEFAULT CHARSET {dice.choice(_CHARSETS)}"))
        exists = dice.choice(("", "", "IF NOT EXISTS "))
        if dice.random() < 0.1:
            return f"CREATE TABLE {exists}{self._table} AS SELECT 1 AS a, 'x' AS b, 2 AS c"
        return f"CREATE TABLE {exists}{self._table} ({', '.join(columns)}){options}"

    def _position(self, columns: list[str]) -> str:
        dice = self._dice
        return dice.choice(("", "", " FIRST", f" AFTER {dice.choice(columns)}"))

    def _clause(self, column: str, columns: list[str]) -> str:
        dice = self._dice
        new = dice.choice(_NAMES)
        return dice.choice((
            f"ADD COLUMN {new} {self._type()}{self._position(columns)}",
            f"ADD {new} {self._type()}{self._position(columns)}",
            f"DROP COLUMN {column}",
            f"MODIFY {column} {self._type()}{self._position(columns)}",
            f"MODIFY COLUMN {column} {self._type()}{self._position(columns)}",
            f"CHANGE {column} {new} {self._type()}{self._position(columns)}",
            f"RENAME COLUMN {column} TO {new}",
            f"RENAME COLUMN {column} TO {new}",
            f"ADD INDEX ({column})", f"ALTER COLUMN {column} SET DEFAULT NULL", "COMMENT = 'RENAME COLUMN a TO b'",
            f"ADD COLUMN ({new} {self._type()}, {new}2 {self._type()})",
        ))  # fmt: skip

    def _alter(self, columns: list[str]) -> str:
        dice = self._dice
        # Each about a column of its own: MariaDB takes two about one, of which the relay says that it does not know.
        about = dice.sample(columns, min(len(columns), dice.choice((1, 1, 1, 2, 2, 3, 4))))
        clauses = [self._clause(column, columns) for column in about]
        if dice.random() < 0.05:
            clauses.append(f"CONVERT TO CHARACTER SET {dice.choice(_CHARSETS)}")
        if dice.random() < 0.03:
            clauses.append(f"RENAME TO {self._any()}")
        return f"ALTER TABLE {self._table} {', '.join(clauses)}"

    def _swap(self, columns: list[str]) -> str:
        if len(columns) < 2:
            return self._alter(columns)
        one, other, *more = self._dice.sample(columns, min(len(columns), 3))
        chain = [one, other, *more]
        pairs = zip(chain, [*chain[1:], chain[0]], strict=True)
        return f"ALTER TABLE {self._table} " + ", ".join(f"RENAME COLUMN {old} TO {new}" for old, new in pairs)

    def _rename(self, _: list[str]) -> str:
        other = self._any()
        if self._dice.random() < 0.5:
            return f"RENAME TABLE {self._table} TO {other}"
        spare = f"{self._dice.choice(SCHEMAS)}.spare{self._dice.randrange(10**9)}"
        return f"RENAME TABLE {self._table} TO {spare}, {other} TO {self._table}, {spare} TO {other}"

    def _drop(self, _: list[str]) -> str:
        other = f", {self._any()}" if self._dice.random() < 0.3 else ""
        return f"DROP TABLE {self._table}{other}"

    def _like(self) -> str:
        other, self._table = self._table, self._any()
        return f"CREATE TABLE {self._table} LIKE {other}"

    def _other(self, columns: list[str]) -> str:
        dice = self._dice
        kinds = [
            f"CREATE TEMPORARY TABLE {self._table}x (z INT)",
            f"ALTER TABLE {self._table} FORCE",
            f"ALTER TABLE {self._table} ENGINE = InnoDB",
            f"ALTER TABLE {self._table} ADD UNIQUE (id)",
        ]
        if not self._mysql:
            kinds += [
                f"ALTER TABLE {self._table} ADD COLUMN IF NOT EXISTS {dice.choice(_NAMES)} INT FIRST",
                f"ALTER TABLE {self._table} DROP COLUMN IF EXISTS {dice.choice(_NAMES)}",
                f"CREATE OR REPLACE TABLE {self._table} (id INT, a INT, b INT)",
                f"ALTER TABLE {self._table} ADD SYSTEM VERSIONING",
            ]
        return dice.choice(kinds)
