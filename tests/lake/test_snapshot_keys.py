"""Pages in the order of the primary key: every row once, for every kind of key, using its index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.ddl.syntax import DataType
from relay.errors import RelayError
from relay.lake.documents import Table
from relay.lake.snapshot import keys
from relay.lake.snapshot.keys import KeyPart
from relay.lake.snapshot.pace import BYTES, Pace
from relay.lake.snapshot.plan import plan
from relay.lake.snapshot.session import Session
from relay.schema.table import Column
from relay.source.connect import Account, connect
from relay.source.facts import query_facts
from tests.support.value_cases import BYTES as BYTE_VALUES
from tests.support.value_cases import DATES, DATETIMES, DECIMALS, DOUBLES, INET6, MARIADB, MYSQL, TIMES, UUIDS

ALL = MYSQL + MARIADB
A_PAGE = 3
WORDS = ["'a'", "'B'", "'b!'", "'ö'", "'z'", "'it''s'", "'back\\\\slash'", "''", "'_'", "'€'", "'x y'", "'Z9'"]
LETTERS = [f"'{letter}{number}'" for letter in "abc" for number in range(4)]


class Keyed(NamedTuple):
    """Columns and key of a table, the values of its rows, and whether its index leads to a page (or is walked)."""

    columns: str
    key: str
    rows: list[str]
    on: tuple[str, ...] = ALL
    led: bool = True


KEYS = [
    Keyed("a INT", "a", [*map(str, range(-20, 20))]),
    Keyed("a BIGINT UNSIGNED", "a", ["0", "1", "18446744073709551615", "18446744073709551614", "9007199254740993"]),
    Keyed("a INT(8) ZEROFILL", "a", [*map(str, range(0, 30, 2))]),
    Keyed("a INT, b VARCHAR(20)", "a, b", [f"{n}, {word}" for n in (1, 2) for word in WORDS]),
    Keyed("a INT, b VARCHAR(20), c INT", "c, b, a", [f"{n}, {word}, {n % 2}" for n in range(3) for word in WORDS]),
    Keyed("a VARCHAR(20) CHARACTER SET latin1", "a", WORDS[:9]),
    Keyed("a VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "a", WORDS),
    Keyed("a CHAR(20) CHARACTER SET utf16", "a", WORDS),
    Keyed("a VARBINARY(20)", "a", BYTE_VALUES),
    Keyed("a BINARY(4)", "a", ["X'00'", "X'01'", "X'27'", "X'5C'", "X'FF'"]),
    Keyed("a DECIMAL(10,2)", "a", DECIMALS),
    Keyed("a DOUBLE", "a", DOUBLES),
    Keyed("a FLOAT", "a", ["0.1", "1.1", "16777216", "1e-40", "-2", "3.40282e38", "5.5"]),
    Keyed("a DATE", "a", DATES),
    Keyed("a DATETIME(6)", "a", DATETIMES),
    Keyed("a TIMESTAMP(6)", "a", [f"'2024-0{n}-01 01:02:03.00000{n}'" for n in range(1, 8)]),
    Keyed("a TIME(6)", "a", TIMES),
    Keyed("a YEAR", "a", [*map(str, range(1999, 2015))]),
    Keyed("a BIT(20)", "a", [*map(str, range(0, 40, 3))]),
    Keyed("a ENUM('z','m','a'), b INT", "a, b", [f"{n}, {m}" for n in (1, 2, 3) for m in range(3)], led=False),
    Keyed("a SET('z','m','a')", "a", [*map(str, range(8))], led=False),
    Keyed("a VARCHAR(20), b INT", "a, b DESC", [f"{letter}, {n}" for letter in LETTERS[:4] for n in range(4)], MYSQL),
    Keyed("a INT", "a DESC", [*map(str, range(-9, 9))], MYSQL),
    Keyed("a UUID", "a", UUIDS, MARIADB),
    Keyed("a INET6", "a", INET6, MARIADB),
]


def test_every_row_comes_once_by_the_index_of_the_key(server: DatabaseServer, db: str) -> None:
    account = Account("127.0.0.1", server.port, USER, PASSWORD)
    with closing(connect(account)) as asking, Session(account, query_facts(asking)) as session:
        with closing(server.connect(database=db)) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
            for number, case in enumerate(KEYS):
                if server.name in case.on:
                    cursor.execute(f"CREATE TABLE t{number} ({case.columns}, PRIMARY KEY ({case.key}))")
                    cursor.execute(f"INSERT IGNORE INTO t{number} VALUES ({'), ('.join(case.rows)})")
        wrong = [
            f"{case.columns}, key {case.key}: {line}"
            for number, case in enumerate(KEYS)
            if server.name in case.on
            for line in faults(asking, session, Table(db, f"t{number}"), case)
        ]
    assert not wrong, "\n".join(wrong)


def faults(asking: Any, session: Session, table: Table, case: Keyed) -> Iterator[str]:
    how = plan(asking, query_facts(asking), table, [], lambda _: True)
    expressions = [keys.expression(part) for part in how.key]
    after: list[str] | None = None
    read = []
    while True:
        sql = keys.page(how.source, expressions, how.key, after, A_PAGE)
        if after is not None:
            explained = session.execute(f"EXPLAIN {'' if query_facts(asking).mariadb else 'FORMAT=TRADITIONAL '}{sql}")
            if b"filesort" in (explained[0][-1] or b"") or (case.led and b"range" not in explained[0]):
                yield f"{sql}: {explained}"
        rows = session.execute(sql)
        read += [tuple(row) for row in rows]
        if len(rows) < A_PAGE:
            break
        after = [keys.text(part, value or b"") for part, value in zip(how.key, rows[-1], strict=True)]
    order = ", ".join(f"{part.column.name}{' DESC' * part.descending}" for part in how.key)
    wanted = session.execute(f"SELECT {', '.join(expressions)} FROM {how.source} ORDER BY {order}")
    if read != [tuple(row) for row in wanted]:
        yield f"{read} instead of {wanted}"


def test_a_key_on_the_beginning_of_a_column_is_none_to_go_by(server: DatabaseServer, db: str) -> None:
    server.execute(f"CREATE TABLE {db}.t (a VARCHAR(20), b INT, PRIMARY KEY (a(1), b))")
    with closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as asking:
        how = plan(asking, query_facts(asking), Table(db, "t"), [], lambda _: True)
        partly = plan(asking, query_facts(asking), Table(db, "t"), [], lambda name: name != "a")
    assert (how.key, how.version.key) == ([], ["a", "b"])
    assert (partly.key, partly.version.key) == ([], []), "what remains of a key that is left out is none"


@pytest.mark.parametrize("kept", ["1 OR 1=1", "", "0x10", "1;", "'1'"])
def test_a_key_from_the_log_that_is_none_of_its_type_is_refused(kept: str) -> None:
    part = KeyPart(Column("id", DataType("int", 11), nullable=False))
    with pytest.raises(RelayError, match="not a value of the key column id"):
        keys.page("`t`", ["`id`"], [part], [kept], 10)


def test_pages_grow_and_shrink_with_time_and_bytes() -> None:
    pace = Pace()
    first = pace.rows
    pace.adapt(first, 0.01, 1000)
    assert pace.rows == 4 * first
    pace.adapt(pace.rows, 1.0, 1000)
    assert pace.rows == 2 * first
    pace.adapt(pace.rows, 0.5, 4 * BYTES)
    assert pace.rows == first // 2
    assert Pace(row_bytes=BYTES).rows == Pace(most=1).rows == 1
