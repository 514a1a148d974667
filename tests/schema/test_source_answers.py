"""What real servers say of their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pymysql.connections import Connection

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog.events.column_types import Type
from relay.ddl.syntax import TableName
from relay.journal.frames import Definition
from relay.schema import source_tables
from relay.schema.matching import definition
from relay.schema.table import Absent, State, Table
from relay.source.connect import Account, connect
from relay.source.facts import ServerFacts, query_facts
from tests.support.schema_world import MYSQL, column_names, made

pytestmark = pytest.mark.brands


class Asking:
    """A connection for schema queries, to a real server."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self.server: ServerFacts = query_facts(connection)
        source_tables.prepare(connection, self.server)

    def __call__(self, schema: str, table: str) -> State:
        return source_tables.query_tables(self._connection, self.server, [TableName(schema, table)])[0].state  # type: ignore[return-value]

    def definition(self, schema: str, table: str) -> Definition:
        found = self(schema, table)
        assert isinstance(found, Table), found
        return definition(found, source_tables.dialect_of(self.server))


@pytest.fixture
def asking(server: DatabaseServer) -> Iterator[Asking]:
    with closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as connection:
        yield Asking(connection)


def test_a_servers_answer_becomes_a_definition(server: DatabaseServer, db: str, asking: Asking) -> None:
    server.execute(
        f"CREATE TABLE {db}.t (id BIGINT UNSIGNED PRIMARY KEY,"
        " e ENUM('a','it''s','x\\\\y','é','b\\nc','(',')','c,d','') CHARACTER SET latin1,"
        " n VARCHAR(5) CHARACTER SET latin1, t TEXT CHARACTER SET utf8mb4, b BLOB, d DECIMAL(7,3) NOT NULL, j JSON)"
    )
    number, label, *_ = found = asking.definition(db, "t").columns
    json = Type.JSON if server.kind.mysql else Type.BLOB
    assert [c.name for c in found] == ["id", "e", "n", "t", "b", "d", "j"]
    assert [c.type for c in found] == [
        Type.LONGLONG, Type.ENUM, Type.VARCHAR, Type.BLOB, Type.BLOB, Type.NEWDECIMAL, json,
    ]  # fmt: skip
    assert (number.unsigned, number.primary) == (True, True)
    assert label.labels == ["a", "it's", "x\\y", "é", "b\nc", "(", ")", "c,d", ""]
    assert [c.charset for c in found][:6] == ["", "", "latin1", "utf8mb4", "binary", ""]


def test_labels_that_are_no_text_are_bytes_or_logged(server: DatabaseServer, db: str, asking: Asking) -> None:
    """MariaDB shows question marks for them; the statement tells them everywhere."""
    column = "v ENUM(X'FF', 0x61, b'01100010', 'ö') CHARACTER SET binary"
    server.execute(f"CREATE TABLE {db}.t ({column})")
    expected = ("binary", ["\xff", "a", "b", "\xc3\xb6"])
    [told] = definition(made(column), MYSQL).columns
    assert (told.charset, told.labels) == expected
    shown = asking(db, "t")
    assert isinstance(shown, Table)
    [seen] = asking.definition(db, "t").columns
    if server.kind.mysql:
        assert (seen.charset, seen.labels, source_tables.uncertain_labels(shown)) == (*expected, [])
    else:
        assert (seen.charset, seen.labels) == ("binary", ["?", "a", "b", "\xc3\xb6"])
        assert source_tables.uncertain_labels(shown) == ["v"]


def test_labels_given_as_digits_are_text_of_their_character_set(
    server: DatabaseServer, db: str, asking: Asking
) -> None:
    columns = (
        "a ENUM(X'E9', 0x61) CHARACTER SET latin1, b ENUM(0x61, X'20AC') CHARACTER SET ucs2,"
        " c ENUM(X'C3A920', 'b ') CHARACTER SET utf8mb4, d ENUM(0x61) CHARACTER SET utf32"
    )
    server.execute(f"CREATE TABLE {db}.t ({columns})")
    told = [column.labels for column in definition(made(columns), MYSQL).columns]
    assert told == [["é", "a"], ["a", "€"], ["é", "b"], ["a"]]
    assert [column.labels for column in asking.definition(db, "t").columns] == told


def test_a_versioned_table_has_two_columns_that_are_not_shown(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(
        f"CREATE TABLE {db}.t (id INT) WITH SYSTEM VERSIONING",
        f"CREATE TABLE {db}.k (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        f"CREATE TABLE {db}.u (id INT)",
    )
    with closing(connect(Account("127.0.0.1", mariadb118.port, USER, PASSWORD))) as connection:
        asking = Asking(connection)
        plain, keyed = asking.definition(db, "t"), asking.definition(db, "k")
        assert column_names(asking.definition(db, "u")) == ["id"]
    assert column_names(plain) == column_names(keyed) == ["id", "row_start", "row_end"]
    assert not any(column.primary for column in plain.columns)
    assert [column.name for column in keyed.columns if column.primary] == ["id", "row_end"], "as FULL metadata has it"


def test_what_is_no_table_is_absent(server: DatabaseServer, db: str, asking: Asking) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT)", f"CREATE VIEW {db}.v AS SELECT * FROM {db}.t")
    for name in ("nothing", "it's", "`", "v"):
        assert isinstance(asking(db, name), Absent)
    assert isinstance(asking("no schema", "t"), Absent)
