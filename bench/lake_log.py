"""`make bench-lake`: the time in which a program opens a lake of many commits and files. SCALE=n: n times as many."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.open_tables import NARROW, BenchLake
from bench.report import Report

COMMITS, FILES = 50_000, 100_000
ROUNDS = 5
LIMIT = 1.0  # seconds
OPEN = """
import sys, time
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
begin = time.monotonic()
state = LakeLog(open_storage(sys.argv[1])).state()
print(time.monotonic() - begin, state.number, sum(len(table.files) for table in state.tables.values()))
"""


def main() -> None:
    """Measure and print everything."""
    scale = float(os.environ.get("SCALE") or 1)
    commits, files = int(COMMITS * scale), int(FILES * scale)
    report = Report()
    report.part("opening a lake")
    with tempfile.TemporaryDirectory(prefix="relay-bench-", dir="/dev/shm") as folder:
        lake = BenchLake(Path(folder), NARROW, 1)
        report.step(f"writing {commits} commits of {files // commits} files")
        _fill(lake, commits, files)
        seconds = []
        for _ in range(ROUNDS):
            command = [sys.executable, "-X", "faulthandler", "-c", OPEN, lake.storage.url()]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            took, number, found = done.stdout.split()
            assert (int(number), int(found)) == (commits, files), "commits or files are missing"
            seconds.append(float(took))
    report.figure(f"the state of {commits} commits and {files} files", seconds, "s", at_most=LIMIT)
    report.finish()


def _fill(lake: BenchLake, commits: int, files: int) -> None:
    """Commit files that exist in the log only."""
    next(lake.fill())
    (file,) = next(iter(lake.state().tables.values())).files.values()
    number = 1
    while lake.state().number < commits:
        last = number + (files - number) // (commits - lake.state().number)
        names = range(number + 1, last + 1)
        add = [msgspec.structs.replace(file, path=f"{file.path}-{each}", first=each, last=each) for each in names]
        number = lake.seq = last
        lake.log.commit("export", place=lake.place(), add=add)


if __name__ == "__main__":
    main()
