"""Statements executed by servers: those that change values of rows are never recorded as no change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pymysql
import pytest
from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer
from relay.ddl.dialect import Dialect, version_of
from relay.lake.documents import Field, Table, TableState, TableVersion
from relay.lake.statements import effects
from tests.lake.test_lake_statements import COLUMNS, KEEPING

pytestmark = pytest.mark.brands

TABLE = (
    f"CREATE TABLE t ({', '.join(f'`{name}` {sql}' for name, sql in COLUMNS.items())}, PRIMARY KEY (id), KEY a (kind)"
)
ROWS = (
    "(0, -2147483648, 65535, 0, 99999999.99, X'0061', 'NULL', 'a')",
    "(-2, 2147483647, 0, 4294967295, -0.01, '', 'ä ', 'b')",
    "(7, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
)
PARTITIONS = (
    " PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (1), PARTITION p VALUES LESS THAN (5),"
    " PARTITION b VALUES LESS THAN (100))"
)
NEEDED = {
    "DROP KEY i": ", KEY i (small)", "INDEX i": ", KEY i (small)",
    "FOREIGN KEY f": ", CONSTRAINT f FOREIGN KEY (id) REFERENCES w (id)",
    "DROP CHECK c": ", CONSTRAINT c CHECK (id > -9)", "DROP CONSTRAINT c": ", CONSTRAINT c CHECK (id > -9)",
    "ALTER CHECK c": ", CONSTRAINT c CHECK (id > -9)",
}  # fmt: skip
"""What the table has to have for some clauses."""
MORE = [
    "REORGANIZE PARTITION a, p INTO (PARTITION p VALUES LESS THAN (5))", "EXCHANGE PARTITION p WITH TABLE u",
    "ADD PARTITION (PARTITION z VALUES LESS THAN (999))", "CONVERT PARTITION p TO TABLE x", "DROP PARTITION a, b",
    "ADD c TIMESTAMP NOT NULL", "ADD (c INT, e TIMESTAMP)", "MODIFY id BIGINT NOT NULL AUTO_INCREMENT",
    "ADD c INT AS (n + 1) STORED, DROP word", "MODIFY word VARCHAR(1)", "ADD x INT, RENAME TO y",
    "MODIFY word VARCHAR(20) CHARACTER SET ascii", "MODIFY filled SMALLINT UNSIGNED", "ORDER BY n, small",
]  # fmt: skip


class Content(NamedTuple):
    """All rows of a table, in an order of their values; nothing if the table is not there."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def of(self, columns: list[str]) -> list[tuple[Any, ...]]:
        """The rows with these columns only, sorted."""
        places = [self.columns.index(name) for name in columns]
        return sorted((tuple(row[place] for place in places) for row in self.rows), key=repr)


@pytest.fixture
def cursor(server: DatabaseServer, db: str) -> Iterator[Cursor]:
    """A session that takes whatever a statement makes of values."""
    with closing(server.connect(database=db)) as connection, connection.cursor() as found:
        found.execute("SET sql_mode = '', foreign_key_checks = 0, explicit_defaults_for_timestamp = OFF")
        found.execute("CREATE TABLE w (id INT PRIMARY KEY)")
        yield found


def content(cursor: Cursor) -> Content:
    cursor.execute(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 't'"
    )
    names = [str(name) for (name,) in cursor.fetchall()]
    if not names:
        return Content([], [])
    cursor.execute(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM t")
    return Content(names, list(cursor.fetchall()))


def prepared(cursor: Cursor, clauses: str) -> Content:
    """Make the table as the clauses need it; what is in it."""
    cursor.execute("DROP TABLE IF EXISTS t, u, x, y")
    needed = [sql for words, sql in NEEDED.items() if words in clauses]
    partitioned = PARTITIONS if " PARTITION " in f" {clauses}" and "PARTITION BY" not in clauses else ""
    cursor.execute(f"{TABLE}{''.join(needed)}){partitioned}")
    if "TABLE u" in clauses:
        cursor.execute("CREATE TABLE u LIKE t")
        cursor.execute("ALTER TABLE u REMOVE PARTITIONING")
    cursor.execute(f"INSERT INTO t VALUES {', '.join(ROWS)}")
    return content(cursor)


def test_a_statement_that_changes_values_has_an_effect(server: DatabaseServer, db: str, cursor: Cursor) -> None:
    cursor.execute("SELECT VERSION()")
    (version,) = cursor.fetchone() or ("",)
    dialect = Dialect(*version_of(version), sql_mode=0, explicit_timestamps=False)
    wrong, understood, changed = list[str](), 0, 0
    table = Table(db, "t")
    fields = [Field(name, "string", name, sql) for name, sql in COLUMNS.items()]
    known = {"t": TableState(table, [TableVersion(table, 1, 1, fields, ["id"])], {}, [], complete_from=1)}
    for clauses in [*KEEPING, *MORE]:
        before = prepared(cursor, clauses)
        try:
            cursor.execute(f"ALTER TABLE t {clauses}")
        except pymysql.MySQLError:
            continue  # of the other server, or none of them
        after = content(cursor)
        kept = [name for name in before.columns if name in after.columns]
        new = [name for name in after.columns if name not in kept]
        nothing = {(None,) * len(new)}
        same = bool(kept) and after.of(kept) == before.of(kept) and set(after.of(new)) == nothing
        for each in (dialect, None):
            told = effects(f"ALTER TABLE t {clauses}", db, known, each)
            if not told and not same:
                wrong.append(f"{clauses}: {before} became {after}, read in {each}")
        understood += not told
        changed += not same
    assert not wrong
    assert understood > len(KEEPING) // 2 and changed >= len(MORE) // 3
