"""Table usage: the cost of counting a busy relay's rows by table and minute, and of keeping a day of counts."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.machine import anonymous_bytes
from bench.report import Report
from bench.run import Run
from relay._native import UsageReader
from relay.monitoring.usage import DAY, STEP_BYTES, Usage
from tests.support.journal_builder import ID, INSERT, NAME, NOON, Made, body, row

TABLES = 1000
SEGMENT_BYTES = 64 << 20
PRIME = 7919  # adjacent rows of the journal are of different tables


def measure(run: Run) -> None:
    """Counts a journal of short transactions, and then a day in which every table has rows in every minute."""
    report, folder = run.report, run.scratch
    made = Made(folder / "journal", SEGMENT_BYTES)
    tables = [made.define(ID, NAME, table=f"table_{number}") for number in range(TABLES)]
    transactions = run.rows(1_000_000)
    report.step(f"{transactions} transactions")
    for number in range(transactions):
        insert(made, tables[number * PRIME % TABLES], NOON + number // 1000)
    until = made.flush()
    begin = time.process_time()
    reader = UsageReader(made.folder)
    while not reader.read(until, STEP_BYTES):
        reader.take()
    report.figure(
        f"{TABLES} tables: read from the journal", [transactions / (time.process_time() - begin)], "transactions/s"
    )
    begin = time.process_time()
    counting = Usage(folder / "first.db", made.folder)
    while not counting.advance(NOON + transactions / 1000, until):
        pass
    report.figure(
        f"{TABLES} tables: counted and kept", [transactions / (time.process_time() - begin)], "transactions/s"
    )
    counting.close()
    measure_day(report, made, tables, folder / "second.db")


def measure_day(report: Report, made: Made, tables: list[int], path: Path) -> None:
    """Every table has rows in every minute of a day; then the next process begins."""
    report.step(f"{DAY} minutes of {len(tables)} tables")
    counting = Usage(path, made.folder)
    while not counting.advance(NOON, made.flush()):
        pass
    before, spent = anonymous_bytes(os.getpid()), 0.0
    for minute in range(DAY):
        now = NOON + 60 * minute
        for table in tables:
            insert(made, table, now)
        until = made.flush()
        begin = time.process_time()
        while not counting.advance(now, until):
            pass
        spent += time.process_time() - begin
    report.figure("CPU a minute in which all have rows", [spent / DAY * 1000], "ms", at_most=60)
    report.figure("memory of their day", [(anonymous_bytes(os.getpid()) - before) / 2**20], "MiB", at_most=16)
    counting.close()
    report.figure("on disk", [path.stat().st_size / 2**20], "MiB")
    begin = time.process_time()
    again = Usage(path, made.folder)
    again.advance(NOON + 60 * DAY, until)
    report.figure("CPU of the next start", [time.process_time() - begin], "s", at_most=2)
    again.close()


def insert(made: Made, table: int, when: int) -> None:
    """Writes a transaction of one row."""
    made.place += 100
    made.writer.rows(table, INSERT, made.place, when, 1, body(INSERT, 2, row(1)))
    made.writer.commit(made.place, when)
