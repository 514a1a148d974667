"""`make bench-lake`: what open tables cost an export: rows a second, and CPU time, with them and without.

A relay reads the binlog of a million inserts, exports them, and merges them into an open table; by turns with a relay
that only exports. SCALE=n makes the table n times as large.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.open_tables_live import rows_of
from bench.report import Report
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from tests.support.relay_process import RelayProcess, write_conf
from tests.support.waiting import until

ROWS = 1_000_000
ROUNDS = 5
ALONE = "of the export alone"
_PAUSE = 0.02


def main() -> None:
    """Measure and print everything."""
    rows = int(ROWS * float(os.environ.get("SCALE") or 1))
    report = Report()
    report.part(f"open tables: the export of {rows:,} narrow rows with them, and without")
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    delays: list[float] = []
    with DatabaseServer("mysql97", options=("--binlog-row-metadata=FULL",)) as server:
        server.execute("CREATE DATABASE bench")
        create(server, "steady", NARROW)
        insert(server, "steady", NARROW_VALUES, 1, rows)
        for number in range(ROUNDS):
            for merged in (False, True):
                report.step(f"round {number + 1} of {ROUNDS}, {'with' if merged else 'without'} open tables")
                exported, ended, cpu = run(server, rows, merged=merged)
                rates[merged].append(rows / exported)
                costs[merged].append(cpu / rows * 1e6)
                if merged:
                    delays.append(ended - exported)
    report.ratio("export", rates[True], rates[False], "rows/s", of=ALONE)
    report.ratio("CPU of all processes, until the table has the rows", costs[True], costs[False], "us/row", of=ALONE)
    report.figure("from the end of the export to the open table", delays, "s")
    report.finish()


def run(server: DatabaseServer, rows: int, *, merged: bool) -> tuple[float, float, float]:
    """Return the seconds until the lake, and until the open table, has all rows, and the CPU seconds until then."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        settings: dict[str, object] = {
            "Source.StartPosition": "oldest", "Lake.Path": Path(folder) / "lake", "Lake.RollSeconds": 2,
        }  # fmt: skip
        if merged:
            settings |= {"Lake.OpenTables": "delta", "Lake.MergeSeconds": 2}
        relay = RelayProcess(write_conf(Path(folder), server, settings))
        try:
            begin = time.perf_counter()
            relay.start()
            until(lambda: relay.stat()["lake"]["export"]["rows"] == rows, 300, pause=_PAUSE)
            exported = time.perf_counter() - begin
            if merged:
                until(lambda: rows_of(relay) == rows, 300, pause=_PAUSE)
            return exported, time.perf_counter() - begin, relay.cpu_seconds()
        finally:
            relay.end()


if __name__ == "__main__":
    main()
