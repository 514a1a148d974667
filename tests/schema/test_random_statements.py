"""Random statements, one after the other: the schema history and the server agree on the result."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymysql import MySQLError
from pymysql.cursors import Cursor

from examples.dbserver import KINDS, DatabaseServer
from tests.names.workload import SCHEMAS, Workload
from tests.support.chance import seeds
from tests.support.statement_replay import record, replay

pytestmark = pytest.mark.every_server

STATEMENTS = int(os.environ.get("RELAY_STATEMENTS", "200"))  # on each server
TABLES = 2  # in each schema
MARIADB = "it has two clauses about the column .*|it is not certain which unique index counts as the key"
UNKNOWN = {
    "mysql97": "MySQL gives a text that is changed and converted the size of the old column",
    "mariadb118": MARIADB,
    "mariadb1011": MARIADB,
}
"""What the history says that it does not know, beside which nothing may be unknown (docs/schema.md)."""


@pytest.mark.timeout(120 + STATEMENTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 17))
def test_random_statements_make_what_the_server_makes_of_them(
    kind: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)

    def statements(cursor: Cursor) -> Iterator[str]:
        def columns_of(table: str) -> list[str]:
            try:
                cursor.execute(f"SHOW COLUMNS FROM {table}")
            except MySQLError:
                return []
            return [str(row[0]) for row in cursor.fetchall()]

        yield "SET SESSION sql_mode = ''"
        for schema in SCHEMAS[1:]:
            yield f"CREATE DATABASE {schema}"
        workload = Workload(random.Random(seed), server.kind.mysql, columns_of, SCHEMAS[0], "`", TABLES)
        for _ in range(STATEMENTS):
            yield from workload.statements()

    recording = record(server, statements, SCHEMAS)
    assert len(recording.errors) < len(recording.steps) * 0.6, "most statements failed, and show nothing"
    findings = replay(server, recording, tmp_path)
    assert not findings.wrong, f"seed {seed}"
    for found in findings.unknown:
        assert re.fullmatch(UNKNOWN[kind], found.rpartition(": ")[2]), f"seed {seed}: {found}"
