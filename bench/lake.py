"""The lake's export, from a journal to sealed Parquet: its speed, its bytes, and whether history makes it slower."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median
from unittest.mock import patch

from bench import lakepeer, readers
from bench.report import Report, si
from bench.shapes import Shape
from examples.dbserver import DatabaseServer
from relay.lake import exporter
from relay.lake.exporter import Exporter, Progress, Settings
from relay.lake.storage import open_storage

PEER = "mysql-replication and pyarrow"
PEER_BAR = 30.0
PEER_ROWS = {"narrow": 200_000, "wide": 60_000}  # of a shape; its speed does not depend on how many there are
FLAT_LIMIT = 1.5  # times the cost of a row when the history was a tenth
SMALL_COMMIT = 1 << 16  # bytes of columns: far more commits than anybody makes


def measure(report: Report, server: DatabaseServer, shape: Shape, rounds: int, scratch: Path) -> None:
    """Export a shape's binlog beside the peer, in interleaved rounds."""
    report.heading(f"{shape.name}: to sealed Parquet, medians of interleaved rounds")
    peer_rows = min(shape.rows, PEER_ROWS[shape.name])
    peer: list[float] = []
    ours: list[float] = []
    ingested: list[float] = []
    for number in range(rounds):
        report.step(f"{shape.name}: Parquet, round {number + 1} of {rounds}")
        peer.append(lakepeer.export(server, shape, peer_rows, scratch / "peer.parquet") / peer_rows)
        journal = scratch / "journal"
        journal.mkdir()
        writer, seconds = readers.ingest(server, shape, journal)
        writer.flush()
        ingested.append(seconds / shape.rows)
        begin = time.perf_counter()
        exported = export(journal, scratch / "lake", Settings())
        ours.append((time.perf_counter() - begin) / shape.rows)
        assert exported.written == shape.rows, f"{exported.written} of {shape.rows} rows are in the lake"
        shutil.rmtree(scratch / "lake")
        shutil.rmtree(journal)
    theirs, own = median(peer), median(ours)
    report.line(f"{shape.name}: {PEER}", si(1 / theirs), 1, "itself")
    report.line(f"{shape.name}: export, journal to Parquet", si(1 / own), theirs / own, PEER)
    both = median(a + b for a, b in zip(ingested, ours, strict=True))
    report.line(f"{shape.name}: ingest and export, socket to Parquet", si(1 / both), theirs / both, PEER, PEER_BAR)
    binlog = dict(row[:2] for row in server.execute("SHOW BINARY LOGS"))[shape.file]
    report.line(f"{shape.name}: bytes of Parquet", si(exported.bytes), exported.bytes / binlog, "the binlog's bytes")


def export(journal: Path, lake: Path, settings: Settings) -> Progress:
    """Everything that is flushed, sealed and committed."""
    running = Exporter(open_storage(str(lake)), journal, settings)
    while not running.step().level:
        pass
    return running.finish()


def by_history(report: Report, server: DatabaseServer, shape: Shape, scratch: Path) -> None:
    """What a row costs with ten times as many rows and commits before it: the last tenth against the second."""
    report.heading(f"{shape.name}: to sealed Parquet, with many commits")
    report.step(f"{shape.name}: {shape.rows} transactions, committed to the lake by a few hundred")
    journal = scratch / "journal"
    journal.mkdir()
    writer, _ = readers.ingest(server, shape, journal)
    writer.flush()
    taken: list[tuple[int, float]] = []
    with patch.object(exporter, "READ_BYTES", SMALL_COMMIT):
        running = Exporter(open_storage(str(scratch / "lake")), journal, Settings())
        written = 0
        begin = time.perf_counter()
        while not running.step().level:
            progress = running.finish()
            end = time.perf_counter()
            taken.append((progress.written - written, end - begin))
            written, begin = progress.written, end
    shutil.rmtree(scratch / "lake")
    shutil.rmtree(journal)
    tenth = len(taken) // 10
    early, late = _cost(taken[tenth : 2 * tenth]), _cost(taken[-tenth:])
    report.line("seconds a million rows, second tenth", f"{early * 1e6:.3g} s")
    report.line(f"seconds a million rows, last tenth of {len(taken)} commits", f"{late * 1e6:.3g} s")
    report.limit("history ten times as long", late / early, "x", FLAT_LIMIT)


def _cost(taken: list[tuple[int, float]]) -> float:
    return sum(seconds for _, seconds in taken) / sum(rows for rows, _ in taken)
