"""The chart of a whole run: the factor by which each bar is cleared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.report import Result, spread

FILE = Path(__file__).parent / "results.svg"
_MET, _MISSED = "#2a7f62", "#c0492f"
_WIDEST = 30.0  # larger factors are drawn as this
_ROW_INCHES = 0.26


def use_one_style() -> None:
    """Make the same figures the same file: a fixed salt, and text as text."""
    mpl.rcParams.update({"svg.hashsalt": "relay", "svg.fonttype": "none", "font.family": "sans-serif"})


def draw(results: Sequence[Result], path: Path = FILE) -> None:
    """One line per bar, in the order of the record: the factor by which it is cleared, on a logarithmic scale."""
    barred = [each for each in results if each.verdict]
    use_one_style()
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
    axes.set_xlim(min(0.5, *margins) * 0.9, _WIDEST * 12)
    axes.set_yticks(places, names, fontsize=7)
    axes.set_ylim(len(barred) - 0.4, -0.6)  # the first bar on top
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xticks([0.5, 1, 2, 5, 10, 30], ["half", "the bar", "2x", "5x", "10x", "30x or more"], fontsize=7)
    axes.minorticks_off()
    axes.set_title("How often each bar is cleared (red: missed)", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
