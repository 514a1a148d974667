"""`make bench-lake`: merges of open tables beside deltalake's, with the same changes and the same rows in the end.

50,000 updates scattered over a table, from committed changes to a committed table. deltalake gets the last rows of the
changes from the same files. SCALE=n makes the tables n times as large; `python -m bench.open_tables ROWS...` measures
narrow tables of other sizes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.report import Report
from relay.lake.delta.table import Merged, OpenTable, folder_of
from relay.lake.documents import ExportPosition, Field, LakeState, Marker, Table, TableVersion
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.lake.types import META_FIELDS, arrow_type
from relay.lake.writer import seal

ROWS = (1_000_000, 10_000_000)
UPDATES = 50_000
ROUNDS = 7  # merges; each sixth compacts
LIMIT = 0.5  # of deltalake's time
MOST_BYTES = 20  # written for each byte of changes, compaction included
MOST_MEMORY = 512 << 20
BATCH = 250_000
TABLE = Table("bench", "orders")
NARROW = ("bigint", "int", "double", "string")
WIDE = (*NARROW, *("bigint", "string") * 10)


class BenchLake:
    """A lake of one table with a key, and its copy in deltalake's table."""

    def __init__(self, folder: Path, types: tuple[str, ...], rows: int) -> None:
        self.chance = np.random.default_rng(43)
        self.rows = rows
        self.folder = folder
        self.copy = str(folder / "copy")
        self.storage = open_storage(str(folder / "lake"))
        self.log = LakeLog(self.storage)
        fields = [Field(f"c{at}", kind, f"c{at}", kind) for at, kind in enumerate(types)]
        self.version = TableVersion(TABLE, 1, 1, fields, ["c0"])
        self.seq = 1
        marker = Marker(TABLE, "create", 1, 1, "create")
        self.log.commit("export", place=self.place(), versions=[self.version], markers=[marker])

    def fill(self, batch: int = BATCH) -> Iterator[pa.Table]:
        """Insert all rows, in files of so many; yield them."""
        for begin in range(0, self.rows, batch):
            rows = self._values(np.arange(begin, min(self.rows, begin + batch)), 0)
            self._commit(rows, "insert")
            yield rows

    def update(self, turn: int, count: int = UPDATES) -> pa.Table:
        """Update rows all over the table; return the new rows."""
        some = np.unique(self.chance.integers(0, self.rows, 2 * count))
        rows = self._values(self.chance.permutation(some)[:count], turn)
        self._commit(rows, "update_postimage")
        return rows

    def state(self) -> LakeState:
        return self.log.state()

    def _values(self, numbers: NDArray[np.int64], turn: int) -> pa.Table:
        chance = self.chance
        count = len(numbers)
        columns: dict[str, pa.Array] = {}
        for field in self.version.fields:
            if field.name == "c0":
                values = pa.array(numbers)
            elif field.type == "string":
                digits = pa.array(chance.integers(0, 1 << 20, count)).cast(pa.string())
                values = pc.binary_join_element_wise("value", digits, " ")
            elif field.type == "double":
                values = pa.array(chance.random(count))
            else:
                values = pa.array(chance.integers(0, 1 << 30, count) + turn).cast(arrow_type(field.type))
            columns[field.name] = values
        return pa.table(columns)

    def _commit(self, rows: pa.Table, kind: str) -> None:
        count = rows.num_rows
        meta = {
            "_change_type": kind, "_commit_version": self.seq + count, "_commit_timestamp": 0, "_file": "binlog.000001",
            "_pos": 4, "_gtid": "", "_schema_version": 1,
        }  # fmt: skip
        for field in META_FIELDS:
            values = pa.array(np.arange(self.seq + 1, self.seq + 1 + count))
            if field.name != "_seq":
                values = pa.repeat(pa.scalar(meta[field.name]).cast(arrow_type(field.type)), count)
            rows = rows.append_column(field.name, values)
        self.seq += count
        file = seal(self.storage, self.version, "2026-11-20", "changes", rows.combine_chunks().to_batches())
        self.log.commit("export", place=self.place(), add=[file])

    def place(self) -> ExportPosition:
        return ExportPosition(1, 0, 64 + self.seq, self.seq, "binlog.000001", 4 + self.seq, "", "bench", 0)


def main(sizes: Sequence[int]) -> None:
    """Measure and print everything, or narrow tables of these sizes."""
    scale = float(os.environ.get("SCALE") or 1)
    report = Report()
    shapes = {"narrow": NARROW} if sizes else {"narrow": NARROW, "wide": WIDE}
    for rows in sizes or ROWS:
        for name, types in shapes.items():
            with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
                measure(report, BenchLake(Path(folder), types, int(rows * scale)), name)
    report.finish()


def measure(report: Report, lake: BenchLake, name: str) -> None:
    """Merge the same updates in turn, and compare the rows in the end."""
    report.part(f"open tables: {UPDATES:,} scattered updates of {lake.rows:,} {name} rows")
    report.step("filling")
    for rows in lake.fill(max(BATCH, lake.rows // 100)):
        deltalake.write_deltalake(lake.copy, rows, mode="append")
    ours: list[float] = []
    theirs: list[float] = []
    written = changed = 0
    # A process of its own, which has the memory of a relay's merger, and begins with nothing of this one's.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as merger:
        merged = merger.submit(merge, lake.folder).result()
        singles = []
        while merged.bytes > lake.rows // 10:  # the files of the first merge become larger ones, once
            report.step("compacting")
            singles.append(lake.update(0, 1))
            merged = merger.submit(merge, lake.folder).result()
        if singles:
            merge_with_deltalake(lake.copy, pa.concat_tables(singles))
        for turn in range(1, ROUNDS + 1):
            report.step(f"merge {turn}")
            rows = lake.update(turn)
            merged = merger.submit(merge, lake.folder).result()
            ours.append(merged.seconds)
            begin = time.perf_counter()
            merge_with_deltalake(lake.copy, rows)
            theirs.append(time.perf_counter() - begin)
            written += merged.bytes
            changed += next(reversed(lake.state().tables[f"{TABLE}"].files.values())).bytes
        peak = merger.submit(peak_memory).result()
    assert checksums(lake) == checksums_of_copy(lake.copy), "the rows differ"
    report.ratio("merge", ours, theirs, "s", of="deltalake's merge", at_most=LIMIT)
    report.ratio("bytes written", [written], [changed], "B", of="bytes of changes", at_most=MOST_BYTES)
    report.figure("memory of the merging process (RSS), most", [peak], "B", at_most=MOST_MEMORY)


_opened: dict[Path, tuple[LakeLog, OpenTable]] = {}


def merge(folder: Path) -> Merged:
    """Bring the open table of a BenchLake up to its lake, as the relay's merger does it."""
    if folder not in _opened:
        storage = open_storage(str(folder / "lake"))
        _opened[folder] = LakeLog(storage), OpenTable(storage, TABLE)
    log, table = _opened[folder]
    state = log.state()
    merged = table.update(state, state.tables[f"{TABLE}"])
    assert merged is not None, "there were no changes"
    return merged


def peak_memory() -> int:
    """Return the most memory that this process had, in bytes; what it shares with others included.

    Not by getrusage, whose figure is that of the process which forked this one, if that had more.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def merge_with_deltalake(copy: str, rows: pa.Table) -> None:
    """Merge the rows as deltalake does it."""
    (
        deltalake.DeltaTable(copy)
        .merge(rows, "t.c0 = s.c0", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def checksums(lake: BenchLake) -> list[object]:
    return _sums(str(lake.folder / "lake" / folder_of(TABLE)))


def checksums_of_copy(copy: str) -> list[object]:
    return _sums(copy)


def _sums(path: str) -> list[object]:
    query = "select count(*), sum(c0), sum(c1), sum(c0 % 1000 * c1), max(c3) from t"
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    found: list[object] = pa.table(engine.execute(query).read_all()).to_pylist()
    return found


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]])
