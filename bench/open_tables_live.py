"""`make bench-lake`: how soon a commit at the source is in an open table, at a steady rate, and what that takes.

Ten minutes of changes beside a running relay with `MergeSeconds = 2`: half of them insert rows, half update rows that
are scattered over a million. SCALE=n runs n times as long.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from statistics import median, quantiles

import msgspec
import psutil

from bench.report import Report
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from relay.lake.delta.log import DeltaLog
from relay.lake.delta.table import APPLIED, folder_of
from relay.lake.documents import Table
from relay.lake.storage import open_storage
from tests.support.relay_process import RelayProcess, write_conf
from tests.support.waiting import until

RATE = 10_000  # changes a second
EACH = 250  # inserts, and updates, of a transaction
SECONDS = 600
ROWS = 1_000_000
TABLE = Table("bench", "steady")
MOST_SECONDS = 5.0  # from the commit to the table, p99
MOST_GROWTH = 1.5  # of the delay, from the first third of the time to the last
MOST_DISK = 3.0  # of the table's bytes
MOST_MEMORY = 512 << 20
_PAUSE = 0.02
_SAMPLE_SECONDS = 5.0


class Watch(threading.Thread):
    """Notes when the open table had which `_seq`; and, now and then, its disk and the memory of the merger."""

    def __init__(self, lake: Path, pid: int) -> None:
        super().__init__(daemon=True)
        self.reached: list[tuple[int, float]] = []
        self.disk: list[float] = []
        self.memory: list[int] = []
        self.ended = threading.Event()
        self._storage = open_storage(str(lake))
        self._folder = lake / folder_of(TABLE)
        self._merger = psutil.Process(pid)
        self._version = DeltaLog(self._storage, folder_of(TABLE)).version

    def run(self) -> None:
        sample_at = 0.0
        while not self.ended.wait(_PAUSE):
            commit = self._folder / "_delta_log" / f"{self._version + 1:020}.json"
            if commit.exists():
                self._version += 1
                self.reached.append((applied(commit), time.time()))
            if time.time() >= sample_at:
                sample_at = time.time() + _SAMPLE_SECONDS
                self.memory.append(self._merger.memory_full_info().pss)
                taken = sum(each.stat().st_size for each in self._folder.rglob("*") if each.is_file())
                live = sum(add.size for add in DeltaLog(self._storage, folder_of(TABLE)).files.values())
                self.disk.append(taken / live)


def applied(commit: Path) -> int:
    """Return the `_seq` of a commit of the table."""
    lines = (msgspec.json.decode(line) for line in commit.read_bytes().splitlines())
    return next(int(each["txn"]["version"]) for each in lines if each.get("txn", {}).get("appId") == APPLIED)


def main() -> None:
    """Measure and print everything."""
    seconds = SECONDS * float(os.environ.get("SCALE") or 1)
    report = Report()
    report.part(f"open tables: {RATE:,} changes a second for {seconds:.0f} s, half of them in {ROWS:,} rows")
    with (
        DatabaseServer("mysql97", options=("--binlog-row-metadata=FULL",)) as server,
        tempfile.TemporaryDirectory(prefix="relay-bench-") as folder,
    ):
        server.execute("CREATE DATABASE bench")
        lake = Path(folder) / "lake"
        settings = {"Lake.Path": str(lake), "Lake.OpenTables": "delta", "Lake.MergeSeconds": 2, "Lake.RollSeconds": 2}
        relay = RelayProcess(write_conf(Path(folder), server, settings))
        try:
            relay.start()
            report.step("filling")
            create(server, TABLE.table, NARROW)
            insert(server, TABLE.table, NARROW_VALUES, 1, ROWS)
            until(lambda: rows_of(relay) == ROWS, 300, pause=1)
            measure(report, server, relay, lake, seconds)
            relay.stop()
        finally:
            relay.end()
    report.finish()


def rows_of(relay: RelayProcess) -> int:
    """Return the rows that the open table has, by the stat document."""
    tables = relay.stat()["lake"]["open_tables"]["tables"]
    return sum(table["rows"] for table in tables if table["table"] == TABLE.table)


def measure(report: Report, server: DatabaseServer, relay: RelayProcess, lake: Path, seconds: float) -> None:
    """Change rows at a steady rate, and compare the times of commits with those of the table."""
    first = DeltaLog(open_storage(str(lake)), folder_of(TABLE)).transactions[APPLIED]
    watch = Watch(lake, relay.pids()["merger"])
    watch.start()
    committed = change(report, server, seconds)
    last = first + len(committed) * 2 * EACH
    until(lambda: watch.reached and watch.reached[-1][0] >= last, 120)
    watch.ended.set()
    watch.join()
    assert watch.reached[-1][0] == last, "the changes are not numbered one by one"
    assert rows_of(relay) == ROWS + len(committed) * EACH, "the table has other rows"
    delays, at = [], 0
    for number, moment in enumerate(committed, 1):
        while watch.reached[at][0] < first + number * 2 * EACH:
            at += 1
        delays.append(watch.reached[at][1] - moment)
    third = len(delays) // 3
    report.figure(
        "rate", [len(committed) * 2 * EACH / (committed[-1] - committed[0])], "changes/s", at_least=0.98 * RATE
    )
    report.figure("commit to open table, median", [median(delays)], "s")
    report.figure("commit to open table, p99", [quantiles(delays, n=100)[-1]], "s", at_most=MOST_SECONDS)
    late, early = (quantiles(part, n=100)[-1] for part in (delays[-third:], delays[:third]))
    report.ratio("p99 of the last third", [late], [early], "s", of="of the first", at_most=MOST_GROWTH)
    report.figure("disk, most", [max(watch.disk)], "x the table", at_most=MOST_DISK)
    report.figure("memory of the merger (PSS), most", [max(watch.memory)], "B", at_most=MOST_MEMORY)


def change(report: Report, server: DatabaseServer, seconds: float) -> list[float]:
    """Insert and update rows, and return the times of the commits."""
    chance, committed = Random(43), list[float]()
    interval = 2 * EACH / RATE
    begin = time.time()
    shown = begin
    with server.connect() as connection, connection.cursor() as cursor:
        connection.autocommit(False)
        while time.time() - begin < seconds:
            first = ROWS + 1 + len(committed) * EACH
            cursor.execute(
                f"INSERT INTO {TABLE} WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL"
                f" SELECT n + 1 FROM numbers WHERE n + 1 < {first + EACH}) SELECT {NARROW_VALUES} FROM numbers"
            )
            ids = ", ".join(map(str, chance.sample(range(1, ROWS + 1), EACH)))
            cursor.execute(f"UPDATE {TABLE} SET amount = amount + 1 WHERE id IN ({ids})")
            connection.commit()
            committed.append(time.time())
            if time.time() - shown > 30:
                shown = time.time()
                report.step(f"{shown - begin:.0f} of {seconds:.0f} s")
            time.sleep(max(0.0, begin + len(committed) * interval - time.time()))
    return committed


if __name__ == "__main__":
    main()
