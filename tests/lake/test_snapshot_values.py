"""Every type on every server: the snapshot's SELECT gives the same values as the binlog."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pymysql.connections import Connection

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay._native import ChangeReader
from relay.journal.frames import Definition
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.snapshot.plan import plan
from relay.lake.snapshot.session import Session, columns
from relay.lake.types import evolve, fields_of
from relay.source.connect import Account, connect
from relay.source.facts import ServerFacts, query_facts
from tests.support.reader_process import Reader
from tests.support.snapshot_lake import read_up, reading
from tests.support.value_cases import CASES, MORE_CASES, Case
from tests.types import tables
from tests.types.case import TableCase, chunks

pytestmark = pytest.mark.every_server

A_TABLE = 25  # columns
ALL = 1 << 30
ODD = TableCase(
    "text",
    "what is none",
    "id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET cp1251, b VARCHAR(20) CHARACTER SET ucs2",
    ["VALUES (1, X'E03F', X'0061'), (2, X'983F', X'0061D800'), (3, NULL, NULL), (4, '?', '?')"],
)


def account(server: DatabaseServer) -> Account:
    return Account("127.0.0.1", server.port, USER, PASSWORD)


def many(server: DatabaseServer) -> Iterator[TableCase]:
    """The cases of columns, many to a table."""
    cases = [case for case in (*CASES, *MORE_CASES) if server.name in case.on]
    for some in chunks(cases, A_TABLE):
        yield TableCase("columns", some[0].sql, column_list(some), list(inserts(some)))


def column_list(cases: Iterable[Case]) -> str:
    return "id INT PRIMARY KEY, " + ", ".join(f"v{number} {case.sql}" for number, case in enumerate(cases))


def inserts(cases: Iterable[Case]) -> Iterator[str]:
    """A row of the first values, one of the second, and so on to one of NULLs only."""
    for number, row in enumerate(itertools.zip_longest(*(case.values for case in cases), ("NULL",), fillvalue="NULL")):
        yield f"VALUES ({number}, {', '.join(row[:-1])})"


@pytest.mark.usefixtures("full_metadata")
def test_values_are_those_of_the_binlog(server: DatabaseServer, db: str, make_reader: Callable[..., Reader]) -> None:
    cases = [
        *many(server),
        *(case for case in tables.CASES if server.name in case.on and not case.settings),
        ODD,
    ]
    with closing(server.connect(database=db)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION', max_error_count = 0")
        for number, case in enumerate(cases):
            cursor.execute(f"CREATE TABLE t{number} ({case.columns}) {case.options}")
        reader = reading(server, db, make_reader)
        for number, case in enumerate(cases):
            for insert in case.inserts:
                cursor.execute(f"INSERT INTO t{number} {insert}")
    logged = exported(reader, read_up(reader, server))
    with closing(connect(account(server))) as connection, Session(account(server), query_facts(connection)) as session:
        select = partial(selected, connection, session, query_facts(connection))
        wrong = [
            f"{case.family}, {case.name}: {line}"
            for number, case in enumerate(cases)
            for line in differences(select(logged[f"t{number}"][0]), logged[f"t{number}"][1])
        ]
    assert not wrong, "\n".join(wrong)


def exported(reader: Reader, until: int) -> dict[str, tuple[TableVersion, pa.Table]]:
    """What the export makes of the journal, by table: columns with their sides."""
    found: dict[str, tuple[TableVersion, list[pa.RecordBatch]]] = {}
    changes, why = ChangeReader(reader.journal_dir), ""
    while why != "end":
        why = changes.read(until, ALL).why
        for some in changes.take():
            definition = msgspec.msgpack.decode(some.definition, type=Definition)
            version = evolve([], Table(definition.schema, definition.table), *fields_of(definition))
            batch = pa.record_batch(some).select(range(len(version.fields)))
            found.setdefault(definition.table, (version, []))[1].append(batch)
    return {name: (version, pa.Table.from_batches(batches)) for name, (version, batches) in found.items()}


def selected(
    connection: Connection[Any], session: Session, server: ServerFacts, version: TableVersion
) -> pa.RecordBatch:
    how = plan(connection, server, version.table, [version], lambda _: True)
    assert how.version is version
    first = plan(connection, server, version.table, [], lambda _: True).version
    other = [pair for pair in zip(first.fields, version.fields, strict=True) if shape(pair[0]) != shape(pair[1])]
    assert (other, first.key) == ([], version.key), "without the export's version it is another"
    order = ", ".join(f"`{part.column.name}`" for part in how.key)
    expressions = ", ".join(select.expression for select in how.selects)
    rows = session.execute(f"SELECT {expressions} FROM {how.source}" + (f" ORDER BY {order}" if order else ""))
    return pa.record_batch(
        how.arrays(columns(rows, len(how.selects))), names=[field.name for field in how.version.fields]
    )


def shape(field: Field) -> tuple[str, str, str, str]:
    """All but labels and lengths, which metadata may tell in another way."""
    return field.name, field.type, field.column, field.side


def differences(ours: pa.RecordBatch, logged: pa.Table) -> Iterator[str]:
    for field, got, column in zip(ours.schema, ours.columns, logged.columns, strict=True):
        wanted = pa.chunked_array([part.cast(field.type) for part in column.chunks], field.type).combine_chunks()
        if not got.equals(wanted):
            for one, two in zip(got.to_pylist(), wanted.to_pylist(), strict=True):
                if repr(one) != repr(two):
                    yield f"{field.name} {field.type}: {one!r:.100} instead of {two!r:.100}"
