"""The delay of a row beside that of an earlier commit, by turns. It also draws bench/latency.svg."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from bench import chart, delays
from bench.clients import Client
from bench.delays import Delays
from bench.delivery import stopped
from bench.run import Run, started
from examples.dbserver import DatabaseServer
from tests.support import ROOT
from tests.support.binlogs import place
from tests.support.relay_process import RELAY, SECRET, RelayProcess, write_conf
from tests.support.waiting import until

BEFORE: Final = "5d54f3e"
"""The commit before the work on latency."""
RATES: Final = {200: 10_000, 2000: 10_000}  # commits a second, and how many are timed
BARRED: Final = 2000  # the rate whose CPU time a row has a bar
PLOT: Final = Path(__file__).parent / "latency.svg"
POINTS: Final = 200  # over time, of a plot; each is the longest delay of its span
LEAST_MS: Final = 0.01  # that a plot shows; a row may come before its commit returns


@dataclass
class _Side:
    """A relay with a polling client on a table of its own, and by rate: delays, microseconds of CPU a row."""

    name: str
    relay: RelayProcess
    client: Client
    found: dict[int, list[Delays]] = field(default_factory=lambda: {rate: [] for rate in RATES})
    cost: dict[int, list[float]] = field(default_factory=lambda: {rate: [] for rate in RATES})


def measure(run: Run) -> None:
    """A polling client of this relay, and one of the relay before."""
    run.report.step(f"building {BEFORE}, the first time")
    with _side(run, "now", RELAY) as now, _side(run, BEFORE, (_build(),)) as before:
        for number in range(run.rounds):
            for rate, count in RATES.items():
                for side, other in ((now, before), (before, now)):
                    run.report.step(f"{rate} commits/s, {side.name}, round {number + 1} of {run.rounds}")
                    with stopped(other.relay):
                        _measure(run, side, rate, max(run.rows(count), 200))
                    until(partial(_has_read_all, other.relay, run.server))
    for rate in RATES:
        for side in (now, before):
            text = f"{rate} commits/s, polling client, {side.name}"
            run.report.note(f"{text}: {delays.joined(side.found[rate]).distribution()}")
        for percent in (50, 99):
            ours, theirs = ([each.percentile(percent) for each in side.found[rate]] for side in (now, before))
            run.report.ratio(f"{rate} commits/s, polling client, p{percent}", ours, theirs, "ms", of=BEFORE)
        bar = 1.3 if rate == BARRED else None
        what = f"{rate} commits/s, polling client, CPU of the relay"
        run.report.ratio(what, now.cost[rate], before.cost[rate], "us a row", of=BEFORE, at_most=bar)
    draw([now, before])


def draw(sides: Sequence[_Side], path: Path = PLOT) -> None:
    """The last round of each side: its delays over time and their distribution, one line of plots a rate."""
    chart.use_one_style()
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    for (over_time, distribution), rate in zip(figure.subplots(len(RATES), 2), RATES, strict=True):
        for side in sides:
            last = side.found[rate][-1]
            shown = [max(each, LEAST_MS) for each in last.values]
            span = max(1, len(shown) // POINTS)
            begins = range(0, len(shown), span)
            seconds, longest = [each / rate for each in begins], [max(shown[each : each + span]) for each in begins]
            over_time.plot(seconds, longest, linewidth=0.8, label=side.name)
            shares = [100 * (1 - 10 ** (-step / 20)) for step in range(1, 81)]  # up to 99.99 %
            distribution.plot(
                [100 - each for each in shares], [max(last.percentile(each), LEAST_MS) for each in shares]
            )
        over_time.set_title(f"{rate:,} commits/s: longest delay of each {span} rows", fontsize=9)
        over_time.set_xlabel("seconds", fontsize=8)
        over_time.legend(loc="upper right", fontsize=8, frameon=False)
        distribution.set_title(f"{rate:,} commits/s: distribution", fontsize=9)
        distribution.set_xscale("log")
        distribution.invert_xaxis()
        distribution.set_xticks([50, 10, 1, 0.1, 0.01], ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"])
        distribution.set_xlabel("of the rows within", fontsize=8)
        for axes in (over_time, distribution):
            axes.set_yscale("log")
            axes.set_ylim(bottom=LEAST_MS)
            axes.set_ylabel("ms from commit to row", fontsize=8)
            axes.tick_params(labelsize=8)
            axes.minorticks_off()
            for edge in ("top", "right"):
                axes.spines[edge].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def _has_read_all(relay: RelayProcess, server: DatabaseServer) -> bool:
    return bool(relay.stat()["source"]["position"] == place(server).position)


def _measure(run: Run, side: _Side, rate: int, count: int) -> None:
    used = side.relay.cpu_seconds()
    side.found[rate].append(delays.delivered(run.server, side.client, "poll", rate, count, f"delay_{side.name}"))
    side.cost[rate].append(1e6 * (side.relay.cpu_seconds() - used) / count)


@contextmanager
def _side(run: Run, name: str, command: Sequence[str]) -> Iterator[_Side]:
    table, folder = f"delay_{name}", run.scratch / name
    delays.create(run.server, table)
    folder.mkdir()
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    with (
        started(write_conf(folder, run.server, settings), command) as relay,
        closing(Client(relay.port, SECRET, table, table)) as client,
    ):
        yield _Side(name, relay, client)


def _build() -> str:
    """The command `relay` of that commit, in a folder below build/."""
    root = ROOT / "build" / "bench" / BEFORE
    command = root / ".venv" / "bin" / "relay"
    if not command.exists():
        if subprocess.run(["git", "cat-file", "-e", BEFORE], cwd=ROOT, capture_output=True, check=False).returncode:
            raise SystemExit(f"bench: this clone lacks the commit {BEFORE}: run `git fetch --unshallow`")
        root.mkdir(parents=True, exist_ok=True)
        files = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x"], cwd=root, input=files, check=True)
        subprocess.run(["make", "setup"], cwd=root, check=True, capture_output=True)
    return str(command)
