"""The environment of each part of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.report import Report
from bench.shapes import Shapes
from examples.dbserver import DatabaseServer
from tests.support.relay_process import RELAY, RelayProcess

MEMORY = Path("/dev/shm")
"""A file system in memory, for parts that must not depend on a disk."""


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
        """The number of rows, given the number at scale 1."""
        return max(1, int(count * self.scale))


@contextmanager
def started(conf: Path, command: Sequence[str] = RELAY) -> Iterator[RelayProcess]:
    """Runs a relay within the block, and stops it in an orderly way; kills it if the block fails."""
    relay = RelayProcess(conf)
    relay.command = command
    try:
        yield relay.start()
        relay.stop()
    finally:
        relay.end()
