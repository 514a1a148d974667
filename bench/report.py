"""The benchmark's output: ratios, each beside its bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import median

from bench.shapes import Shape

LIBRARY_BAR = 50.0  # times mysql-replication, from socket to payloads
INGEST_BAR = 0.3  # of the C program that only reads


def si(value: float) -> str:
    """1234567 -> 1.23 M"""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


class Report:
    """Prints results as they come, and at the end what missed its bar."""

    def __init__(self) -> None:
        self._missed: list[str] = []

    def step(self, text: str) -> None:
        """What is going on, on standard error."""
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def heading(self, text: str) -> None:
        """A group of results."""
        print(f"\n{text}", flush=True)

    def line(self, name: str, value: str, ratio: float | None = None, of: str = "", bar: float | None = None) -> None:
        """One result: absolute, as a ratio of something from the same run, and whether that clears the bar."""
        text = f"  {name:<44} {value:>16}"
        if ratio is not None:
            text += f"  {ratio:8.3g} x {of}"
        if ratio is not None and bar is not None:
            text = self._judged(text, name, ratio >= bar, f"bar {bar:g}")
        print(text, flush=True)

    def limit(self, name: str, value: float, unit: str, most: float) -> None:
        """One result that has to stay at or below a limit."""
        print(
            self._judged(f"  {name:<44} {f'{value:.3g} {unit}':>16}", name, value <= most, f"limit {most:g} {unit}"),
            flush=True,
        )

    def _judged(self, text: str, name: str, passed: bool, bar: str) -> str:
        if not passed:
            self._missed.append(name)
        return f"{text}  ({bar}: {'passed' if passed else 'MISSED'})"

    def shape(self, shape: Shape, taken: Mapping[str, Sequence[float]]) -> None:
        """The readers of one shape, from their seconds in each round."""
        floor, library, ingest, decode = (median(taken[name]) for name in ("floor", "library", "ingest", "decode"))
        both = median(a + b for a, b in zip(taken["ingest"], taken["decode"], strict=True))
        library_name, floor_name = "mysql-replication", "read-only C"
        self.line(f"{shape.name}: mysql-replication, rows decoded", si(shape.rows / library), 1, library_name)
        self.line(f"{shape.name}: C program that only reads", si(shape.rows / floor), library / floor, library_name)
        self.line(
            f"{shape.name}: ingest, socket to journal", si(shape.rows / ingest), floor / ingest, floor_name, INGEST_BAR
        )
        self.line(
            f"{shape.name}: decoder, journal to payloads", si(shape.rows / decode), library / decode, library_name
        )
        self.line(f"{shape.name}: socket to payloads", si(shape.rows / both), library / both, library_name, LIBRARY_BAR)

    def finish(self) -> None:
        """The closing line."""
        self.heading(f"missed: {', '.join(self._missed)}" if self._missed else "every bar cleared")
