"""The benchmark's results: samples of interleaved rounds, each compared with its peer and its bar."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Result:
    """One figure. `values`: a sample per round, in `unit`; `ratios`: of each round to the peer `of`, none without one.

    The median of the ratios, or without ratios of the values, must be at least, or at most, the bar.
    """

    part: str
    what: str
    unit: str
    values: tuple[float, ...]
    of: str = ""
    ratios: tuple[float, ...] = ()
    at_least: float | None = None
    at_most: float | None = None

    @property
    def judged(self) -> tuple[float, ...]:
        """The samples that the bar applies to."""
        return self.ratios or self.values

    @property
    def margin(self) -> float | None:
        """The factor by which the bar is cleared. 1 is exactly the bar, less is missed; None without a bar."""
        middle = median(self.judged)
        if self.at_least is not None:
            return middle / self.at_least
        if self.at_most is not None:
            return self.at_most / middle if middle > 0 else float("inf")
        return None

    @property
    def bar(self) -> str:
        """The bar in words; empty without one."""
        unit = "x" if self.ratios else self.unit
        if self.at_least is not None:
            return f"at least {si(self.at_least)} {unit}"
        return f"at most {si(self.at_most)} {unit}" if self.at_most is not None else ""

    @property
    def verdict(self) -> str:
        """met, missed, or nothing."""
        return "" if self.margin is None else "met" if self.margin >= 1 else "missed"


def si(value: float) -> str:
    """1234567 -> 1.23 M"""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:.0f}" if 100 <= abs(value) == int(value) else f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """Median, and lowest to highest if there are several."""
    middle = si(median(values))
    return middle if len(values) == 1 else f"{middle} ({si(min(values))} to {si(max(values))})"


class Report:
    """Prints results as they come and keeps them: `results` and `notes` by part, in order."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.notes: dict[str, list[str]] = {}
        self._part = ""

    def part(self, title: str) -> None:
        """Starts a part."""
        self._part = title
        print(f"\n{title}", flush=True)

    def step(self, text: str) -> None:
        """Reports progress on standard error."""
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Adds a sentence to this part's figures."""
        self.notes.setdefault(self._part, []).append(text)
        print(f"    {text}", flush=True)

    def figure(
        self,
        what: str,
        values: Sequence[float],
        unit: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Adds a figure without a peer, one value per round."""
        self._keep(Result(self._part, what, unit, tuple(values), at_least=at_least, at_most=at_most))

    def ratio(
        self,
        what: str,
        ours: Sequence[float],
        peer: Sequence[float],
        unit: str,
        *,
        of: str,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Adds a figure and its peer's from the same rounds, both in `unit`; the ratio is ours / peer of each round."""
        ratios = tuple(own / other for own, other in zip(ours, peer, strict=True))
        self._keep(Result(self._part, what, unit, tuple(ours), of, ratios, at_least, at_most))

    def last(self) -> tuple[list[Result], list[str]]:
        """Returns the results and the notes of the part that was started last."""
        return [each for each in self.results if each.part == self._part], self.notes.get(self._part, [])

    def add(self, results: Sequence[Result], notes: Sequence[str]) -> None:
        """Adds results and notes of this part, which an earlier run measured."""
        for result in results:
            self._keep(result)
        for note in notes:
            self.note(note)

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        text = f"  {result.what:<58} {spread(result.values)} {result.unit}"
        if result.ratios:
            text += f";  {spread(result.ratios)} x {result.of}"
        if result.bar:
            text += f";  {result.bar}: {result.verdict.upper() if result.verdict == 'missed' else result.verdict}"
        print(text, flush=True)

    def finish(self) -> None:
        """Prints the closing lines: the number of bars, and the missed ones."""
        barred = [result for result in self.results if result.verdict]
        missed = [result for result in barred if result.verdict == "missed"]
        print(f"\n{len(barred) - len(missed)} of {len(barred)} bars met", flush=True)
        for result in missed:
            print(f"  missed: {result.part}: {result.what}: {spread(result.judged)}, {result.bar}", flush=True)
