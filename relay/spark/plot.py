"""Plots of the usage of a lake: rows changed over time and by table. PNG, or one HTML page."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from relay.base.errors import ErrorCode, RelayError
from relay.spark.counts import KINDS, UsageRow, rows_by_table, rows_by_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOP: Final = 10
"""Tables with a colour of their own; the others are drawn as one."""

PAGE_ROWS: Final = 1000
"""The most lines of the hourly table on a page."""

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)

SHORT: Final = timedelta(hours=2)
"""A span that is drawn by minute."""

_HOURLY: Final = timedelta(days=4)  # longer spans are drawn by day
NAMES: Final = {MINUTE: "minute", HOUR: "hour", DAY: "day"}
_SLOTS: Final = 3  # there is room for at least this many bars, so that a few bars are not thicker
_OTHERS: Final = "#9aa0a6"
_TABLE_COLOURS: Final = (
    "#4477aa", "#ee7733", "#228833", "#cc3377", "#66ccee", "#ccbb44", "#7a4fbf", "#44aa99", "#a5682a", "#ee99aa",
)  # fmt: skip
_KIND_COLOURS: Final = ("#2e8b57", "#3b7dd8", "#d1495b", "#b58900", _OTHERS)


class Theme(NamedTuple):
    """Colours of a plot, other than those of the data."""

    name: str
    ground: str
    text: str
    faint: str


LIGHT: Final = Theme("light", "#ffffff", "#1f2328", "#d0d7de")
DARK: Final = Theme("dark", "#0d1117", "#e6edf3", "#30363d")


def span(rows: Sequence[UsageRow], period: timedelta) -> timedelta:
    """Return the time from the first period to the end of the last one."""
    return _end(rows, period) - min(row.begin for row in rows) if rows else timedelta()


def png(rows: Sequence[UsageRow], period: timedelta) -> bytes:
    """Return the plot of rows by period as a PNG, 1800 pixels wide, on white."""
    return _rendered(rows, period, LIGHT, "png")


def html(rows: Sequence[UsageRow], period: timedelta, hours: Sequence[UsageRow], lake: str) -> bytes:
    """Return the plot of rows by period, and the numbers by table and by hour, as one self-contained page.

    The SVG is light or dark as the reader's system is.
    """
    pictures = "\n".join(
        f'<figure class="{theme.name}">{_svg(rows, period, theme)}</figure>' for theme in (LIGHT, DARK)
    )
    hourly = rows_by_time(hours)
    shown = hourly[-PAGE_ROWS:]
    note = "" if len(shown) == len(hourly) else f" (the last {len(shown):,} of {len(hourly):,} lines)"
    head = "".join(f'<th class="n">{kind}</th>' for kind in (*KINDS, "total"))
    tables = "\n".join(
        f"<tr><td>{escape(table)}</td>{_cells(counts)}</tr>" for table, counts in rows_by_table(hours).items()
    )
    lines = "\n".join(
        f"<tr><td>{begin:%Y-%m-%d %H:%M}</td><td>{escape(table)}</td>{_cells(counts)}</tr>"
        for begin, table, counts in shown
    )
    return _PAGE.format(
        title=escape(f"Usage of {lake}"),
        ground=LIGHT.ground, text=LIGHT.text, faint=LIGHT.faint,
        dark_ground=DARK.ground, dark_text=DARK.text, dark_faint=DARK.faint,
        pictures=pictures, head=head, tables=tables, lines=lines, note=note,
    ).encode()  # fmt: skip


def figure(rows: Sequence[UsageRow], period: timedelta, theme: Theme) -> Figure:
    """Return the figure of rows by period.

    Above, rows over time with a colour for each table; below, by table with a colour for each kind.
    """
    _need_matplotlib()
    from matplotlib.figure import Figure

    totals = {table: counts.total() for table, counts in rows_by_table(rows).items()}
    top = sorted(totals, key=lambda table: (-totals[table], table))[:TOP]
    bars = 0.9 + 0.29 * max(_SLOTS, min(len(totals), TOP + 1))
    drawn = Figure(figsize=(12, 4.4 + bars), layout="constrained", facecolor=theme.ground)
    above, below = drawn.subplots(2, 1, height_ratios=(4.4, bars))
    for axes in (above, below):
        _style(axes, theme)
    if rows:
        _over_time(above, rows, period, top, theme)
        _by_table(below, rows, top, theme)
    first = f"{min(r.begin for r in rows):%Y-%m-%d %H:%M} to {_end(rows, period):%Y-%m-%d %H:%M} UTC, " if rows else ""
    drawn.suptitle(
        f"Rows changed: {first}{sum(totals.values()):,} in {len(totals):,} {'table' if len(totals) == 1 else 'tables'}",
        color=theme.text, x=0.012, ha="left", fontsize=14, fontweight="bold",
    )  # fmt: skip
    return drawn


def _end(rows: Sequence[UsageRow], period: timedelta) -> datetime:
    return max(row.begin for row in rows) + period


def _over_time(axes: Axes, rows: Sequence[UsageRow], period: timedelta, top: list[str], theme: Theme) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    width = DAY if span(rows, period) > _HOURLY else period
    heights: dict[str, Counter[datetime]] = {name: Counter() for name in [*top, "others"]}
    for row in rows:
        begin = row.begin.replace(hour=0) if width == DAY else row.begin
        heights[row.name if row.name in top else "others"][begin] += row.rows
    floor: Counter[datetime] = Counter()
    for name, colour in [*zip(top, _TABLE_COLOURS, strict=False), ("others", _OTHERS)]:
        if counts := heights[name]:
            axes.bar(
                [moment + width / 2 for moment in counts], list(counts.values()), width=width * 0.9,
                bottom=[floor[moment] for moment in counts], color=colour, label=name, linewidth=0,
            )  # fmt: skip
            floor.update(counts)
    axes.margins(x=0.01)
    locator = AutoDateLocator(minticks=3, maxticks=10)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    axes.grid(axis="y", color=theme.faint, linewidth=0.8)
    axes.yaxis.set_major_formatter(_thousands)
    _set_title(axes, f"rows by {NAMES[width]} (UTC) and table", theme)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, labelcolor=theme.text, fontsize=9, reverse=True
    )


def _by_table(axes: Axes, rows: Sequence[UsageRow], top: list[str], theme: Theme) -> None:
    counts = {name: Counter[str]() for name in top}
    others: Counter[str] = Counter()
    for name, kinds in rows_by_table(rows).items():
        counts.get(name, others).update(kinds)
    rest = len(rows_by_table(rows)) - len(top)
    if rest:
        counts[f"{rest:,} others"] = others
    names = list(counts)
    left = [0] * len(names)
    for kind, colour in zip(KINDS, _KIND_COLOURS, strict=True):
        values = [counts[name][kind] for name in names]
        if any(values):
            axes.barh(range(len(names)), values, left=left, height=0.72, color=colour, label=kind, linewidth=0)
            left = [before + value for before, value in zip(left, values, strict=True)]
    for index, total in enumerate(left):
        axes.annotate(
            f"{total:,}", (total, index), xytext=(5, 0), textcoords="offset points", va="center", color=theme.text,
            fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), _SLOTS) - 0.5, -0.5)
    axes.set_xlim(0, max(left) * 1.12)
    axes.grid(axis="x", color=theme.faint, linewidth=0.8)
    axes.xaxis.set_major_formatter(_thousands)
    _set_title(axes, "rows by table and kind", theme)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, labelcolor=theme.text, fontsize=9)


def _set_title(axes: Axes, text: str, theme: Theme) -> None:
    axes.set_title(text, loc="left", color=theme.text, fontsize=10.5)


def _style(axes: Axes, theme: Theme) -> None:
    axes.set_facecolor(theme.ground)
    axes.tick_params(colors=theme.text, length=0, labelsize=9)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _thousands(value: float, _: int) -> str:
    return f"{value:,.0f}" if value == int(value) else ""


def _rendered(rows: Sequence[UsageRow], period: timedelta, theme: Theme, form: str) -> bytes:
    _need_matplotlib()
    from matplotlib import rc_context

    settings: dict[str, Any] = {
        "text.parse_math": False,  # a name with dollar signs is not a formula
        "svg.fonttype": "none",  # text stays text, in the reader's font
        "svg.hashsalt": theme.name,  # two SVGs in one page must not share ids
        "font.family": "sans-serif",
    }
    with rc_context(settings), io.BytesIO() as file:
        metadata = {"Date": None} if form == "svg" else None
        figure(rows, period, theme).savefig(file, format=form, dpi=150, facecolor=theme.ground, metadata=metadata)
        return file.getvalue()


def _svg(rows: Sequence[UsageRow], period: timedelta, theme: Theme) -> str:
    text = _rendered(rows, period, theme, "svg").decode()
    return text[text.index("<svg") :]


def _cells(counts: Counter[str]) -> str:
    return "".join(f'<td class="n">{count:,}</td>' for count in (*(counts[kind] for kind in KINDS), counts.total()))


def _need_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise RelayError(
            ErrorCode.ENVIRONMENT, "draw a plot", "the package matplotlib is not installed",
            hint="pip install 'binlog-relay[spark]'",
        )  # fmt: skip


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ground: {ground}; --text: {text}; --faint: {faint}; }}
body {{ background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem; }}
figure {{ margin: 0; }}
figure svg {{ width: 100%; height: auto; font-family: system-ui, sans-serif; }}
figure.dark {{ display: none; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .2rem .7rem; border-bottom: 1px solid var(--faint); text-align: left; }}
.n {{ text-align: right; }}
summary {{ cursor: pointer; margin: 1.5rem 0 .5rem; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ground: {dark_ground}; --text: {dark_text}; --faint: {dark_faint}; }}
  figure.light {{ display: none; }}
  figure.dark {{ display: block; }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
{pictures}
<h2>By table</h2>
<table>
<thead><tr><th>table</th>{head}</tr></thead>
<tbody>
{tables}
</tbody>
</table>
<details>
<summary>By hour, UTC{note}</summary>
<table>
<thead><tr><th>hour</th><th>table</th>{head}</tr></thead>
<tbody>
{lines}
</tbody>
</table>
</details>
</body>
</html>
"""
