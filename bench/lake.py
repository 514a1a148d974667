"""The lake's export, from a journal to sealed Parquet: its speed, its bytes, and the effect of a long history."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from unittest.mock import patch

from bench import lakepeer, readers
from bench.run import Run
from bench.shapes import Shape
from relay.lake import exporter
from relay.lake.exporter import Exporter, Progress, Settings
from relay.lake.storage import open_storage

PEER = "mysql-replication and pyarrow"
PEER_BAR = 30.0
PEER_ROWS = {"narrow": 200_000, "wide": 60_000}  # per shape; its speed does not depend on their number
FLAT_LIMIT = 1.5  # times the cost of a row with a tenth of the history
SMALL_COMMIT = 1 << 16  # bytes of columns, for far more commits than usual


def measure(run: Run) -> None:
    """Exports shapes of work compared with the peer, and one with many commits compared with itself."""
    for shape in run.shapes:
        if shape.name in PEER_ROWS:
            compare_with_peer(run, shape)
        else:
            compare_histories(run, shape)


def compare_with_peer(run: Run, shape: Shape) -> None:
    """Exports a shape's binlog compared with the peer, in interleaved rounds."""
    report, scratch, rounds = run.report, run.scratch, run.rounds
    peer_rows = min(shape.rows, PEER_ROWS[shape.name])
    peer: list[float] = []
    ours: list[float] = []
    ingested: list[float] = []
    for number in range(rounds):
        report.step(f"{shape.name}: Parquet, round {number + 1} of {rounds}")
        peer.append(lakepeer.export(shape, peer_rows, scratch / "peer.parquet") / peer_rows)
        journal = scratch / "journal"
        journal.mkdir()
        writer, seconds = readers.ingest(shape, journal)
        writer.flush()
        ingested.append(seconds / shape.rows)
        begin = time.perf_counter()
        exported = export(journal, scratch / "lake", Settings())
        ours.append((time.perf_counter() - begin) / shape.rows)
        assert exported.written == shape.rows, f"{exported.written} of {shape.rows} rows are in the lake"
        shutil.rmtree(scratch / "lake")
        shutil.rmtree(journal)
    theirs = [1 / each for each in peer]
    report.ratio(f"{shape.name}: export, journal to Parquet", [1 / each for each in ours], theirs, "rows/s", of=PEER)
    both = [1 / (a + b) for a, b in zip(ingested, ours, strict=True)]
    report.ratio(
        f"{shape.name}: ingest and export, socket to Parquet", both, theirs, "rows/s", of=PEER, at_least=PEER_BAR
    )
    binlog = dict(row[:2] for row in shape.server.execute("SHOW BINARY LOGS"))[shape.file]
    report.ratio(f"{shape.name}: bytes of Parquet", [exported.bytes], [binlog], "bytes", of="the binlog's bytes")


def export(journal: Path, lake: Path, settings: Settings) -> Progress:
    """Exports everything that is flushed; seals and commits it."""
    running = Exporter(open_storage(str(lake)), journal, settings)
    while not running.step().caught_up:
        pass
    return running.finish()


def compare_histories(run: Run, shape: Shape) -> None:
    """The cost of a row with ten times as many rows and commits before it: the last tenth against the second."""
    report, scratch = run.report, run.scratch
    report.step(f"{shape.name}: {shape.rows} transactions, committed to the lake by a few hundred")
    journal = scratch / "journal"
    journal.mkdir()
    writer, _ = readers.ingest(shape, journal)
    writer.flush()
    taken: list[tuple[int, float]] = []
    with patch.object(exporter, "READ_BYTES", SMALL_COMMIT):
        running = Exporter(open_storage(str(scratch / "lake")), journal, Settings())
        written = 0
        begin = time.perf_counter()
        while not running.step().caught_up:
            progress = running.finish()
            end = time.perf_counter()
            taken.append((progress.written - written, end - begin))
            written, begin = progress.written, end
    shutil.rmtree(scratch / "lake")
    shutil.rmtree(journal)
    tenth = len(taken) // 10
    early, late = _cost(taken[tenth : 2 * tenth]), _cost(taken[-tenth:])
    report.ratio(
        f"a million rows, last tenth of {len(taken)} commits", [late * 1e6], [early * 1e6], "s",
        of="the second tenth", at_most=FLAT_LIMIT,
    )  # fmt: skip


def _cost(taken: list[tuple[int, float]]) -> float:
    return sum(seconds for _, seconds in taken) / sum(rows for rows, _ in taken)
