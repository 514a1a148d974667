"""How cost grows: with clients, tables, columns and the journal in instructions, with cores in replies a second.

No bars: `python -m bench growth`, outside the record. It also draws bench/growth.svg. bench/growth.cpp has the work.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from bench import chart, start
from bench.clients import Client, put_load, wait_queued
from bench.instructions import build, count_command
from bench.run import Run, started
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from relay._native import JournalWriter
from relay.protocol.classic import Command
from tests.support import ROOT
from tests.support.relay_process import SECRET, write_conf

PLOT: Final = Path(__file__).parent / "growth.svg"
CORES = ((1, 1), (2, 1), (2, 2), (2, 4))  # cores, servers
POLLERS, POLL_SECONDS = 4, 1.5


@dataclass(frozen=True)
class Dimension:
    """What grows. `unit` is what the instructions are counted for."""

    title: str
    sizes: Sequence[int]
    stages: Sequence[str]
    unit: str


STAGES: Final = {
    "ingest": "reader: stream to journal",
    "decide": "broker: journal to queues",
    "poll": "server: queue to reply",
    "usage": "monitor: table usage",
}
DIMENSIONS: Final = {
    "clients": Dimension("clients of one table", (1, 2, 5, 10, 50, 200), ("decide", "poll"), "row and client"),
    "filters": Dimension("filters on each of 5,000 tables", (1, 2, 4), ("decide", "poll"), "row"),
    "tables": Dimension("tables that take turns", (10, 100, 1000, 10_000, 50_000), tuple(STAGES), "row"),
    "columns": Dimension("columns", (1, 5, 20, 100, 1000), ("ingest", "poll"), "value"),
    "journal": Dimension("GiB of journal", (1, 10, 100), ("decide", "poll"), "row"),
}


def measure(run: Run) -> None:
    """Count instructions, draw them, and measure polls on one core and on two."""
    program = build(ROOT, "growth")
    counts: dict[str, dict[str, list[float]]] = {}
    for name, dimension in DIMENSIONS.items():
        counts[name] = {stage: [] for stage in dimension.stages}
        with tempfile.TemporaryDirectory(prefix="relay-growth-", dir="/dev/shm") as scratch:
            for size in dimension.sizes:
                for stage in dimension.stages:
                    run.report.step(f"{size} {dimension.title}, {STAGES[stage]}")
                    folder = (
                        _long_journal(Path(scratch), size) if name == "journal" else Path(scratch) / f"{size}-{stage}"
                    )
                    folder.mkdir(exist_ok=True)
                    counts[name][stage].append(count_command(program, name, stage, str(size), str(folder)))
        for stage, found in counts[name].items():
            for size, count in zip(dimension.sizes, found, strict=True):
                unit = f"instructions a {dimension.unit}"
                run.report.figure(f"{size:,} {dimension.title}, {STAGES[stage]}", [count], unit)
    draw(counts)
    cores(run)


def draw(counts: dict[str, dict[str, list[float]]]) -> None:
    """Draw a plot for each dimension, with a line for each stage."""
    chart.use_one_style()
    figure = Figure(figsize=(10, 9.6), layout="constrained")
    plots = figure.subplots(3, 2).flat
    for axes in plots[len(DIMENSIONS) :]:
        axes.axis("off")
    for axes, (name, dimension) in zip(plots, DIMENSIONS.items(), strict=False):
        for stage, found in counts[name].items():
            colour = f"C{list(STAGES).index(stage)}"
            axes.plot(dimension.sizes, found, marker="o", markersize=4, color=colour, label=STAGES[stage])
        axes.set_xscale("log")
        axes.set_xticks(dimension.sizes, [f"{size:,}" for size in dimension.sizes], fontsize=8)
        axes.minorticks_off()
        axes.set_ylim(0, 1.4 * max(max(found) for found in counts[name].values()))  # the legend above the lines
        axes.tick_params(labelsize=8)
        axes.set_xlabel(dimension.title, fontsize=9)
        axes.set_ylabel(f"instructions a {dimension.unit}", fontsize=9)
        axes.legend(fontsize=8, frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(PLOT, metadata={"Date": None})


def _long_journal(folder: Path, gibibytes: int) -> Path:
    """The journal of a folder, at least so long. Most of it are holes."""
    journal = folder / "journal"
    if not journal.exists():
        JournalWriter(journal, start.SEGMENT_BYTES).source(4, "binlog.000001", "", "made up")
    start.append_holes(journal, gibibytes << 30)
    return journal


def cores(run: Run) -> None:
    """Classic polls of four clients, with one core or two for relay and clients."""
    create(run.server, "grown", NARROW)
    allowed = os.sched_getaffinity(0)
    rates: dict[tuple[int, int], list[float]] = {each: [] for each in CORES}
    costs: dict[tuple[int, int], list[float]] = {each: [] for each in CORES}
    try:
        for number in range(run.rounds):
            for count, workers in CORES:
                if count > len(allowed):
                    continue
                run.report.step(f"{count} cores, {workers} servers, round {number + 1} of {run.rounds}")
                os.sched_setaffinity(0, sorted(allowed)[:count])
                with _folder(run.scratch / "cores") as folder:
                    rate, cost = _polls(run, folder, workers)
                rates[count, workers].append(rate)
                costs[count, workers].append(cost)
    finally:
        os.sched_setaffinity(0, allowed)
    for (count, workers), samples in rates.items():
        if samples:
            run.report.figure(f"{count} cores, {workers} servers, {POLLERS} clients", samples, "replies/s")
            run.report.figure("  CPU of the relay", costs[count, workers], "us a reply")


def _polls(run: Run, folder: Path, workers: int) -> tuple[float, float]:
    """Replies per second, and microseconds of the whole relay per reply."""
    settings = {"Relay.Workers": workers, "Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    rows = run.rows(60_000)
    with started(write_conf(folder, run.server, settings)) as relay:
        names = [f"grown-{number}" for number in range(POLLERS)]
        polling = [Client(relay.port, SECRET, name, "grown") for name in names]
        run.server.execute("TRUNCATE bench.grown")
        insert(run.server, "grown", NARROW_VALUES, 1, rows)
        wait_queued(relay, names, rows)
        used = relay.cpu_seconds()
        requests = [client.request(Command.POLL) for client in polling]
        load = put_load("poll", POLL_SECONDS, [client.socket for client in polling], requests)
        cost = (relay.cpu_seconds() - used) / load.replies
        for client in polling:
            client.close()
    return load.replies / load.seconds, cost * 1e6


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """A new folder, removed after the block, because journals are large."""
    path.mkdir()
    yield path
    shutil.rmtree(path)
