"""What a whole run leaves behind: RESULTS.md, and a chart of the bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.report import Report, Result, spread

FOLDER = Path(__file__).parent
_MET, _MISSED = "#2a7f62", "#c0492f"
_WIDEST = 30.0  # a bar cleared by more than this is drawn as this
_ROW_INCHES = 0.26


def write(report: Report, machine: Mapping[str, str], how: str, folder: Path = FOLDER) -> None:
    """Replace RESULTS.md and results.svg in the folder; `how`: scale and rounds in words."""
    barred = [result for result in report.results if result.verdict]
    lines = ["# What `make bench` measured", ""]
    lines += [
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}, {how}. A figure is the median of the rounds, with "
        "the lowest and the highest behind it; a ratio is to what ran in turn with it, round by round. "
        "[docs/performance.md](../docs/performance.md) says what the figures are made of.",
        "",
        "| machine | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in machine.items()),
        "",
        "![How far each bar is cleared](results.svg)",
        "",
    ]
    for part, results in groupby(report.results, lambda result: result.part):
        lines += [f"## {part}", "", "| what | measured | ratio | bar | |", "|---|---|---|---|---|"]
        lines += [_row(result) for result in results]
        lines += ["", *(line for note in report.notes.get(part, []) for line in (note, ""))]
    lines += [f"## Bars: {len(barred) - len(_missed(barred))} of {len(barred)} met", ""]
    lines += ["| bar | what | measured | |", "|---|---|---|---|"]
    lines += [f"| {each.bar} | {each.part}: {each.what} | {spread(each.judged)} | {each.verdict} |" for each in barred]
    (folder / "RESULTS.md").write_text("\n".join(lines) + "\n")
    _draw(barred, folder / "results.svg")


def _row(result: Result) -> str:
    ratio = f"{spread(result.ratios)} x {result.of}" if result.ratios else ""
    return f"| {result.what} | {spread(result.values)} {result.unit} | {ratio} | {result.bar} | {result.verdict} |"


def _missed(barred: Sequence[Result]) -> list[Result]:
    return [result for result in barred if result.verdict == "missed"]


def _draw(barred: Sequence[Result], path: Path) -> None:
    """One line a bar, in the order of the record: how often it is cleared, on a logarithmic scale."""
    # A fixed salt and no date: the same figures make the same file.
    mpl.rcParams.update({"svg.hashsalt": "relay", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure = Figure(figsize=(10, 1.2 + _ROW_INCHES * len(barred)), layout="constrained")
    axes = figure.subplots()
    margins = [min(each.margin or 0, _WIDEST) for each in barred]
    names = [f"{each.part}: {each.what}" for each in barred]
    colours = [_MET if each.verdict == "met" else _MISSED for each in barred]
    places = range(len(barred))
    axes.barh(places, [margin - 1 for margin in margins], left=1, color=colours, height=0.7)
    for place, each, margin in zip(places, barred, margins, strict=True):
        text = f" {spread(each.judged).split(' (')[0]} {'x' if each.ratios else each.unit} ({each.bar})"
        axes.text(max(margin, 1), place, text, va="center", fontsize=7)
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, *margins) * 0.9, _WIDEST * 6)
    axes.set_yticks(places, names, fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xticks([0.5, 1, 2, 5, 10, 30], ["half", "the bar", "2x", "5x", "10x", "30x or more"], fontsize=7)
    axes.minorticks_off()
    axes.set_title("How often each bar is cleared (red: missed)", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
