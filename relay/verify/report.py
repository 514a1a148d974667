"""The report: what was compared and the result, as text for a terminal and as a JSON document. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from relay.base.errors import printable
from relay.verify.compare import Difference, Finding
from relay.verify.faults import DIED, MEANINGS

SHOWN: Final = 20
"""The number of differences that are listed in full; all are counted."""
_VALUE_WIDTH: Final = 200


class Table(msgspec.Struct):
    """Counts of one table, in rows.

    Of those `compared`, `equal` are the same in every value, `weaker` in the weaker form that a fault of the reference
    reader leaves.
    """

    rows: int = 0
    compared: int = 0
    equal: int = 0
    weaker: int = 0
    differences: int = 0


class Listed(msgspec.Struct, frozen=True):
    """A difference: the end of its rows event in the binlog, and what differs there (`relay.verify.compare`)."""

    position: str
    table: str
    row: int
    what: str
    column: str
    ours: str
    theirs: str


class Unread(msgspec.Struct, frozen=True):
    """An event that the reference reader could not read."""

    position: str
    table: str
    fault: str
    rows: int
    detail: str


class Report(msgspec.Struct):
    """The document of `--json`.

    `start` and `end` are the binlog positions between which rows were compared; `journal_start` and `journal_end` are
    those in the journal. `ended_early` says where and why the reference reader could not continue. `left_out` counts
    rows of the source that need not be in the journal, by reason; `faults` counts rows by fault of the reference
    reader.
    """

    source: str
    start: str
    end: str
    journal_start: int
    journal_end: int
    rows: int = 0
    compared: int = 0
    equal: int = 0
    weaker: int = 0
    differences: int = 0
    seconds: float = 0.0
    ended_early: str = ""
    tables: dict[str, Table] = msgspec.field(default_factory=dict)
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    left_out: dict[str, int] = msgspec.field(default_factory=dict)
    listed: list[Listed] = msgspec.field(default_factory=list)
    unread: list[Unread] = msgspec.field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        if finding.left_out:
            self.leave_out(finding.left_out, finding.rows)
            return
        for counts in (self, self.tables.setdefault(finding.table, Table())):
            counts.rows += finding.rows
            counts.compared += finding.compared
            counts.equal += finding.equal
            counts.weaker += finding.weaker
            counts.differences += len(finding.differences)
        for fault, rows in finding.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + rows
            if finding.detail and len(self.unread) < SHOWN:
                position = str(finding.position)
                self.unread.append(Unread(position, finding.table, fault, rows, printable(finding.detail)))
        for difference in finding.differences[: max(0, SHOWN - len(self.listed))]:
            self.listed.append(_listed(difference))

    def leave_out(self, reason: str, rows: int) -> None:
        """Count rows of the source that need not be in the journal."""
        if rows:
            self.left_out[reason] = self.left_out.get(reason, 0) + rows

    @property
    def range(self) -> str:
        """The range in the source's binlog, as text."""
        return f"{self.start} to {self.end}"

    @property
    def incomplete(self) -> str:
        """Why not everything requested was compared; "" if it was."""
        if self.ended_early:
            return f"the reference reader cannot continue: {self.ended_early}"
        if DIED in self.faults:
            return f"the reference reader could not read {self.faults[DIED]} rows, for an unknown reason"
        return "the reference reader could not read any rows" if self.rows and not self.compared else ""

    @property
    def verdict(self) -> str:
        """The number of differences, as text."""
        if not self.differences:
            return "no difference"
        return f"{self.differences:,} difference{'s' if self.differences > 1 else ''}"

    def text(self) -> str:
        """Return the report for a terminal."""
        return "\n".join([*self._head(), *self._table_lines(), *self._fault_lines(), *self._difference_lines()])

    def _head(self) -> Iterator[str]:
        yield f"source      {self.source}"
        yield f"range       {self.range}, in the journal {self.journal_start} to {self.journal_end}"
        speed = f", {self.rows / self.seconds:,.0f} rows/s" if self.seconds else ""
        yield f"took        {self.seconds:.1f} s{speed}"
        if self.ended_early:
            yield f"ended early {self.ended_early}"

    def _table_lines(self) -> Iterator[str]:
        yield ""
        yield f"{'TABLE':<26}{'ROWS':>10}{'COMPARED':>11}{'EQUAL':>10}{'WEAKER':>10}{'DIFFERENCES':>13}"
        for name, table in sorted(self.tables.items()):
            yield _counts(name, table)
        yield _counts("all", self)
        for reason, rows in self.left_out.items():
            yield f"left out    {rows:,} rows: {reason}"

    def _fault_lines(self) -> Iterator[str]:
        if self.faults:
            yield ""
            yield "Rows with a known fault of the reference reader (mysql-replication 1.0.17):"
        for fault, rows in sorted(self.faults.items()):
            yield f"{rows:>11,}  {fault}: it {MEANINGS[fault]}"
        for event in self.unread:
            yield f"unread      {event.position} {event.table}, {event.rows:,} rows, {event.fault}: {event.detail}"

    def _difference_lines(self) -> Iterator[str]:
        yield ""
        yield self.verdict
        for found in self.listed:
            where = f"{found.position} {found.table}" + (f" row {found.row}" if found.row else "")
            yield f"  {where}{f' column {found.column}' if found.column else ''}: {found.what}"
            if found.ours or found.theirs:
                yield f"    journal {found.ours}"
                yield f"  reference {found.theirs}"
        if self.differences > len(self.listed):
            yield f"  and {self.differences - len(self.listed):,} more"


def _counts(name: str, table: Table | Report) -> str:
    name = name if len(name) < 26 else f"{name[:24]}…"
    return (
        f"{name:<26}{table.rows:>10,}{table.compared:>11,}{table.equal:>10,}{table.weaker:>10,}{table.differences:>13,}"
    )


def _listed(difference: Difference) -> Listed:
    return Listed(
        str(difference.position), printable(difference.table), difference.row, printable(difference.what),
        printable(difference.column), _shortened(difference.ours), _shortened(difference.theirs),
    )  # fmt: skip


def _shortened(value: str) -> str:
    text = printable(value)
    return text if len(text) <= _VALUE_WIDTH else f"{text[:_VALUE_WIDTH]}… ({len(text):,} characters)"
