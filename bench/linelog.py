"""The log of `[Logger]`, from a journal to lines on disk, compared with a program that only writes the same bytes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from bench import readers
from bench.run import Run
from bench.shapes import Shape
from relay.linelog.files import SUFFIXES
from relay.linelog.linelog import READ_BYTES, LineLog, Progress, Settings


def measure(run: Run) -> None:
    """Logs each shape's rows in each form."""
    for shape in run.shapes:
        log_shape(run, shape)


def log_shape(run: Run, shape: Shape) -> None:
    """From a journal to flushed lines."""
    report, rounds = run.report, run.rounds
    journal, folder = run.scratch / "journal", run.scratch / "log"
    journal.mkdir()
    writer, _ = readers.ingest(shape, journal)
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
        plain = [logged.bytes / each for each in floor]
        report.ratio(
            f"{shape.name}: {form}", [logged.bytes / each for each in ours], plain, "bytes/s", of="a plain write"
        )
        report.figure(f"{shape.name}: {form}", [shape.rows / each for each in ours], "rows/s")
    shutil.rmtree(journal)


def log(journal: Path, folder: Path, form: str) -> Progress:
    """Logs everything that is flushed, and syncs it."""
    running = LineLog(journal, Settings(str(folder), ["*"], form=form))
    while not running.step().caught_up:
        pass
    return running.finish()


def write(path: Path, size: int) -> float:
    """Seconds to write and flush a file of that size."""
    block = b"x" * READ_BYTES
    begin = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // READ_BYTES):
            file.write(block)
        os.fsync(file.fileno())
    return time.perf_counter() - begin
