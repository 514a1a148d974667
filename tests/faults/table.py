"""The table of faults, with the lines of one fault added up: text for a terminal, and Markdown for bench/FAULTS.md."""

from __future__ import annotations

from collections.abc import Iterable

from tests.faults.ordeal import Line

HEAD = (
    "fault",
    "times injected",
    "rows sent",
    "rows delivered",
    "lost",
    "repeated",
    "may be repeated",
    "longest recovery",
)
BEGIN, END = "<!-- faults: written by make test-faults -->", "<!-- /faults -->"

Row = tuple[str, ...]


def rows(lines: Iterable[Line]) -> list[Row]:
    """A row for each fault, over all servers that it was injected with."""
    found: dict[str, Line] = {}
    for line in lines:
        if (so_far := found.get(line.fault)) is None:
            found[line.fault] = line
            continue
        found[line.fault] = Line(
            line.fault,
            so_far.injected + line.injected,
            so_far.sent + line.sent,
            so_far.delivered + line.delivered,
            so_far.lost + line.lost,
            so_far.repeated + line.repeated,
            line.allows,
            max(so_far.recovery, line.recovery),
        )
    return [
        (
            line.fault,
            f"{line.injected:,}",
            f"{line.sent:,}",
            f"{line.delivered:,}",
            f"{line.lost:,}",
            f"{line.repeated:,}",
            line.allows,
            f"{line.recovery:.2f} s",
        )
        for _, line in sorted(found.items())
    ]


def aligned(rows: list[Row]) -> list[str]:
    """The rows under their heads, for a terminal: text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if name in ("fault", "may be repeated") else cell.rjust(width)
            for name, cell, width in zip(HEAD, row, widths, strict=True)
        ).rstrip()
        for row in [HEAD, *rows]
    ]


def written(document: str, rows: list[Row]) -> str:
    """The document with these rows in place of those between its marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    marks = "|".join("---" if name in ("fault", "may be repeated") else "---:" for name in HEAD)
    lines = [f"| {' | '.join(HEAD)} |", f"|{marks}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return before + "\n".join([BEGIN, "", *lines, "", END]) + after
