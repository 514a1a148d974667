"""What every part of the benchmark is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.report import Report
from examples.dbserver import DatabaseServer


@dataclass
class Run:
    """One part's share of a run. `server`: MySQL with full row metadata, for all parts; `scratch`: a folder of this part."""

    report: Report
    server: DatabaseServer
    scratch: Path
    scale: float
    rounds: int

    def rows(self, count: int) -> int:
        """So many rows at scale 1."""
        return max(1, int(count * self.scale))
