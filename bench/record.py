"""The record of a whole run as text: RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from bench.report import Report, Result, spread

FOLDER = Path(__file__).parent


def write(report: Report, machine: Mapping[str, str], how: str, path: Path = FOLDER / "RESULTS.md") -> None:
    """Replaces the record, which refers to the chart. `how`: scale and rounds in words."""
    barred = [result for result in report.results if result.verdict]
    lines = ["# What `make bench` measured", ""]
    lines += [
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}, {how}. A figure is the median of the rounds, with "
        "the lowest and the highest behind it; a ratio is to what ran in turn with it, round by round. "
        "[docs/internals/performance.md](../docs/internals/performance.md) says what the figures are made of.",
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
    path.write_text("\n".join(lines) + "\n")


def _row(result: Result) -> str:
    ratio = f"{spread(result.ratios)} x {result.of}" if result.ratios else ""
    return f"| {result.what} | {spread(result.values)} {result.unit} | {ratio} | {result.bar} | {result.verdict} |"


def _missed(barred: Sequence[Result]) -> list[Result]:
    return [result for result in barred if result.verdict == "missed"]
