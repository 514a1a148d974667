"""The snapshot of a lake's tables: existing rows arrive while changes flow, and both together are the source."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay.lake import paths
from relay.lake.documents import Table, TableState
from relay.lake.exporter import Exporter, Settings
from relay.lake.log import LakeLog
from relay.lake.snapshot.run import Progress, Snapshots
from relay.lake.storage import open_storage
from tests.lakerows import difference, selected
from tests.lakestate import current
from tests.readerproc import Reader

MakeReader = Callable[..., Reader]


class Lake:
    """A lake of one database: a reader in a process, an export in this one, step by step or in a thread."""

    def __init__(self, server: DatabaseServer, db: str, folder: Path, make_reader: MakeReader) -> None:
        self.server, self.db = server, db
        self.reader = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
        self.reader.until(lambda: self.reader.arena.committed)
        self.storage = open_storage(str(folder / "lake"))
        self.log = LakeLog(self.storage)
        self.exporter = Exporter(self.storage, self.reader.journal_dir, Settings(roll_seconds=0))
        self.records: list[str] = []
        self.shown: list[Progress] = []
        self.export()

    def note(self, event: str, **fields: object) -> None:
        self.records.append(" ".join([event, *(f"{key}={value}" for key, value in fields.items())]))

    def snapshots(self, **more: Any) -> Snapshots:
        return Snapshots(
            self.reader.context.config, self.storage, [f"{self.db}.*"], self.note, show=self.shown.append, **more
        )

    def known(self, table: str) -> TableState:
        return self.log.state().tables[paths.table_key(Table(self.db, table))]

    def fetch(self, **more: Any) -> None:
        """All that is to be fetched."""
        with self.snapshots(**more) as snapshots:
            for table in snapshots.todo():
                snapshots.fetch(table)

    def export(self) -> None:
        """What the source has written by now."""
        [(file, position, *_)] = self.server.execute(
            "SHOW BINARY LOG STATUS" if self.server.kind.mysql else "SHOW MASTER STATUS"
        )
        arena, until = self.reader.arena, time.monotonic() + 5
        while (arena.source()["file"], arena.source()["position"]) < (file, position):
            assert time.monotonic() < until, (arena.source(), file, position)
            time.sleep(0.01)
        committed = arena.committed
        while self.exporter.step(roll=True).place.position < committed:
            assert time.monotonic() < until, "what was read is not flushed"
            time.sleep(0.01)

    @contextmanager
    def exporting(self) -> Iterator[None]:
        """The export goes on by itself meanwhile."""
        with running(lambda: self.exporter.step(roll=True)):
            yield

    def check(self, *tables: str) -> None:
        """The lake's state of the tables is what SELECT says."""
        for table in tables:
            fields, rows = current(str(self.storage.url()), Table(self.db, table))
            wanted = Counter(selected(self.server, self.db, table, fields))
            assert wanted == rows, difference(wanted, rows, fields)


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[None]:
    """Does each over and over, in a thread of its own; what goes wrong there goes wrong here."""
    ended, failures = threading.Event(), list[BaseException]()

    def over_and_over(work: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                work()
                time.sleep(0.001)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=over_and_over, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


@pytest.fixture
def make_lake(server: DatabaseServer, db: str, tmp_path: Path, make_reader: MakeReader) -> Callable[[], Lake]:
    return lambda: Lake(server, db, tmp_path, make_reader)


def test_rows_of_before_and_changes_of_after_are_the_table(
    server: DatabaseServer, db: str, make_lake: Callable[[], Lake]
) -> None:
    server.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DATE)",
        "INSERT INTO t VALUES (1, 'one', '2024-02-29'), (2, 'two', NULL), (3, NULL, '2024-01-01')",
        "CREATE TABLE none (id INT PRIMARY KEY)",
    )
    lake = make_lake()
    lake.fetch()
    assert lake.known("t").complete_from is not None
    lake.check("t", "none")
    server.execute(f"UPDATE {db}.t SET v = 'TWO', id = 7 WHERE id = 2", f"DELETE FROM {db}.t WHERE id = 3")
    server.execute(f"INSERT INTO {db}.t VALUES (9, 'nine', NULL)", f"INSERT INTO {db}.none VALUES (5)")
    lake.export()
    lake.check("t", "none")
    lake.fetch()
    assert len([line for line in lake.records if line.startswith("snapshot_begins ")]) == 2
