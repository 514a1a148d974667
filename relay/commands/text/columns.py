"""Numbers, sizes, times and names as text that fits a terminal's columns. Pure."""

from __future__ import annotations

import textwrap
import unicodedata
from datetime import UTC, datetime
from typing import Final

from relay.base.errors import printable

_LABEL: Final = 11  # columns of a fact's name, including the blank after it


def display_width(text: str) -> int:
    """Columns of `text` on a terminal: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """Text made printable and cut to at most `width` columns; an ellipsis stands for the rest."""
    shown = printable(text)
    if display_width(shown) <= width:
        return shown
    kept, used = "", 1
    for char in shown:
        used += _columns(char)
        if used > width:
            break
        kept += char
    return kept + "…"


def fit(text: str, width: int) -> str:
    """`cut`, filled with blanks to exactly `width` columns."""
    shown = cut(text, width)
    return shown + " " * (width - display_width(shown))


def fact(name: str, value: str, width: int) -> list[str]:
    """`name` and, beside it, `value` in as many lines as it needs."""
    first, later = f"{name:<{_LABEL - 1}} ", " " * _LABEL
    lines = textwrap.wrap(printable(value) or "-", width, initial_indent=first, subsequent_indent=later)
    return [cut(line, width) for line in lines]  # it wraps by characters, and wide ones take two columns


def counts(named: dict[str, int]) -> str:
    """`insert 1,200, update 3`."""
    return ", ".join(f"{name} {count:,}" for name, count in named.items())


def size_text(count: float) -> str:
    """Return a number of bytes as text: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def short(count: float | None) -> str:
    """Return a number in at most 7 columns: `12,345`, `1.23 M`; `-` if it is unknown."""
    if count is None:
        return "-"
    if count < 99_999.5:
        return f"{count:,.0f}"
    for unit in ("k", "M", "G"):
        count /= 1000
        if count < 999.5:
            return f"{count:.{2 if count < 9.995 else 1 if count < 99.95 else 0}f} {unit}"
    return f"{count / 1000:,.0f} T"


def right(count: int, width: int) -> str:
    """Return a number, right-aligned in exactly `width` columns, 8 or more; `short` if it does not fit."""
    exact = f"{count:,}"
    return f"{exact if len(exact) < width else short(count):>{width}}"


def moment(seconds: float) -> str:
    """Unix seconds as date and time, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """Return a duration in its two largest units: `0.3 s`, `45 s`, `5 min 10 s`, `3 d 4 h`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    for unit, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            left = whole % unit // part
            return f"{whole // unit:,} {name}" + (f" {left} {part_name}" if left else "")
    return f"{whole} s"
