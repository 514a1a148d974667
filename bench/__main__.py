"""`make bench`: all parts in one run on one host, each figure compared with a peer or a bar.

A run of the same commit, without changes and on a machine that has not been started again, continues a whole run that
ended early: it measures the parts that are missing. `python -m bench PART...` runs single parts and leaves the record
unchanged. SCALE=n makes the work n times as long, RELAY_BENCH_ROUNDS=n takes medians of n interleaved rounds (3).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bench import chart, readers, record
from bench.kept import Kept
from bench.machine import machine
from bench.report import Report
from bench.run import Run
from bench.shapes import FULL, Shapes
from examples.dbserver import DatabaseServer


@dataclass(frozen=True)
class Part:
    """A module of this package with `measure(run)`. `whole`: whether it belongs to the record."""

    title: str
    whole: bool = True


PARTS = {
    "decoding": Part("Reading a binlog"),
    "objects": Part("A binlog file as Python objects"),
    "debezium": Part("Beside Debezium"),
    "lake": Part("To sealed Parquet"),
    "linelog": Part("The log, from a journal to flushed lines"),
    "classic": Part("Classic polls, one row a reply"),
    "delivery": Part("PollMany"),
    "latency": Part("Commit to delivery"),
    "before": Part("Commit to delivery, beside an earlier commit"),
    "first_row": Part("The first row of a table"),
    "fanout": Part("Fan-out"),
    "audience": Part("Many clients"),
    "memory": Part("Memory of a fresh relay"),
    "capacity": Part("Memory of clients, and idling"),
    "start": Part("The start"),
    "source": Part("What the source loses"),
    "scrape": Part("What looking on costs"),
    "page": Part("The page"),
    "usage": Part("Table usage"),
    "cdc": Part("CDC port, rows to sockets"),
    "cdcstreams": Part("CDC port, thousands of streams"),
    "growth": Part("How cost grows", whole=False),
}


def main(names: Sequence[str]) -> None:
    """Runs parts, by default all of the record, and prints them. Writes the record after a run of all of them."""
    if unknown := [name for name in names if name not in PARTS]:
        sys.exit(f"bench: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    scale = float(os.environ.get("SCALE") or 1)
    rounds = int(os.environ.get("RELAY_BENCH_ROUNDS") or 3)
    report = Report()
    report.step("compiling bench/*.c, bench/*.cpp")
    readers.build()
    with (
        DatabaseServer("mysql97", options=FULL) as server,
        Shapes(scale, report.step) as shapes,
        tempfile.TemporaryDirectory(prefix="relay-bench-") as scratch,
    ):
        server.execute("CREATE DATABASE bench")
        facts = machine(server)
        how = f"SCALE={scale:g}, {rounds} rounds"
        kept = Kept(readers.BUILT / "parts", f"{facts} {how}")
        for name in names or [name for name, part in PARTS.items() if part.whole]:
            report.part(PARTS[name].title)
            if not names and kept.restore(name, report):
                continue
            folder = Path(scratch) / name
            folder.mkdir()
            measure: Callable[[Run], None] = import_module(f"bench.{name}").measure
            measure(Run(report, server, shapes, folder, scale, rounds))
            if not names:
                kept.keep(name, report)
        if not names:
            if kept.restored:
                how += f", continued after an earlier run, which measured {len(kept.restored)} parts and ended early"
            record.write(report, facts, how)
            chart.draw(report.results)
            kept.clear()
    report.finish()


if __name__ == "__main__":
    main(sys.argv[1:])
