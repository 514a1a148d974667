"""Whatever happens to definitions while the relay lags, no name comes to stand on another column's value."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import facts, schema
from relay.binlog.connect import Account, connect
from relay.binlog.schema import Answer
from tests.binlogs import place
from tests.laggard import Delivered, Laggard, write


@pytest.fixture(params=["default", "full"])
def metadata(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both metadata modes in turn, of the server under test."""
    server: DatabaseServer = request.getfixturevalue("server")
    (before,) = server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0]
    if request.param == "full":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    yield request.param
    server.execute(f"SET GLOBAL binlog_row_metadata = {before}")


@pytest.fixture
def make_laggard(server: DatabaseServer, db: str, tmp_path: Path) -> Iterator[Callable[..., Laggard]]:
    made: list[Laggard] = []

    def make() -> Laggard:
        folder = tmp_path / f"laggard-{len(made)}"
        folder.mkdir()
        made.append(Laggard(server, folder, db))
        return made[-1]

    yield make
    for laggard in made:
        laggard.close()


FORMS = {
    "add": ["ALTER TABLE t ADD d VARCHAR(20)"],
    "add first": ["ALTER TABLE t ADD d VARCHAR(20) FIRST"],
    "add in the middle": ["ALTER TABLE t ADD COLUMN (d VARCHAR(20)), ADD COLUMN e INT AFTER b"],
    "drop": ["ALTER TABLE t DROP b"],
    "drop and add another": ["ALTER TABLE t DROP b, ADD d VARCHAR(20) AFTER a"],
    "rename": ["ALTER TABLE t CHANGE b d VARCHAR(20)"],
    "rename column": ["ALTER TABLE t RENAME COLUMN b TO d"],
    "swap names": ["ALTER TABLE t RENAME COLUMN b TO c, RENAME COLUMN c TO b"],
    "swap places": ["ALTER TABLE t MODIFY c VARCHAR(20) AFTER a"],
    "first": ["ALTER TABLE t MODIFY c VARCHAR(20) FIRST"],
    "change and move": ["ALTER TABLE t CHANGE c d VARCHAR(20) FIRST, CHANGE a z VARCHAR(20) AFTER b"],
    "type": ["ALTER TABLE t MODIFY b INT"],
    "character set": ["ALTER TABLE t CONVERT TO CHARACTER SET latin1"],
    "rename table": ["RENAME TABLE t TO w", "CREATE TABLE t (c VARCHAR(20), b VARCHAR(20), a VARCHAR(20))"],
    "rename by alter": ["ALTER TABLE t RENAME TO w, RENAME COLUMN a TO z", "ALTER TABLE u RENAME t"],
    "swap tables": ["RENAME TABLE t TO x, u TO t, x TO u"],
    "drop and create": ["DROP TABLE t", "CREATE TABLE t (c VARCHAR(20), a VARCHAR(20), b VARCHAR(20))"],
    "drop many": ["DROP TABLE t, u", "CREATE TABLE t (c VARCHAR(20), a VARCHAR(20), b VARCHAR(20))"],
    "create like": ["DROP TABLE t", "CREATE TABLE t LIKE u"],
    "create select": ["DROP TABLE t", "CREATE TABLE t AS SELECT z, y FROM u LIMIT 0"],
    "copy": ["ALTER TABLE t RENAME COLUMN b TO d, ALGORITHM = COPY, LOCK = SHARED"],
    "instant": ["ALTER TABLE t ADD d VARCHAR(20), ALGORITHM = INSTANT"],
    "ghost": [
        "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD d VARCHAR(20) AFTER a",
        "INSERT INTO _t_gho (a) SELECT a FROM t LIMIT 0",
        "RENAME TABLE t TO _t_del, _t_gho TO t", "DROP TABLE IF EXISTS _t_del",
    ],
    "quoted": ["ALTER TABLE t RENAME COLUMN b TO `it's ``a``.\"name\", ä`"],
    "comments": ["/* first */ ALTER /*!50100 TABLE */ t -- then\n RENAME /* x */ COLUMN b TO d # end"],
    "ansi quotes": ["SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" RENAME COLUMN "b" TO "d"'],
    "procedure": ["CREATE PROCEDURE p() ALTER TABLE t RENAME COLUMN b TO d", "CALL p()"],
    "prepared": ["PREPARE s FROM 'ALTER TABLE t RENAME COLUMN b TO d'", "EXECUTE s"],
    "engine": [
        "ALTER TABLE t ENGINE = MyISAM", "ALTER TABLE t RENAME COLUMN b TO d",
        "ALTER TABLE t MODIFY c VARCHAR(20) FIRST",
    ],
    "truncate": ["TRUNCATE t"],
    "index": ["CREATE INDEX i ON t (a)", "DROP INDEX i ON t"],
}  # fmt: skip
"""Statements by what they do, on t (a, b, c) and u (x, y, z), all of VARCHAR(20)."""


class Forms:
    """Each form in a database of its own, on tables t and u, with a row in every table after each statement."""

    def __init__(self, server: DatabaseServer, db: str, forms: dict[str, list[str]]) -> None:
        self.databases = {f"{db}_{number}": form for number, form in enumerate(forms)}
        self.forms = forms
        self.written = dict.fromkeys(self.databases, 0)
        self.server = server

    def play(self, between: Callable[[], object]) -> None:
        """Play all of them, with `between` after each row and each statement."""
        with self.server.connect() as connection, connection.cursor() as cursor:
            for database, form in self.databases.items():
                cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
                cursor.execute(f"USE {database}")
                cursor.execute("SET sql_mode = ''")
                cursor.execute("CREATE TABLE t (a VARCHAR(20), b VARCHAR(20), c VARCHAR(20))")
                cursor.execute("CREATE TABLE u (x VARCHAR(20), y VARCHAR(20), z VARCHAR(20))")
                for statement in ["DO 0", *self.forms[form]]:
                    cursor.execute(statement)
                    cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
                    for table, _ in cursor.fetchall():
                        write(cursor, database, table)
                        self.written[database] += 1
                    between()

    def faults(self, rows: list[Delivered], *, proven: bool) -> list[str]:
        """What is wrong with the rows that were delivered; `proven`: none may lack its names."""
        found = [f"{self.databases[row.schema]}: {row}" for row in rows if not row.true or row.proven < proven]
        for database, form in self.databases.items():
            delivered = sum(row.schema == database for row in rows)
            if delivered != self.written[database]:
                found.append(f"{form}: {delivered} of {self.written[database]} rows")
        return found

    def drop(self) -> None:
        self.server.execute(*[f"DROP DATABASE IF EXISTS {database}" for database in self.databases])


@pytest.mark.parametrize("lag", ["none", "all"])
def test_no_form_of_a_statement_puts_a_name_on_a_wrong_value(
    server: DatabaseServer, db: str, make_laggard: Callable[..., Laggard], metadata: str, lag: str
) -> None:
    laggard = make_laggard()
    forms = Forms(server, db, FORMS)
    forms.play(laggard.catch_up if lag == "none" else lambda: None)
    laggard.catch_up()
    forms.drop()
    assert not forms.faults(laggard.rows(), proven=metadata == "full" or lag == "none")


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_an_answer_is_never_ahead_of_the_binlog(server: DatabaseServer, db: str, engine: str) -> None:
    """What information_schema shows was in the binlog before the end that the answer names."""
    server.execute(f"CREATE TABLE {db}.t (v0 INT, w INT) ENGINE = {engine}")
    start = place(server)
    done = threading.Event()
    answers: list[Answer] = []

    def ask() -> None:
        with closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as connection:
            about = facts.facts(connection)
            while not done.is_set():
                answers.append(schema.ask(connection, about, db, "t"))

    asking = threading.Thread(target=ask)
    asking.start()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        for number in range(1, 150):
            cursor.execute(f"ALTER TABLE t RENAME COLUMN v{number - 1} TO v{number}")
        done.set()
        asking.join()
        cursor.execute(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.position}")
        ends = {int(found[1]): row[4] for row in cursor.fetchall() if (found := re.search(r" TO v(\d+)", str(row[5])))}
    seen = [(int(answer.columns[0].name[1:]), answer.until.position) for answer in answers if answer.columns]
    assert len({version for version, _ in seen}) > 3, "nothing was asked while the definition changed"
    early = [(version, until) for version, until in seen if version and ends[version] > until]
    assert not early, f"{len(early)} of {len(seen)} answers are ahead: v{early[0][0]} at {early[0][1]}"
