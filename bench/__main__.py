"""`make bench`: everything from one run on one machine, as ratios, with the bar that each has to clear.

SCALE=n makes the three shapes n times as long, RELAY_BENCH_ROUNDS=n takes medians of n interleaved rounds (3).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench import cdc, cdcstreams, lake, linelog, live, readers, usage
from bench.report import Report
from bench.shapes import Shape, fill
from examples.dbserver import DatabaseServer

CONTESTANTS = ("floor", "library", "ingest", "decode")


def main() -> None:
    """Run everything and print it."""
    scale = float(os.environ.get("SCALE") or 1)
    rounds = int(os.environ.get("RELAY_BENCH_ROUNDS") or 3)
    report = Report()
    report.step("compiling bench/*.c, bench/*.cpp")
    readers.build()
    with (
        DatabaseServer("mysql97", options=("--binlog-row-metadata=FULL",)) as server,
        tempfile.TemporaryDirectory(prefix="relay-bench-") as scratch,
    ):
        report.step(f"writing the shapes to {server.kind.title}")
        # One at a time: each stands at the end of the binlog while it is read.
        compare_readers(report, server, fill(server, scale), rounds, Path(scratch))
        live.measure(report, server, Path(scratch), scale)
        usage.measure(report, Path(scratch), scale)
        cdc.measure(report, server, Path(scratch), scale)
        cdcstreams.measure(report, server, Path(scratch), scale)
    report.finish()


def compare_readers(
    report: Report, server: DatabaseServer, shapes: Iterable[Shape], rounds: int, scratch: Path
) -> None:
    """Rows a second of each reader on each shape."""
    report.heading("reading a binlog: rows/s, medians of interleaved rounds")
    for shape in shapes:
        taken: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
        # Not counted: a virtual machine's memory costs ten times as much when it is touched for the first time.
        report.step(f"{shape.name}: {shape.rows} rows, warming up")
        readers.floor(server, shape)
        readers.ours(server, shape, scratch)
        for number in range(rounds):
            report.step(f"{shape.name}: {shape.rows} rows, round {number + 1} of {rounds}")
            taken["floor"].append(readers.floor(server, shape))
            taken["library"].append(readers.library(server, shape))
            ingest, decode = readers.ours(server, shape, scratch)
            taken["ingest"].append(ingest)
            taken["decode"].append(decode)
        report.shape(shape, taken)
        if shape.name in lake.PEER_ROWS:
            lake.measure(report, server, shape, rounds, scratch)
        else:
            lake.by_history(report, server, shape, scratch)
        linelog.measure(report, server, shape, rounds, scratch)


if __name__ == "__main__":
    main()
