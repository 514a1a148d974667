"""Rows of a binlog file as Python objects, compared with mysql-event-stream, whose core is native too."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mysql_event_stream import CdcEngine

from bench.run import Run
from bench.shapes import NARROW, NARROW_VALUES, bulk_shape
from relay.binlog import BinlogFile, events
from tests.binlog.test_binlog_files import folder_of

PEER = "mysql-event-stream"
# Its types are int, float, str and bytes: of the first table it makes the same objects. DECIMAL and DATETIME of the
# second are text for it.
TABLES = {
    "int, float, str and bytes": (
        ("id BIGINT PRIMARY KEY", "customer INT", "amount DOUBLE", "code VARBINARY(16)", "note VARCHAR(32)"),
        "n, n % 9973, n % 100000 / 100, CONCAT('code', n % 1000), CONCAT('note ', n)",
        8.0,
    ),
    "also Decimal and datetime": (NARROW, NARROW_VALUES, 5.0),
}
FED_BYTES = 1 << 16


def measure(run: Run) -> None:
    """Reads a file of narrow rows in interleaved rounds."""
    for title, (columns, values, bar) in TABLES.items():
        run.report.step(f"{title}: writing the file")
        shape = bulk_shape(run.server, "objects", columns, values, run.rows(500_000))
        run.server.execute("FLUSH BINARY LOGS")
        path = Path(shutil.copy(folder_of(run.server) / shape.file, run.scratch))
        taken: dict[str, list[float]] = defaultdict(list)
        for number in range(run.rounds):
            run.report.step(f"{title}: {shape.rows} rows, round {number + 1} of {run.rounds}")
            for name, rows in ((PEER, fed(path)), ("text", read(path, "text")), ("objects", read(path, "python"))):
                taken[name].append(shape.rows / seconds(rows, shape.rows))
        run.report.ratio(f"file to objects, {title}", taken["objects"], taken[PEER], "rows/s", of=PEER, at_least=bar)
        run.report.ratio("the same to text", taken["text"], taken[PEER], "rows/s", of=PEER)


def seconds(rows: Iterable[Any], count: int) -> float:
    """Seconds until all rows have come."""
    begin = time.perf_counter()
    found = sum(1 for _ in rows)
    assert found == count, f"{found} of {count} rows"
    return time.perf_counter() - begin


def read(path: Path, values: Any) -> Iterable[Any]:
    """The rows by BinlogFile."""
    with BinlogFile(path, values=values) as log:
        for event in log:
            if isinstance(event, events.RowsEvent):
                yield from log.rows(event)


def fed(path: Path) -> Iterable[Any]:
    """The rows by the peer."""
    data = memoryview(path.read_bytes())[4:]
    with CdcEngine() as engine:
        while data:
            used = engine.feed(bytes(data[:FED_BYTES]))
            while (event := engine.next_event()) is not None:
                yield event
            data = data[used:]
