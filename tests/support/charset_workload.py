"""A random workload of tables with texts, in schemas of many character sets that are made in five ways, by a seed.

Each row is selected when it is written: so it is known what a reader must get for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pymysql
from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer
from tests.support.purging import purge

CHARSETS: Final = ("latin1", "latin2", "utf8mb3", "utf8mb4", "cp1251", "gbk", "ucs2")
COLUMNS: Final = (
    "VARCHAR(20)", "VARCHAR(70)", "CHAR(9)", "CHAR(40) NOT NULL DEFAULT 'ß'", "TEXT", "TINYTEXT", "MEDIUMTEXT",
    "TEXT(100)", "TEXT(30000)", "VARCHAR(12) CHARACTER SET latin1", "TEXT CHARACTER SET utf8mb4",
    "CHAR(5) COLLATE latin2_general_ci", "VARBINARY(30)", "ENUM('x', 'y')", "SET('x', 'y')", "INT", "DECIMAL(9, 2)",
    "DATETIME(3)", "VARCHAR(20000)", "VARCHAR(30) BINARY",
)  # fmt: skip
TEXTS: Final = ("é", "ß ä", "日本", "ж", "plain", "")
SIZED: Final = frozenset({"TEXT(100)", "TEXT(30000)", "VARCHAR(20000)"})
"""Columns whose type depends on the character set."""
_KEPT: Final = "id"


class Written(NamedTuple):
    """A row as SELECT showed it, by the names of its columns."""

    schema: str
    table: str
    values: dict[str, str]


@dataclass
class CharsetWorkload:
    """The tables of some schemas whose names begin with `prefix`. With `alters`, schemas change their character set.

    Without `sized`, no column has a type whose size depends on its character set, and none is converted to another:
    where a character set is not known, such a definition is not known either.
    """

    server: DatabaseServer
    prefix: str
    seed: int
    alters: bool = False
    sized: bool = True
    tables: int = 200
    written: list[Written] = field(default_factory=list)
    failed: int = 0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._kinds = [kind for kind in COLUMNS if self.sized or kind not in SIZED]
        self._names: list[tuple[str, str]] = []
        self._schemas: list[str] = []
        self._rows = self._made = 0

    def run(self, statements: int) -> None:
        """Makes the schemas, purges the binlog of some of them, and then executes that many statements."""
        with closing(self.server.connect(charset="utf8mb4")) as connection, connection.cursor() as cursor:
            before = [self._schema(f"{self.prefix}_old{number}") for number in range(3)]
            for schema in before:
                cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET {self._charset()}")
            purge(self.server)
            self._make_schemas(cursor, before)
            cursor.execute("SET sql_mode = ''")
            for number in range(statements):
                if len(self._names) < self.tables and number % 3 == 0:
                    self._create(cursor)
                else:
                    self._change(cursor)
                if self._names and number % 2:
                    self._write(cursor)

    def drop(self) -> None:
        """Drops the schemas."""
        self.server.execute(*(f"DROP DATABASE IF EXISTS {schema}" for schema in self._schemas))

    def _schema(self, name: str) -> str:
        self._schemas.append(name)
        return name

    def _charset(self) -> str:
        return self._dice.choice(CHARSETS)

    def _make_schemas(self, cursor: Cursor, before: list[str]) -> None:
        """The ways: before the binlog; with a character set; with the server's; and both with IF NOT EXISTS."""
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {before[0]} CHARACTER SET {self._charset()}")
        cursor.execute(f"SET collation_server = {self._dice.choice(['latin2_general_ci', 'utf8mb4_bin'])}")
        cursor.execute(f"CREATE DATABASE {self._schema(f'{self.prefix}_set')} CHARACTER SET {self._charset()}")
        cursor.execute(f"CREATE DATABASE {self._schema(f'{self.prefix}_server')}")
        new = self._schema(f"{self.prefix}_new")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {new} CHARACTER SET {self._charset()}")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self._schema(f'{self.prefix}_plain')}")

    def _execute(self, cursor: Cursor, statement: str, values: list[str] | None = None) -> bool:
        """Executes a statement. Whether the server accepted it."""
        try:
            cursor.execute(statement, values)
        except pymysql.err.MySQLError:
            self.failed += 1
            return False
        return True

    def _definition(self) -> str:
        columns = [f"c{number} {self._dice.choice(self._kinds)}" for number in range(self._dice.randint(1, 6))]
        return ", ".join(["id INT PRIMARY KEY", *columns])

    def _new_name(self) -> tuple[str, str]:
        self._made += 1
        return self._dice.choice(self._schemas), f"t{self._made}"

    def _create(self, cursor: Cursor) -> None:
        dice = self._dice
        schema, table = name = self._new_name()
        cursor.execute(f"USE {dice.choice([schema, schema, *self._schemas])}")
        options = dice.choice(["", "", "", f"CHARACTER SET {self._charset()}", "ENGINE = InnoDB", "COMMENT 'é'"])
        statement = f"CREATE TABLE {schema}.{table} ({self._definition()}) {options}"
        if self._names and dice.random() < 0.2:
            other = "{}.{}".format(*dice.choice(self._names))
            statement = f"CREATE TABLE {schema}.{table} " + dice.choice(
                [f"LIKE {other}", f"AS SELECT * FROM {other} LIMIT 0"]
            )
        if self._execute(cursor, statement):
            self._names.append(name)

    def _change(self, cursor: Cursor) -> None:
        dice = self._dice
        if not self._names:
            return
        if self.alters and dice.random() < 0.05:
            self._execute(cursor, f"ALTER DATABASE {dice.choice(self._schemas)} CHARACTER SET {self._charset()}")
            return
        schema, table = name = dice.choice(self._names)
        whole = f"{schema}.{table}"
        columns = self._columns(cursor, whole)
        others = [each for each in columns if each != _KEPT]
        if not others:
            return
        column, added = dice.choice(others), f"a{self._made}_{self._rows}"
        conversions = [f"CONVERT TO CHARACTER SET {self._charset()}", "CONVERT TO CHARACTER SET DEFAULT"]
        kind, where = dice.choice(self._kinds), dice.choice(["", " FIRST", f" AFTER {dice.choice(columns)}"])
        clause = dice.choice([
            f"ADD {added} {kind}{where}", f"ADD {added} {kind}{where}, ADD {added}_b {dice.choice(self._kinds)}",
            f"DROP {column}", f"MODIFY {column} {kind}{where}", f"CHANGE {column} {added} {kind}{where}",
            f"RENAME COLUMN {column} TO {added}", f"ADD UNIQUE INDEX u_{added} ({column})", f"ADD INDEX ({column}(3))",
            *(conversions if self.sized else []), f"DEFAULT CHARACTER SET {self._charset()}",
            "FORCE", "RENAME", "RENAME", "DROP TABLE", "TRUNCATE", "REPLACE",
        ])  # fmt: skip
        cursor.execute(f"USE {dice.choice([schema, schema, *self._schemas])}")
        if clause == "RENAME":
            new = dice.choice(self._schemas), f"{table}r"[-40:]
            if self._execute(cursor, f"RENAME TABLE {whole} TO {new[0]}.{new[1]}"):
                self._names[self._names.index(name)] = new
        elif clause in ("DROP TABLE", "TRUNCATE"):
            if self._execute(cursor, f"{clause} {whole}") and clause != "TRUNCATE":
                self._names.remove(name)
        elif clause == "REPLACE":
            self._execute(cursor, f"DROP TABLE IF EXISTS {whole}")
            if not self._execute(cursor, f"CREATE TABLE IF NOT EXISTS {whole} ({self._definition()})"):
                self._names.remove(name)
        else:
            self._execute(cursor, f"ALTER TABLE {whole} {clause}")

    def _columns(self, cursor: Cursor, table: str) -> list[str]:
        cursor.execute(f"SHOW COLUMNS FROM {table}")
        return [str(name) for name, *_ in cursor.fetchall()]

    def _write(self, cursor: Cursor) -> None:
        """Inserts a row, and changes or deletes one now and then."""
        dice = self._dice
        schema, table = dice.choice(self._names)
        whole = f"{schema}.{table}"
        self._rows += 1
        columns = self._columns(cursor, whole)
        values = [str(self._rows) if name == _KEPT else dice.choice(TEXTS) for name in columns]
        marks = ", ".join(["%s"] * len(columns))
        row = self._rows
        if not self._execute(cursor, f"INSERT IGNORE INTO {whole} ({', '.join(columns)}) VALUES ({marks})", values):
            return
        self.written += self._selected(cursor, schema, table, row)
        others = [each for each in columns if each != _KEPT]
        if dice.random() < 0.3 and others:
            changing = f"UPDATE IGNORE {whole} SET {dice.choice(others)} = %s WHERE id = {row}"
            if self._execute(cursor, changing, [dice.choice(TEXTS)]) and cursor.rowcount:
                self.written += self._selected(cursor, schema, table, row)
        if dice.random() < 0.2:
            gone = list(self._selected(cursor, schema, table, row))
            cursor.execute(f"DELETE FROM {whole} WHERE id = {row}")
            self.written += gone

    @staticmethod
    def _selected(cursor: Cursor, schema: str, table: str, number: int) -> Iterator[Written]:
        cursor.execute(f"SELECT * FROM {schema}.{table} WHERE id = {number}")
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            yield Written(schema, table, {name: shown(value) for name, value in zip(names, row, strict=True)})


def shown(value: object) -> str:
    """The text of a value, NULL for none."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "NULL" if value is None else str(value)
