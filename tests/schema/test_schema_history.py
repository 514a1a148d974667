"""Whatever happens to definitions while the relay lags, no column gets another column's name."""

from __future__ import annotations

import itertools
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import pymysql
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.ddl.syntax import TableName
from relay.journal.frames import Ddl
from relay.schema import source_tables
from relay.schema.facts import Reply
from relay.schema.table import Table
from relay.source import facts
from relay.source.connect import Account, connect
from tests.support.binlogs import place
from tests.support.lagging_reader import Delivered, Laggard, delivered, identity, write
from tests.support.reader_process import Reader
from tests.support.server_variables import full_metadata_of
from tests.support.waiting import until

pytestmark = pytest.mark.brands


@pytest.fixture(params=["default", "full"])
def metadata(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both metadata modes in turn, of the server under test."""
    server: DatabaseServer = request.getfixturevalue("server")
    with full_metadata_of(server) if request.param == "full" else nullcontext():
        yield request.param


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
MARIADB_FORMS = {
    "or replace": [
        "CREATE OR REPLACE TABLE t (b VARCHAR(20), a VARCHAR(20))", "CREATE OR REPLACE TABLE t LIKE u",
        "CREATE OR REPLACE TABLE t AS SELECT z, y, x FROM u LIMIT 0",
    ],
    "if exists": ["ALTER TABLE t DROP COLUMN IF EXISTS d, ADD COLUMN IF NOT EXISTS e VARCHAR(20) FIRST"],
    "two phases": ["SET binlog_alter_two_phase = ON", "ALTER TABLE t RENAME COLUMN a TO d, ALGORITHM = COPY"],
    "immediately": ["EXECUTE IMMEDIATE 'ALTER TABLE t RENAME COLUMN b TO a, RENAME COLUMN a TO b'"],
    "set statement": ["SET STATEMENT lock_wait_timeout = 9 FOR ALTER TABLE t RENAME COLUMN b TO d"],
    "own comments": ["/*M! ALTER */ /*M!100100 TABLE t */ RENAME COLUMN b TO d"],
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("metadata", "lag"),
    [("default", "none"), ("default", "all"), pytest.param("full", "all", marks=pytest.mark.slow)],
    indirect=["metadata"],
)
def test_no_form_of_a_statement_puts_a_name_on_a_wrong_value(
    server: DatabaseServer, db: str, make_laggard: Callable[..., Laggard], metadata: str, lag: str
) -> None:
    laggard = make_laggard()
    forms = Forms(server, db, FORMS if server.kind.mysql else FORMS | MARIADB_FORMS)
    forms.play(laggard.catch_up if lag == "none" else lambda: None)
    laggard.catch_up()
    forms.drop()
    assert not forms.faults(laggard.rows(), proven=metadata == "full" or lag == "none")


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_an_answer_stands_between_the_places_that_it_names(server: DatabaseServer, db: str, engine: str) -> None:
    """All statements before the first are in it, and none behind the second; MyISAM's definitions change at once."""
    server.execute(f"CREATE TABLE {db}.t (v0 INT, w INT) ENGINE = {engine}")
    start = place(server)
    done = threading.Event()
    answers: list[Reply] = []

    def ask() -> None:
        with closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as connection:
            about = facts.query_facts(connection)
            source_tables.prepare(connection, about)
            while not done.is_set():
                answers.extend(source_tables.query_tables(connection, about, [TableName(db, "t")]))

    def seen() -> set[tuple[int, int, int]]:
        """Which definition was answered, and between which positions."""
        return {
            (int(answer.state.columns[0].name[1:]), answer.asked.position, answer.until.position)
            for answer in list(answers)
            if isinstance(answer.state, Table)
        }

    asking = threading.Thread(target=ask)
    asking.start()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        numbers = itertools.count()

        def often() -> bool:
            number = next(numbers)
            cursor.execute(f"ALTER TABLE t RENAME COLUMN v{number} TO v{number + 1}")
            return number >= 99 and len({version for version, _, _ in seen()}) > 3

        try:
            until(often, 60, "nothing was asked while the definition changed", 0)
        finally:
            done.set()
            asking.join()
        cursor.execute(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.position}")
        ends = {int(found[1]): row[4] for row in cursor.fetchall() if (found := re.search(r" TO v(\d+)", str(row[5])))}
    assert not [each for each in seen() if each[0] and ends[each[0]] > each[2]], "they are ahead of the binlog"
    assert not [each for each in seen() if ends.get(each[0] + 1, each[1] + 1) <= each[1]], "they are behind it"


def test_a_table_that_was_read_about_once_needs_no_time_between_rows_and_statements(
    server: DatabaseServer, db: str, make_laggard: Callable[..., Laggard], metadata: str
) -> None:
    """Of a table whose definition is known, each row up to the next statement is proven, however soon that comes."""
    laggard = make_laggard()
    server.execute(f"CREATE TABLE {db}.t (a VARCHAR(20), b VARCHAR(20))")
    laggard.catch_up()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        write(cursor, db, "t")
        cursor.execute("TRUNCATE t")
        cursor.execute("CREATE INDEX i ON t (a)")
        write(cursor, db, "t")
        cursor.execute("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a")
        write(cursor, db, "t")
    laggard.catch_up()
    assert [(row.names, row.proven, row.true) for row in laggard.rows()] == [
        ("a,b", True, True), ("a,b", True, True), ("b,a", True, True),
    ]  # fmt: skip


def test_a_statement_in_another_character_set_is_not_taken_for_one_about_other_tables(
    server: DatabaseServer, db: str, make_laggard: Callable[..., Laggard], metadata: str
) -> None:
    """What a client writes in latin1 may be valid UTF-8 too, and name another table there."""
    table = "Ã©"
    laggard = make_laggard()
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE `{table}` (a VARCHAR(20), b VARCHAR(20))")
        write(cursor, db, table)
        laggard.catch_up()
        with server.connect(database=db, charset="latin1") as other, other.cursor() as latin1:
            latin1.execute(f"ALTER TABLE `{table}` RENAME COLUMN a TO b, RENAME COLUMN b TO a")
        write(cursor, db, table)
    laggard.catch_up()
    assert [(row.names, row.true) for row in laggard.rows()] == [("a,b", True), ("b,a", True)]


@pytest.mark.parametrize("kind", ["mariadb118", "mariadb1011"])
def test_an_alter_in_two_phases_changes_names_when_it_ends(
    kind: str, own_server: Callable[..., DatabaseServer], tmp_path: Path
) -> None:
    server = own_server(kind, "--binlog-alter-two-phase=ON")
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a VARCHAR(20), b VARCHAR(20))")
    laggard = Laggard(server, tmp_path, "d")
    with server.connect(database="d") as connection, connection.cursor() as cursor:
        write(cursor, "d", "t")
        laggard.catch_up()
        write(cursor, "d", "t")
        with pytest.raises(pymysql.IntegrityError):
            cursor.execute("ALTER TABLE t ADD UNIQUE (a), RENAME COLUMN b TO c")
        write(cursor, "d", "t")
        cursor.execute("DELETE FROM t")
        cursor.execute("ALTER TABLE t ADD UNIQUE (a), RENAME COLUMN b TO c")
        write(cursor, "d", "t")
    laggard.catch_up()
    rows = laggard.rows()
    statements = [frame.statement for frame in laggard.frames() if isinstance(frame, Ddl)]
    laggard.close()
    assert [row.names for row in rows] == ["a,b"] * 6 + ["a,c"]
    assert all(row.proven and row.true for row in rows)
    assert len(statements) == 1, "the statement that came to its end, once"


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_server_that_lowers_names_is_followed(
    kind: str, own_server: Callable[..., DatabaseServer], tmp_path: Path
) -> None:
    """Statements have names as they were typed, rows as the server keeps them."""
    server = own_server(kind, "--lower-case-table-names=1")
    server.execute("CREATE DATABASE D", "CREATE TABLE D.`Tİ` (a VARCHAR(20), b VARCHAR(20))")
    laggard = Laggard(server, tmp_path, "d")
    with server.connect(database="d") as connection, connection.cursor() as cursor:
        write(cursor, "d", "Tİ")
        laggard.catch_up()
        cursor.execute("ALTER TABLE D.`Tİ` RENAME COLUMN a TO b, RENAME COLUMN b TO a")
        write(cursor, "d", "Tİ")
    laggard.catch_up()
    rows = laggard.rows()
    laggard.close()
    assert [(row.names, row.true) for row in rows] == [("a,b", True), ("b,a", True)]


class Slow:
    """A way to a server on which everything asked takes a while."""

    def __init__(self, server: DatabaseServer, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def start(self) -> None:
        """After the relay was forked: a fork and threads do not mix."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._server.port))
                for source, sink, seconds in ((near, far, self._seconds), (far, near, 0.0)):
                    threading.Thread(target=self._pass_on, args=(source, sink, seconds), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, seconds: float) -> None:
        with suppress(OSError), source, sink:
            while data := source.recv(65536):
                time.sleep(seconds)
                sink.sendall(data)


def untrue(running: Reader) -> list[Delivered]:
    return [row for row in delivered(running.journal_dir, running.arena.committed) if not row.true]


def proven(running: Reader, table: str) -> list[str]:
    """The names of each row of a table whose names are proven."""
    rows = delivered(running.journal_dir, running.arena.committed) if running.arena.committed else []
    return [row.names for row in rows if row.table == table and row.proven]


CHANGES = (
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "ALTER TABLE t CHANGE a c VARCHAR(20)",
    "RENAME TABLE t TO x, u TO t, x TO u",
    "RENAME TABLE t TO x, u TO t, x TO u",
    "ALTER TABLE t RENAME COLUMN b TO a, RENAME COLUMN c TO b",
)


def change(server: DatabaseServer, db: str) -> None:
    """Ten rows, two after each of the changes to t (a, b) and u (x, y), which end as they began."""
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        for statement in CHANGES:
            cursor.execute(statement)
            write(cursor, db, "t")
            write(cursor, db, "u")


@pytest.fixture
def two_tables(server: DatabaseServer, db: str) -> None:
    server.execute(
        f"CREATE TABLE {db}.t (a VARCHAR(20), b VARCHAR(20))", f"CREATE TABLE {db}.u (x VARCHAR(20), y VARCHAR(20))"
    )


@pytest.mark.usefixtures("two_tables")
def test_a_reader_that_was_stopped_meanwhile_goes_on_with_true_names(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader], metadata: str
) -> None:
    running = make_reader(server).streaming()
    server.execute(f"INSERT INTO {db}.t VALUES ('{identity('a')}', '{identity('b')}')")
    running.until(lambda: running.count("t") == 1)
    for number in (signal.SIGTERM, signal.SIGKILL):
        running.signal(number)
        server.execute(f"INSERT INTO {db}.t VALUES ('{identity('a')}', '{identity('b')}')")
        change(server, db)
        running = make_reader(server)
    running.until(lambda: running.count("t") + running.count("u") == 23)
    assert not untrue(running)
    assert proven(running, "t")[:2] == ["a,b", "a,b"], "what was proven before a stop holds up to the next statement"
    assert proven(running, "t")[-1] == "a,b"
    assert len(proven(running, "t") + proven(running, "u")) == 23 or metadata == "default"


@pytest.mark.usefixtures("two_tables")
def test_an_answer_that_comes_late_names_nothing_wrongly(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    slow = Slow(server, 0.1)
    running = make_reader(server, {"MySQL.Host": "127.0.0.1", "MySQL.Port": str(slow.port)})
    slow.start()
    running.streaming()
    for _ in range(3):
        change(server, db)
        time.sleep(0.2)
    running.until(lambda: running.count("t") + running.count("u") == 30)
    slow.close()
    assert not untrue(running)
    assert proven(running, "t")[-1] == "a,b"
