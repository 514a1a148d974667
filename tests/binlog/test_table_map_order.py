"""Metadata that a table map lists for some columns is assigned to those columns, whatever columns are between."""

from __future__ import annotations

import random

import pytest

from examples.dbserver import DatabaseServer
from relay.binlog.events.column_types import Type
from relay.journal.frames import Column
from tests.support import source_rows

pytestmark = pytest.mark.every_server

TYPES = [
    "TINYINT", "SMALLINT UNSIGNED", "INT", "BIGINT UNSIGNED", "DECIMAL(9,2)", "DECIMAL(9,2) UNSIGNED", "FLOAT",
    "DOUBLE UNSIGNED", "BIT(9)", "YEAR", "DATE", "TIME(3)", "DATETIME(3)", "TIMESTAMP(2) NULL", "JSON",
    "CHAR(5) CHARACTER SET latin1", "VARCHAR(5) CHARACTER SET cp1251", "VARCHAR(300) CHARACTER SET utf8mb4",
    "BINARY(5)", "VARBINARY(5)", "TINYTEXT CHARACTER SET latin1", "TEXT CHARACTER SET sjis", "LONGBLOB",
    "ENUM('a','b') CHARACTER SET latin1", "ENUM('é','ü') CHARACTER SET utf8mb4", "SET('c','d') CHARACTER SET cp1251",
    "POINT", "POLYGON", "GEOMETRY",
]  # fmt: skip
MYSQL = ["VECTOR(3)"]
MARIADB = ["VARCHAR(50) COMPRESSED CHARACTER SET latin1", "BLOB COMPRESSED", "UUID", "INET6"]
TABLES = 25


@pytest.mark.usefixtures("full_metadata")
def test_columns_in_any_order_are_told_as_the_schema_has_them(server: DatabaseServer, db: str) -> None:
    chance, start = random.Random(server.name), source_rows.binlog_end(server)
    types = TYPES + (MYSQL if server.kind.mysql else MARIADB)
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        for number in range(TABLES):
            chosen = chance.sample(types, chance.choice((3, 6, 12, len(types))))
            columns = ", ".join(f"c{place} {sql}" for place, sql in enumerate(chosen))
            cursor.execute(f"CREATE TABLE t{number} ({columns})")
            cursor.execute(f"INSERT INTO t{number} () VALUES ()")
    found = [event.table for event in source_rows.rows_events(server, start) if event.table.schema == db]
    assert len(found) == TABLES
    for table in found:
        told, said = source_rows.from_event(server, table), source_rows.from_schema(server, table)
        assert [facts(column) for column in told.columns] == [facts(column) for column in said.columns]
        shapes = [column.sql_type for column in told.columns if column.type == Type.GEOMETRY]
        assert shapes == [column.sql_type for column in said.columns if column.type == Type.GEOMETRY]


def facts(column: Column) -> tuple[object, ...]:
    """What both sources tell of a column; YEAR is unsigned by the one, and not by the other."""
    unsigned = column.unsigned and column.type != Type.YEAR
    return column.name, column.type, column.meta, unsigned, column.nullable, column.charset, column.labels
