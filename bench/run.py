"""What every part of the benchmark is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.report import Report
from bench.shapes import Shapes
from examples.dbserver import DatabaseServer


@dataclass
class Run:
    """One part's share of a run. `server`: MySQL with full row metadata, for all parts; `scratch`: its own folder."""

    report: Report
    server: DatabaseServer
    shapes: Shapes
    scratch: Path
    scale: float
    rounds: int

    def rows(self, count: int) -> int:
        """So many rows at scale 1."""
        return max(1, int(count * self.scale))
