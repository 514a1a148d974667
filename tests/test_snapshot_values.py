"""Every type on every server: what the snapshot makes of a SELECT is what the binlog path makes of the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pymysql.connections import Connection

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay._native import Columns
from relay.binlog.connect import Account, connect
from relay.binlog.facts import ServerFacts, facts
from relay.binlog.hidden import completed
from relay.lake.documents import Table, TableVersion
from relay.lake.snapshot.plan import plan
from relay.lake.snapshot.session import Session, columns
from relay.lake.types import evolve, fields_of
from tests.rowsource import binlog_end, from_event, from_schema, packed, rows_events
from tests.types import tables
from tests.types.case import TableCase, chunks
from tests.value_cases import CASES, MORE_CASES, Case

A_TABLE = 25  # columns
LEADING = 3  # that Columns has before those of the table


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
def test_values_are_those_of_the_binlog(server: DatabaseServer, db: str) -> None:
    cases = [*many(server), *(case for case in tables.CASES if server.name in case.on and not case.settings)]
    with closing(server.connect(database=db)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION', max_error_count = 0")
        for number, case in enumerate(cases):
            cursor.execute(f"CREATE TABLE t{number} ({case.columns}) {case.options}")
        start = binlog_end(server)
        for number, case in enumerate(cases):
            for insert in case.inserts:
                cursor.execute(f"INSERT INTO t{number} {insert}")
    logged: dict[str, Columns] = {}
    versions: dict[str, TableVersion] = {}
    for event in rows_events(server, start):
        name = event.table.table
        if event.table.schema == db:
            if name not in logged:
                definition = completed(from_event(server, event.table), from_schema(server, event.table))
                logged[name] = Columns(packed(definition))
                versions[name] = evolve([], Table(db, name), *fields_of(definition))
            logged[name].add(event.kind, event.body)
    with closing(connect(account(server))) as connection, Session(account(server), facts(connection)) as session:
        read = partial(selected, connection, session, facts(connection))
        wrong = [
            f"{case.family}, {case.name}: {line}"
            for case, name in zip(cases, logged, strict=True)
            for line in differences(read(versions[name]), pa.record_batch(logged[name]))
        ]
    assert not wrong, "\n".join(wrong)


def selected(
    connection: Connection[Any], session: Session, server: ServerFacts, version: TableVersion
) -> pa.RecordBatch:
    how = plan(connection, server, version.table, [version], lambda _: True)
    assert how.version is version
    order = ", ".join(f"`{part.column.name}`" for part in how.key)
    expressions = ", ".join(select.expression for select in how.selects)
    rows = session.execute(f"SELECT {expressions} FROM {how.source}" + (f" ORDER BY {order}" if order else ""))
    return pa.record_batch(
        how.arrays(columns(rows, len(how.selects))), names=[field.name for field in how.version.fields]
    )


def differences(ours: pa.RecordBatch, logged: pa.RecordBatch) -> Iterator[str]:
    for name, column in zip(logged.schema.names[LEADING:], logged.columns[LEADING:], strict=True):
        if name not in ours.schema.names:
            yield f"no column {name}"
            continue
        got = ours.column(name)
        if got.type == pa.bool_():  # BIT(1)
            column = pc.not_equal(column, b"\0")
        if f"{name}__srid" in ours.schema.names:
            got = pa.array([
                None if value is None else number.to_bytes(4, "little") + value
                for number, value in zip(ours.column(f"{name}__srid").to_pylist(), got.to_pylist(), strict=True)
            ], pa.binary())  # fmt: skip
        if got.type != column.type:
            yield f"{name}: {got.type} instead of {column.type}"
            continue
        if got != column and not got.equals(column):
            for one, two in zip(got.to_pylist(), column.to_pylist(), strict=True):
                if repr(one) != repr(two):
                    yield f"{name} {got.type}: {one!r:.100} instead of {two!r:.100}"
