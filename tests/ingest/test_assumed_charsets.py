"""Character sets that the reader assumes for schemas from before the binlog: right values, and counts of wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer
from relay.ingest import assumptions
from relay.journal.maintenance import ALL_COUNTED
from tests.support.lagging_reader import Laggard
from tests.support.purging import purge
from tests.support.reader_process import Reader

pytestmark = pytest.mark.brands

Make = Callable[[DatabaseServer, str], Laggard]
Database = Callable[[DatabaseServer], str]
Read = Callable[..., Reader]
Values = dict[str, str]
COLUMNS = "id INT PRIMARY KEY, v VARCHAR(20), c CHAR(9), t TEXT, x TEXT(100), e ENUM('é', 'y'), n VARCHAR(1000) UNIQUE"
OLDEST = {"Source.StartPosition": "oldest"}


@pytest.fixture
def make_laggard(tmp_path: Path) -> Iterator[Make]:
    """Makes readers that begin with the oldest binlog, which has nothing of how a database was made."""
    with ExitStack() as stack:
        yield lambda server, database: stack.enter_context(closing(Laggard(server, tmp_path, database)))


@pytest.fixture(params=["mariadb1011", "mariadb118"])
def mariadb(request: pytest.FixtureRequest) -> DatabaseServer:
    server: DatabaseServer = request.getfixturevalue(request.param)
    return server


def insert(cursor: Cursor, table: str, number: int) -> Values:
    """Inserts a row of texts with the given id, and returns what SELECT shows of it."""
    cursor.execute(f"SHOW COLUMNS FROM {table}")
    values = {str(name): "é" for name, *_ in cursor.fetchall()} | {"id": str(number)}
    values |= {"n": f"é{number}"} if "n" in values else {}
    marks = ", ".join(["%s"] * len(values))
    cursor.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))
    cursor.execute(f"SELECT * FROM {table} WHERE id = {number}")
    [row] = cursor.fetchall()
    return {column[0]: str(value) for column, value in zip(cursor.description, row, strict=True)}


def read(laggard: Laggard) -> list[Values]:
    """Every row of the journal, without hashes."""
    return [
        {name: str(value) for name, value in row.cells if not name.startswith("DB_ROW_HASH")} for row in laggard.rows()
    ]


def test_rows_in_a_schema_from_before_the_binlog_have_its_character_set_of_now(
    mariadb: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mariadb)
    mariadb.execute(f"ALTER DATABASE {db} CHARACTER SET latin1")
    laggard = make_laggard(mariadb, db)
    wanted = []
    with mariadb.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        for number, statement in enumerate((
            f"CREATE TABLE {db}.t ({COLUMNS})", f"ALTER TABLE {db}.t ADD INDEX (v)", f"ALTER TABLE {db}.t ADD w TEXT",
            f"CREATE TABLE {db}.u LIKE {db}.t", f"RENAME TABLE {db}.t TO {db}.old, {db}.u TO {db}.t",
            f"ALTER TABLE {db}.t DROP e",  # MariaDB converts the labels of an ENUM to question marks
            f"ALTER TABLE {db}.t CONVERT TO CHARACTER SET DEFAULT",
            f"ALTER TABLE {db}.t CONVERT TO CHARACTER SET utf8mb4",
            f"ALTER TABLE {db}.t ADD y CHAR(3) FIRST",
            f"CREATE OR REPLACE TABLE {db}.t ({COLUMNS}) CHARACTER SET utf8mb3",
        )):  # fmt: skip
            cursor.execute(statement)
            wanted.append(insert(cursor, f"{db}.t", number))
    laggard.look()
    laggard.catch_up()
    assert read(laggard) == wanted
    assert all(row.proven for row in laggard.rows())
    assert (laggard.asked, laggard.assumed()) == (0, {}), "the source was asked, or rows count as wrong"
    assert [event for event, _ in laggard.logged] == ["charset_assumed"]


@pytest.mark.parametrize(
    "later", ["ALTER DATABASE {} CHARACTER SET utf8mb4", "DROP DATABASE {}; CREATE DATABASE {} CHARACTER SET utf8mb4"]
)
def test_a_later_statement_about_the_schemas_character_set_counts_the_rows_read_with_the_assumption(
    later: str, mariadb: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mariadb)
    mariadb.execute(f"ALTER DATABASE {db} CHARACTER SET latin1")
    laggard = make_laggard(mariadb, db)
    with mariadb.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, t TEXT)")
        cursor.execute(f"CREATE TABLE {db}.numbers (id INT PRIMARY KEY)")
        cursor.execute(f"CREATE TABLE {db}.own (id INT PRIMARY KEY, t TEXT) CHARACTER SET latin1")
        wanted = [insert(cursor, f"{db}.{table}", 1) for table in ("t", "numbers", "own")]
        wanted.append(insert(cursor, f"{db}.t", 2))
        for statement in later.replace("{}", db).split(";"):
            cursor.execute(statement)
        cursor.execute(f"CREATE TABLE {db}.after (id INT PRIMARY KEY, t TEXT)")
        wanted.append(insert(cursor, f"{db}.after", 1))
        if "ALTER" in later:
            wanted.append(insert(cursor, f"{db}.t", 3))
    laggard.look()
    laggard.catch_up()
    rows = read(laggard)
    wrong = [number for number, row in enumerate(wanted) if rows[number] != row]
    assert wrong == ([0, 3, 5] if "ALTER" in later else [0, 3])
    [(name, count)] = laggard.assumed().items()
    assert (name, count.rows, count.charset) == (f"{db}.t", len(wrong), "utf8mb4")
    assert later.partition(" {}")[0] in count.cause
    first, last = (int(where.rpartition(":")[2]) for where in (count.first, count.last))
    assert first < last
    assert [event for event, _ in laggard.logged] == ["charset_assumed", "charset_contradicted"]
    laggard.restart()
    assert laggard.assumed() == {name: count}, "a restart forgot the counts"


def test_a_row_of_another_size_contradicts_the_assumption_for_all_tables(
    mariadb: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mariadb)
    mariadb.execute(f"ALTER DATABASE {db} CHARACTER SET latin1")
    laggard = make_laggard(mariadb, db)
    with mariadb.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, t TEXT)")
        insert(cursor, f"{db}.t", 1)
        cursor.execute(f"CREATE TABLE {db}.sized (id INT PRIMARY KEY, v VARCHAR(20))")
        sized = insert(cursor, f"{db}.sized", 1)
        insert(cursor, f"{db}.t", 2)
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"ALTER DATABASE {db} CHARACTER SET utf8mb4")
    laggard.look()
    laggard.catch_up()
    assert read(laggard)[1] == sized
    assert {name: count.rows for name, count in laggard.assumed().items()} == {f"{db}.t": 2}


def with_forty_wrong_rows(server: DatabaseServer, db: str, make_laggard: Make) -> Laggard:
    """A reader with rows before it that a later statement shows to be read with a wrong character set."""
    server.execute(f"ALTER DATABASE {db} CHARACTER SET latin1")
    laggard = make_laggard(server, db)
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, t TEXT)",
        *(f"INSERT INTO {db}.t VALUES ({number}, 'é')" for number in range(40)),
        f"ALTER DATABASE {db} CHARACTER SET utf8mb4",
    )
    laggard.look()
    return laggard


def test_a_reader_killed_while_it_assumes_counts_every_wrong_row(
    mariadb1011: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mariadb1011)
    laggard = with_forty_wrong_rows(mariadb1011, db, make_laggard)
    size = laggard.catch_up(0)
    for bytes_ in range(size // 9, size, size // 9):
        laggard.catch_up(bytes_)
        laggard.restart()
    laggard.catch_up()
    assert len(laggard.rows()) == 40
    assert {name: count.rows for name, count in laggard.assumed().items()} == {f"{db}.t": 40}


def test_rows_that_retention_waits_for_are_counted_once(
    mariadb1011: DatabaseServer, make_db: Database, make_laggard: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = make_db(mariadb1011)
    laggard = with_forty_wrong_rows(mariadb1011, db, make_laggard)
    laggard.catch_up(laggard.catch_up(0) // 2)
    uncounted = laggard.assumptions.uncounted()
    monkeypatch.setattr(assumptions, "BEHIND_BYTES", 0)
    laggard.assumptions.report()
    assert uncounted < laggard.assumptions.uncounted() < ALL_COUNTED
    laggard.catch_up()
    assert {name: count.rows for name, count in laggard.assumed().items()} == {f"{db}.t": 40}


def test_a_schema_that_is_gone_has_the_character_set_of_its_create_database_if_not_exists(
    mariadb: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mariadb)
    mariadb.execute(f"DROP DATABASE {db}")
    laggard = make_laggard(mariadb, db)
    with mariadb.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {db} CHARACTER SET latin1")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {db} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {db}.t ({COLUMNS})")
        wanted = insert(cursor, f"{db}.t", 1)
        cursor.execute(f"DROP DATABASE {db}")
    laggard.look()
    laggard.catch_up()
    assert read(laggard) == [wanted]
    assert {name: count.rows for name, count in laggard.assumed().items()} == {f"{db}.t": 1}
    mariadb.execute(f"CREATE DATABASE {db}")


def test_a_session_that_may_use_an_earlier_character_set_of_its_schema_is_counted(
    mariadb: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mariadb)
    mariadb.execute(f"ALTER DATABASE {db} CHARACTER SET latin1")
    laggard = make_laggard(mariadb, db)
    with mariadb.connect(database=db, charset="utf8mb4") as connection, connection.cursor() as cursor:
        mariadb.execute(f"ALTER DATABASE {db} CHARACTER SET utf8mb4")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, t TEXT)")  # in latin1, as the session remembers
        wanted = insert(cursor, "t", 1)
    laggard.look()
    laggard.catch_up()
    assert read(laggard) != [wanted]
    assert {name: count.rows for name, count in laggard.assumed().items()} == {f"{db}.t": 1}


def test_a_stop_at_an_assumed_character_set_is_before_the_first_row_that_needs_it(
    mariadb1011: DatabaseServer, make_db: Database, make_reader: Read
) -> None:
    db = make_db(mariadb1011)
    purge(mariadb1011)
    mariadb1011.execute(
        f"CREATE TABLE {db}.numbers (id INT PRIMARY KEY)", f"INSERT INTO {db}.numbers VALUES (1)",
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, t TEXT)", f"INSERT INTO {db}.t VALUES (1, 'é')",
    )  # fmt: skip
    reader = make_reader(mariadb1011, OLDEST | {"Relay.OnAssumedCharset": "stop"})
    assert reader.wait() == 5
    assert reader.stop("code") == "charset_assumed"
    assert db in reader.stop("text")
    assert (reader.count("numbers"), reader.count("t")) == (1, 0)
    sending = make_reader(mariadb1011, OLDEST).streaming()
    sending.until(lambda: sending.count("t") == 1)


def test_a_schema_made_by_if_not_exists_after_the_first_look_is_known_without_a_question(
    server: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(server)
    laggard = make_laggard(server, db)
    laggard.look()
    new = f"{db}_new"
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {new} CHARACTER SET latin1")
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {new} CHARACTER SET utf8mb4")
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {db} CHARACTER SET latin1")
            wanted = []
            for schema in (new, db):
                cursor.execute(f"CREATE TABLE {schema}.t ({COLUMNS.partition(', n')[0]})")
                wanted.append(insert(cursor, f"{schema}.t", 1))
            laggard.catch_up()
        finally:
            cursor.execute(f"DROP DATABASE IF EXISTS {new}")
    assert read(laggard) == wanted
    assert all(row.proven for row in laggard.rows())
    assert (laggard.asked, laggard.assumed(), laggard.logged) == (0, {}, []), "the source was asked"


def test_convert_to_the_default_is_to_that_of_the_schema_that_the_server_uses(
    server: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db, other = make_db(server), make_db(server)
    server.execute(f"ALTER DATABASE {db} CHARACTER SET latin1", f"ALTER DATABASE {other} CHARACTER SET ucs2")
    laggard = make_laggard(server, db)
    laggard.look()
    with server.connect(database=other, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, t TEXT, v VARCHAR(20)) CHARACTER SET utf8mb4")
        cursor.execute(f"ALTER TABLE {db}.t CONVERT TO CHARACTER SET DEFAULT")  # MySQL: that of the session's schema
        wanted = insert(cursor, f"{db}.t", 1)
    laggard.catch_up()
    assert read(laggard) == [wanted]
    assert (laggard.asked, laggard.logged) == (0, []), "the source was asked"


def test_a_conversion_on_mysql_knows_the_sizes_of_texts_by_an_assumed_character_set(
    mysql97: DatabaseServer, make_db: Database, make_laggard: Make
) -> None:
    db = make_db(mysql97)
    mysql97.execute(f"ALTER DATABASE {db} CHARACTER SET latin1")
    laggard = make_laggard(mysql97, db)
    wanted = []
    with mysql97.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, t TEXT, v VARCHAR(20), x TEXT(100))")
        wanted.append(insert(cursor, f"{db}.t", 1))
        cursor.execute(f"ALTER TABLE {db}.t CONVERT TO CHARACTER SET utf8mb4")
        wanted.append(insert(cursor, f"{db}.t", 2))
    laggard.look()
    laggard.catch_up()
    assert read(laggard) == wanted
    assert (laggard.asked, laggard.assumed()) == (0, {}), "the source was asked, or rows count as wrong"
