"""Compares the rows in the relay's journal with those in the replica's binlog."""

from __future__ import annotations

from collections.abc import Iterable

from tests.names.sides import Run, Transaction

_MOST_TOLD = 10


class Comparison:
    """Compares transactions of both sides in any order. It keeps a transaction until both sides have it.

    `rows` counts the compared rows, `wrong` and `unproven` those of them with that fault.
    """

    def __init__(self) -> None:
        self.rows = self.wrong = self.unproven = 0
        self.differences: list[str] = []
        self._ours: dict[str, list[Run]] = {}
        self._truth: dict[str, list[Run]] = {}

    @property
    def waiting(self) -> tuple[int, int]:
        """The number of transactions that only the journal has, and that only the binlog has."""
        return len(self._ours), len(self._truth)

    def add(self, ours: Iterable[Transaction], truth: Iterable[Transaction]) -> None:
        """Add transactions of each side, and compare those that both sides have."""
        for gtid, runs in ours:
            self._ours[gtid] = runs
        for gtid, runs in truth:
            self._truth[gtid] = runs
        for gtid in self._ours.keys() & self._truth.keys():
            self._judge(gtid, self._ours.pop(gtid), self._truth.pop(gtid))

    def _judge(self, gtid: str, ours: list[Run], truth: list[Run]) -> None:
        self.rows += sum(run.rows for run in truth)
        self.unproven += sum(run.rows for run in ours if not run.proven)
        if [run[:3] for run in ours] != [run[:3] for run in truth]:
            self._differ(gtid, max(sum(run.rows for run in runs) for runs in (ours, truth)), ours, truth)
            return
        for mine, true in zip(ours, truth, strict=True):
            if mine.proven and not _agree(mine, true):
                self._differ(gtid, mine.rows, mine, true)

    def _differ(self, gtid: str, rows: int, ours: object, truth: object) -> None:
        self.wrong += rows
        if len(self.differences) < _MOST_TOLD:
            self.differences.append(f"{gtid}: {ours}, and not {truth}")


def _agree(ours: Run, truth: Run) -> bool:
    """Whether names and values are the same.

    MariaDB leaves generated columns out of some images, and each server leaves out others. So a column with different
    numbers of values on the two sides is compared by name only.
    """
    return ours.names == truth.names and all(
        ours.values[name] == truth.values[name]
        for name in ours.values.keys() & truth.values.keys()
        if ours.values[name][0] == truth.values[name][0]
    )
