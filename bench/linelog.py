"""The log of `[Logger]`, from a journal to lines on disk, beside a program that only writes as many bytes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from statistics import median

from bench import readers
from bench.report import Report, si
from bench.shapes import Shape
from examples.dbserver import DatabaseServer
from relay.linelog.files import SUFFIXES
from relay.linelog.linelog import READ_BYTES, LineLog, Progress, Settings


def measure(report: Report, server: DatabaseServer, shape: Shape, rounds: int, scratch: Path) -> None:
    """Log a shape's rows in each form."""
    report.heading(f"{shape.name}: the log, journal to flushed lines, medians of {rounds} rounds")
    journal, folder = scratch / "journal", scratch / "log"
    journal.mkdir()
    writer, _ = readers.ingest(server, shape, journal)
    writer.flush()
    for form in SUFFIXES:
        ours: list[float] = []
        floor: list[float] = []
        for number in range(rounds):
            report.step(f"{shape.name}: {form}, round {number + 1} of {rounds}")
            folder.mkdir()
            begin = time.perf_counter()
            logged = log(journal, folder, form)
            ours.append(time.perf_counter() - begin)
            assert logged.lines == shape.rows, f"{logged.lines} of {shape.rows} rows are in the log"
            floor.append(write(folder / "floor", logged.bytes))
            shutil.rmtree(folder)
        own = median(ours)
        report.line(f"{shape.name}: {form}, bytes", si(logged.bytes / own), median(floor) / own, "a plain write")
        report.line(f"{shape.name}: {form}, rows", si(shape.rows / own))
    shutil.rmtree(journal)


def log(journal: Path, folder: Path, form: str) -> Progress:
    """Everything that is flushed, on disk."""
    running = LineLog(journal, Settings(str(folder), ["*"], form=form))
    while not running.step().level:
        pass
    return running.finish()


def write(path: Path, size: int) -> float:
    """Seconds that it takes to write a file of that size and to flush it."""
    block = b"x" * READ_BYTES
    begin = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // READ_BYTES):
            file.write(block)
        os.fsync(file.fileno())
    return time.perf_counter() - begin
