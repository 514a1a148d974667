"""The record of a whole run: RESULTS.md, and all samples in history/, one file a commit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Final

from bench.report import Report, Result, si, spread

FOLDER = Path(__file__).parent
IN_SHORT: Final = (
    ("narrow: socket to reply payloads", "mysql-replication",
     "Rows of 5 columns go from the binlog to replies {ratio} times as fast as through mysql-replication."),
    ("narrow: socket to reply payloads", "mysqlbinlog -v", "That is {ratio} times the speed of `mysqlbinlog -v`."),
    ("every type: socket to reply payloads", "mysql-replication",
     "With a column of every type the relay is {ratio} times as fast as mysql-replication."),
    ("narrow: ingest and export, socket to Parquet", "",
     "Rows of 5 columns become Parquet {ratio} times as fast as with mysql-replication and pyarrow."),
    ("live binlog to a native consumer, narrow", "", "A client in C gets {value} such rows a second."),
    ("live binlog to Python objects, narrow", "", "A client in Python gets {value} of them."),
    ("200 commits/s, polling client, p50", "",
     "At 200 commits/s a polling client has half of the rows within {value} ms after their commit."),
    ("200 commits/s, polling client, p99", "", "It has 99 % of them within {value} ms."),
    ("10 clients with the same filter, in bulk, CPU of all processes a row", "",
     "Ten clients with the same filter cost {ratio} times the CPU time of one."),
    ("memory of a fresh relay (PSS), two servers", "", "A fresh relay without features takes {value}B of memory."),
)  # fmt: skip
"""What users want to know first: a figure, its peer where it has several, and a sentence."""


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
        *_in_short(report.results),
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
    _keep(report, machine, how, path.parent / "history")


def _in_short(results: Sequence[Result]) -> list[str]:
    lines = []
    for what, of, sentence in IN_SHORT:
        found = [each for each in results if each.what == what and (not of or each.of == of)]
        if not found:
            lines.append(f"- This run has no figure of this name: {what}.")
        for each in found[:1]:
            value, ratio = si(median(each.values)), si(median(each.ratios)) if each.ratios else ""
            lines.append(f"- {sentence.format(value=value, ratio=ratio)}")
    return lines


def _keep(report: Report, machine: Mapping[str, str], how: str, folder: Path) -> None:
    """Keeps every sample under the day and the commit."""
    commit = re.search(r"commit (\S+)", machine.get("relay", ""))
    folder.mkdir(exist_ok=True)
    kept = {"how": how, "machine": dict(machine), "results": [asdict(each) for each in report.results]}
    name = f"{datetime.now(UTC):%Y-%m-%d}-{commit[1] if commit else 'no-commit'}.json"
    (folder / name).write_text(json.dumps(kept, indent=1) + "\n")


def _row(result: Result) -> str:
    ratio = f"{spread(result.ratios)} x {result.of}" if result.ratios else ""
    return f"| {result.what} | {spread(result.values)} {result.unit} | {ratio} | {result.bar} | {result.verdict} |"


def _missed(barred: Sequence[Result]) -> list[Result]:
    return [result for result in barred if result.verdict == "missed"]
