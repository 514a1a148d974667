"""A table's first row: how much later it comes than another row, where the database is older than the binlog."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from bench.clients import Client
from bench.run import Run, started
from examples.dbserver import KINDS, DatabaseServer
from relay.protocol.classic import Command, Result
from tests.support.relay_process import SECRET, write_conf

TABLES = 300
COLUMNS = "id INT PRIMARY KEY, a INT, b VARCHAR(20)"
BARRED = 50  # percentile
LATER_MS = 1.0  # that a first row may come later than another
PAUSE = 0.02  # seconds after which the relay has the definition of a new table
_numbers = count()  # of tables and rows


@dataclass
class _Delays:
    """Milliseconds from the commit's return to the row at a polling client: first rows, and rows of a known table."""

    first: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)


def measure(run: Run) -> None:
    """New tables on each server, with its default row metadata: rows right behind CREATE TABLE, and after a pause."""
    for kind in KINDS:
        with DatabaseServer(kind) as server:
            server.execute("CREATE DATABASE bench", "FLUSH BINARY LOGS", "CREATE DATABASE IF NOT EXISTS bench")
            folder = run.scratch / kind
            folder.mkdir()
            with (
                started(write_conf(folder, server, {"Server.SourceTLS": "off"})) as relay,
                closing(Client(relay.port, SECRET, "first", "*")) as client,
                closing(server.connect(autocommit=True)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(f"CREATE TABLE bench.known ({COLUMNS})")
                _delay(cursor, client, "known")
                for pause, when in ((0.0, "right behind CREATE TABLE"), (PAUSE, "later")):
                    run.report.step(f"{kind}: {run.rows(TABLES)} new tables, rows {when}")
                    delays = _Delays()
                    for _ in range(run.rows(TABLES)):
                        delays.first.append(_delay(cursor, client, _create(cursor, pause)))
                        _create(cursor, pause)
                        delays.other.append(_delay(cursor, client, "known"))
                    _report(run, f"{kind}, rows {when}", delays)


def _create(cursor: Any, pause: float) -> str:
    """Create a table, and return its name after the pause."""
    table = f"t{next(_numbers)}"
    cursor.execute(f"CREATE TABLE bench.{table} ({COLUMNS})")
    time.sleep(pause)
    return table


def _delay(cursor: Any, client: Client, table: str) -> float:
    poll = client.request(Command.POLL)
    cursor.execute(f"INSERT INTO bench.{table} VALUES ({next(_numbers)}, 1, 'b')")
    committed = time.perf_counter()
    while client.exchange(poll).result == Result.EMPTY:
        pass
    return 1000 * (time.perf_counter() - committed)


def _report(run: Run, what: str, delays: _Delays) -> None:
    for percent in (50, 90, 99):
        first, other = (sorted(each)[len(each) * percent // 100] for each in (delays.first, delays.other))
        run.report.note(f"{what}: p{percent} of a first row {first:.3f} ms, of another {other:.3f} ms")
        if percent == BARRED:
            run.report.figure(f"{what}: a first row comes later by", [first - other], "ms", at_most=LATER_MS)
