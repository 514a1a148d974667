"""The definition of a table is ready before its first row, and is what it would be without that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention
from relay.binlog.events import table_maps
from relay.binlog.events.column_types import TEXTUAL
from relay.ingest.reader_state import without_ids
from relay.journal.frames import Definition
from relay.source import facts
from tests.support.binlogs import StreamPosition, place, record, split
from tests.support.server_variables import full_metadata_of
from tests.support.value_cases import CASES, MORE_CASES, MYSQL
from tests.types.case import TableCase, of_column
from tests.types.run import frames_by_table, handling

LABELS = ",".join(f"'{number}'" for number in range(12_000))
MIXED = (
    "a VARCHAR(10), b VARCHAR(10) CHARACTER SET latin1",
    "a VARCHAR(10), b VARCHAR(10) CHARACTER SET latin1, c TEXT",
    "a VARBINARY(10), b BLOB, c VARCHAR(10), d TEXT CHARACTER SET latin1, e CHAR(3)",
    "a VARCHAR(10) CHARACTER SET latin1, b BLOB, c TEXT",
    *(
        ", ".join(f"c{i} {'INT' if i % 3 else 'VARCHAR(9)'} {'NOT NULL' if i % 2 else ''}" for i in range(n))
        for n in (8, 9, 300)
    ),
    "a CHAR(255), b BINARY(255), c CHAR(64) CHARACTER SET utf8mb4, d VARCHAR(15000)",
    "a INT, b INT AS (a + 1) STORED, c INT AS (a + 2) VIRTUAL, d YEAR, e BIGINT UNSIGNED",
)
TABLES = (
    *map(of_column, (*CASES, *MORE_CASES)),
    *(TableCase("mixed", columns, columns, ()) for columns in MIXED),
    TableCase("mixed", "labels", f"a ENUM({LABELS})", (), on=MYSQL),
)
"""Their rows have all defaults."""


def definitions(
    server: DatabaseServer, start: StreamPosition, folder: Path, *, expecting: bool
) -> tuple[dict[str, list[Definition]], list[bytes]]:
    """The definitions of each table's rows from `start` on, and the table maps that the ingest asked about."""
    asked: list[bytes] = []
    with handling(server, folder, lambda event, **fields: None) as (fed, handler):

        def answer(attention: Attention) -> bool:
            if attention.asks == "table":
                asked.append(attention.body)
            handler.handle(attention)
            return True

        fed.answer = answer
        fed.begin(start)
        for packet in split(record(server, start)):
            fed.feed(packet)
            while expecting and handler.expects_more:
                handler.expect_next()
        handler.resolve_proven()
    fed.writer.flush()
    found = frames_by_table(folder, fed)
    return {
        table: [without_ids(msgspec.msgpack.decode(frame.definition, type=Definition)) for frame in some]
        for table, some in found.items()
    }, asked


def surprising(server: DatabaseServer, asked: Sequence[bytes]) -> list[str]:
    """Why table maps could not be expected: a text has another collation than the last one of its character set."""
    with closing(server.connect()) as connection:
        charset_of = facts.collations(connection)
    last = {"utf8mb4": 255}
    why = []
    for body in asked:
        others = {}
        for column in table_maps.parse(body, mariadb=not server.kind.mysql).columns:
            collation = column.collation if column.type in TEXTUAL else column.label_collation
            if collation:
                others[charset_of[collation]] = collation
        why.append(", ".join(charset for charset, number in others.items() if last.get(charset) != number))
        last |= others
    return why


@pytest.fixture(params=["default", "FULL"])
def metadata(request: pytest.FixtureRequest, server: DatabaseServer) -> Iterator[str]:
    """Both row metadata of the server in turn."""
    with full_metadata_of(server) if request.param == "FULL" else nullcontext():
        yield request.param


@pytest.mark.brands
def test_the_first_row_of_a_table_needs_no_question_whatever_its_types_are(
    server: DatabaseServer, metadata: str, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    tables = [case for case in TABLES if server.name in case.on]
    start = place(server)
    db = make_db(server)  # a schema with a known character set
    with closing(server.connect(database=db, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for number, case in enumerate(tables):
            cursor.execute(f"CREATE TABLE t{number} ({case.columns}) {case.options}")
            cursor.execute(f"INSERT INTO t{number} () VALUES ()")
            cursor.execute(f"ALTER TABLE t{number} ADD COLUMN z SMALLINT UNSIGNED NOT NULL FIRST")
            cursor.execute(f"INSERT INTO t{number} () VALUES ()")
    plain, every = definitions(server, start, tmp_path / "plain", expecting=False)
    found, asked = definitions(server, start, tmp_path / "expecting", expecting=True)
    assert found == plain
    assert len(found) == len(tables) == len(every) // 2
    names = [table_maps.table_name(body)[1] for body in asked]
    unexpected = [name for name, why in zip(names, surprising(server, asked), strict=True) if not why]
    columns = [tables[int(name[1:])].columns for name in unexpected]
    # Nor are labels that are not ASCII, in other character sets than Unicode's, with FULL metadata.
    assert not [each for each in columns if each.isascii() or "CHARACTER SET" not in each], columns
    assert len(asked) < len(every) / 10
