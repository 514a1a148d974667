"""Opaque values in JSON documents equal a SELECT, with lengths around each end of a line of base64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from tests.support import binlogs
from tests.support.binlogs import Fed
from tests.support.journal_rows import journaled

LINE = 57
"""The bytes of a line of base64."""
LENGTHS = [0, 1, 2, 3] + [lines * LINE + more for lines in (1, 2, 3, 4, 1000) for more in (-2, -1, 0, 1, 2, 3)]
BYTES = "REPEAT(X'00FE7F', 20000)"


@pytest.fixture
def db97(mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    return make_db(mysql97)


def check(server: DatabaseServer, db: str, folder: Path, kind: int, sql: str, expressions: Sequence[str]) -> None:
    """Make documents of values of a column type, by these expressions.

    Asserts that they have opaque values of the type `kind`, and that the journal has them as SELECT shows them.
    """
    start = binlogs.place(server)
    with closing(server.connect(database=db, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE s (id INT PRIMARY KEY AUTO_INCREMENT, v {sql})")
        cursor.execute("CREATE TABLE j (id INT PRIMARY KEY, j JSON)")
        for expression in expressions:
            cursor.execute(f"INSERT INTO s (v) VALUES ({expression})")
        cursor.execute("INSERT INTO j SELECT id, JSON_OBJECT('k', JSON_ARRAY(v, 1)) FROM s")
        cursor.execute("SELECT j FROM j ORDER BY id")
        shown = [document for (document,) in cursor.fetchall()]
    assert len(shown) == len(expressions)
    assert all(f'"base64:type{kind}:' in document for document in shown)
    fed = Fed(folder, segment=1 << 24)
    fed.begin(start)
    fed.feed(binlogs.record(server, start))
    rows = [after for frame in journaled(fed) if frame.table.table == "j" for _, after in frame.typed()]
    assert [row["@2"] for row in rows if row] == shown


@pytest.mark.parametrize(
    ("sql", "kind", "longest"),
    [
        ("TINYBLOB", 249, 255), ("BLOB", 252, 60000), ("MEDIUMBLOB", 250, 60000), ("LONGBLOB", 251, 60000),
        ("VARBINARY(60000)", 15, 60000), ("BINARY(56)", 254, 56), ("BINARY(57)", 254, 57), ("BINARY(58)", 254, 58),
        ("BINARY(114)", 254, 114), ("BINARY(115)", 254, 115), ("BINARY(255)", 254, 255),
    ],
)  # fmt: skip
def test_bytes_of_each_type(
    sql: str, kind: int, longest: int, mysql97: DatabaseServer, db97: str, tmp_path: Path
) -> None:
    expressions = [f"LEFT({BYTES}, {length})" for length in LENGTHS if length <= longest]
    check(mysql97, db97, tmp_path, kind, sql, expressions)


def test_bits(mysql97: DatabaseServer, db97: str, tmp_path: Path) -> None:
    check(mysql97, db97, tmp_path, 16, "BIT(64)", ["b'101'", "X'FFFFFFFFFFFFFFFF'"])
