"""Reading a binlog over TCP: into the journal, to reply payloads, and to Arrow, compared with other readers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from bench import everytype, readers
from bench.run import MEMORY, Run
from bench.shapes import Shape, bulk_shape
from examples.dbserver import PASSWORD, USER
from relay.lake.batches import read_batches

LIBRARY, PRINTER, FLOOR = "mysql-replication", "mysqlbinlog -v", "a C program that only reads the socket"
LIBRARY_BAR, PRINTER_BAR = 100.0, 5.0
INGEST_BARS = {"single": 0.9, "narrow": 0.55, "wide": 0.45}
LIBRARY_ROWS = {"single": 12_000, "narrow": 100_000, "wide": 30_000, "every_type": 8_000}  # its cost per row is fixed
TURNS = 3  # of the fast readers, for each of a slow one


class Journaled(NamedTuple):
    """Seconds of each step, from the socket on."""

    ingest: float
    payloads: float
    arrow: float


def measure(run: Run) -> None:
    """Reads every shape, and then a table with a column of every type."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="relay-bench-") as memory:
        for shape in run.shapes:
            compare(run, Path(memory), shape, shape)
        compare(run, Path(memory), *every_type(run))


def every_type(run: Run) -> tuple[Shape, Shape]:
    """A table with a column of every type; before it, the same without VECTOR for mysql-replication."""
    run.report.step("every type: writing it")
    known = bulk_shape(
        run.server, "known_types", *everytype.table(everytype.COLUMNS), run.rows(LIBRARY_ROWS["every_type"])
    )
    columns = everytype.table(everytype.COLUMNS | everytype.VECTOR)
    return bulk_shape(run.server, "every_type", *columns, run.rows(60_000)), known


def compare(run: Run, memory: Path, shape: Shape, known: Shape) -> None:
    """Reads a shape in interleaved rounds; `known` is the part that mysql-replication reads."""
    report, name = run.report, shape.name.replace("_", " ")
    few = min(known.rows, run.rows(LIBRARY_ROWS[shape.name]))
    taken: dict[str, list[float]] = defaultdict(list)
    report.step(f"{name}: {shape.rows} rows, warming up")
    readers.floor(shape)
    for folder in memory, run.scratch:
        journaled(shape, folder)
    for number in range(run.rounds):
        report.step(f"{name}: {shape.rows} rows, round {number + 1} of {run.rounds}")
        slow = {LIBRARY: few / readers.library(known, few), PRINTER: shape.rows / printed(shape)}
        for _ in range(TURNS):
            for peer, rate in slow.items():
                taken[peer].append(rate)
            taken[FLOOR].append(shape.rows / readers.floor(shape))
            took = journaled(shape, memory)
            taken["tmpfs"].append(shape.rows / took.ingest)
            taken["payloads"].append(shape.rows / (took.ingest + took.payloads))
            taken["decode"].append(shape.rows / took.payloads)
            taken["arrow"].append(shape.rows / (took.ingest + took.arrow))
            taken["columns"].append(shape.rows / took.arrow)
            taken["disk"].append(shape.rows / journaled(shape, run.scratch).ingest)
    report_shape(run, name, taken)


def report_shape(run: Run, name: str, taken: dict[str, list[float]]) -> None:
    """Reports the figures of a shape, in rows per second."""

    def ratio(what: str, key: str, peer: str, bar: float | None = None) -> None:
        run.report.ratio(f"{name}: {what}", taken[key], taken[peer], "rows/s", of=peer, at_least=bar)

    ratio("socket to reply payloads", "payloads", LIBRARY, LIBRARY_BAR)
    # With every type the stages are compared as they run in a relay, at the same time: bench/delivery.py.
    ratio("socket to reply payloads", "payloads", PRINTER, None if name == "every type" else PRINTER_BAR)
    ratio("journal to reply payloads", "decode", LIBRARY)
    ratio("socket to Arrow", "arrow", LIBRARY, LIBRARY_BAR)
    ratio("journal to Arrow", "columns", LIBRARY)
    for where in "tmpfs", "disk":
        ratio(f"socket to journal on {where}", where, FLOOR, INGEST_BARS.get(name))


def journaled(shape: Shape, folder: Path) -> Journaled:
    """Reads a shape from the socket into a journal in `folder`, and from there to payloads and to Arrow."""
    journal = folder / "journal"
    journal.mkdir()
    try:
        writer, ingested = readers.ingest(shape, journal)
        payloads = readers.payloads(shape, journal, writer.committed())
        writer.flush()
        # The second time counts: an exporter keeps its memory. Some hosts take back free memory every two seconds,
        # and the first access to a huge page costs twenty times as much then.
        for _ in range(2):
            begin = time.perf_counter()
            rows = sum(batch.rows.num_rows for batch in read_batches(folder))
            arrow = time.perf_counter() - begin
            assert rows == shape.rows, f"{shape.name}: {rows} of {shape.rows} rows came to Arrow"
        return Journaled(ingested, payloads, arrow)
    finally:
        shutil.rmtree(journal)


def printed(shape: Shape) -> float:
    """Seconds of mysqlbinlog for a shape, also over TCP, with its text discarded."""
    server = shape.server
    command = [*server.packages.program("usr/bin/mysqlbinlog"), "--no-defaults", "-v", "--read-from-remote-server"]
    command += ["--host=127.0.0.1", f"--port={server.port}", f"--user={USER}", "--ssl-mode=DISABLED"]
    command += ["--get-server-public-key", shape.file]
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=os.environ | {"MYSQL_PWD": PASSWORD}, check=True)
    return time.perf_counter() - begin
