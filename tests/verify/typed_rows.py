"""Rows of all types on a source, and `relay verify` called as a function."""

from __future__ import annotations

import itertools
import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from examples.dbserver import DatabaseServer
from relay import cli
from relay._native import GtidSet
from tests.support import value_cases as cases
from tests.support.relay_process import RelayProcess
from tests.support.source_rows import binlog_end
from tests.support.waiting import until
from tests.types.case import chunks


class Mark(NamedTuple):
    """An end of the binlog."""

    place: str
    gtid_set: str


class Outcome(NamedTuple):
    """What a command line ended with and printed."""

    code: int
    output: str
    errors: str

    @property
    def report(self) -> dict[str, Any]:
        """The document of --json."""
        assert self.output, f"exit code {self.code}: {self.errors}"
        document: dict[str, Any] = json.loads(self.output)
        return document


def verify(conf: Path, *arguments: str) -> Outcome:
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = cli.run(["verify", "-c", str(conf), *arguments])
    return Outcome(code, output.getvalue(), errors.getvalue())


def mark(server: DatabaseServer) -> Mark:
    file, position = binlog_end(server)
    [(gtid_set,)] = server.execute(f"SELECT {'@@GLOBAL.gtid_executed' if server.kind.mysql else '@@gtid_binlog_pos'}")
    return Mark(f"{file}:{position}", "".join(gtid_set.split()))


def caught_up(server: DatabaseServer, relay: RelayProcess) -> None:
    """Wait until the relay has journaled all transactions that the server has written so far."""
    written = GtidSet(mark(server).gtid_set)
    until(
        lambda: written.issubset(GtidSet(relay.stat()["source"]["gtid_set"])),
        30,
        lambda: f"the relay is at {relay.stat()['source']}, the source at {mark(server)}",
    )


TYPES: list[tuple[str, list[str]]] = [
    ("TINYINT UNSIGNED", ["0", "200"]), ("BIGINT", ["-9223372036854775808", "7"]), ("MEDIUMINT", ["-8388608", "1"]),
    ("BIGINT UNSIGNED", ["18446744073709551615"]), ("FLOAT", cases.FLOATS), ("DOUBLE", cases.DOUBLES),
    ("BIT(33)", ["5"]), ("DECIMAL(65,30)", cases.LONG_DECIMALS), ("DECIMAL(10,2)", cases.DECIMALS),
    ("YEAR", ["0", "2024"]), ("DATE", cases.DATES),
    *((f"DATETIME({n})", cases.DATETIMES) for n in (0, 3, 6)), *((f"TIME({n})", cases.TIMES) for n in (0, 3, 6)),
    *((f"TIMESTAMP({n}) NULL", cases.TIMESTAMPS) for n in (0, 3, 6)),
    ("VARCHAR(255)", cases.WIDE_TEXTS), ("CHAR(64)", cases.TEXTS), ("TEXT", cases.TEXTS),
    ("VARCHAR(255) CHARACTER SET latin1", cases.LATIN), ("VARCHAR(50) CHARACTER SET utf16", ["'aé€😀'"]),
    ("BINARY(5)", cases.BYTES), ("VARBINARY(20)", cases.BYTES), ("BLOB", cases.BYTES),
    ("ENUM('é','ß') CHARACTER SET latin1", ["1", "2"]), ("ENUM('a','it''s','')", ["1", "2", "3", "0"]),
    ("SET('a','b','c')", ["0", "5", "7"]), ("SET('é','ß') CHARACTER SET latin1", ["3"]),
    ("POINT", ["ST_GeomFromText('POINT(1 2)')"]),
]  # fmt: skip
_OWN = [("UUID", cases.UUIDS), ("INET6", cases.INET6), ("JSON", [cases.DOCUMENT])]
OF_SERVER: dict[str, list[tuple[str, list[str]]]] = {
    "mysql97": [("JSON", cases.JSONS), ("VECTOR(3)", ["STRING_TO_VECTOR('[1,2.5,-3]')"])],
    "mariadb118": [*_OWN, ("TIMESTAMP NULL", cases.LATE)],
    "mariadb1011": _OWN,
}


def fill(server: DatabaseServer, db: str, prefix: str) -> None:
    """All types, twelve columns a table; those that only one server has, an event for each value."""
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        groups = [*chunks(TYPES, 12), *([column] for column in OF_SERVER[server.name])]
        for number, group in enumerate(groups):
            columns = ", ".join(f"v{n} {sql}" for n, (sql, _) in enumerate(group))
            cursor.execute(f"CREATE TABLE {prefix}{number} (id INT PRIMARY KEY AUTO_INCREMENT, {columns}, w INT)")
            names = ", ".join(f"v{n}" for n in range(len(group)))
            rows = [
                f"({', '.join(row)}, -7)"
                for row in itertools.zip_longest(*(["NULL", *values] for _, values in group), fillvalue="NULL")
            ]
            for part in rows if len(group) == 1 else [", ".join(rows)]:
                cursor.execute(f"INSERT INTO {prefix}{number} ({names}, w) VALUES {part}")
        cursor.execute(f"UPDATE {prefix}0 SET w = id")
        cursor.execute(f"DELETE FROM {prefix}1")
