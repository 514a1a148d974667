"""CREATE TABLE IF NOT EXISTS: the history knows whether it created the table, even in a schema older than the relay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from tests.support.lagging_reader import Laggard, write

pytestmark = pytest.mark.brands


@pytest.fixture
def laggard(server: DatabaseServer, db: str, tmp_path: Path) -> Iterator[Laggard]:
    server.execute(f"CREATE TABLE {db}.old (a VARCHAR(20), b VARCHAR(20))")
    made = Laggard(server, tmp_path, db)
    made.look()
    yield made
    made.close()


def test_a_table_that_it_made_is_known_at_once(server: DatabaseServer, db: str, laggard: Laggard) -> None:
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS t (a VARCHAR(20), b VARCHAR(20))")
        write(cursor, db, "t")
        cursor.execute("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a")
        write(cursor, db, "t")
        cursor.execute("CREATE TABLE IF NOT EXISTS u LIKE t")
        write(cursor, db, "u")
        cursor.execute("DROP TABLE t, u")
    laggard.catch_up()
    assert [(row.names, row.proven, row.true) for row in laggard.rows()] == [
        ("a,b", True, True), ("b,a", True, True), ("b,a", True, True),
    ]  # fmt: skip


def test_a_table_that_was_there_stays_what_it_was(server: DatabaseServer, db: str, laggard: Laggard) -> None:
    """MariaDB writes the statement into the binlog only under LOCK TABLES, as if it had made the table."""
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES old WRITE")
        cursor.execute("CREATE TABLE IF NOT EXISTS old (b VARCHAR(20), a VARCHAR(20))")
        cursor.execute("UNLOCK TABLES")
        cursor.execute("CREATE TABLE IF NOT EXISTS old (b VARCHAR(20), a VARCHAR(20))")
        write(cursor, db, "old")
        cursor.execute("DROP TABLE old")
    laggard.catch_up()
    assert [(row.names, row.proven, row.true) for row in laggard.rows()] == [("a,b", True, True)]
