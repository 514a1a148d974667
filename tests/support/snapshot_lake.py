"""A lake of one database for tests of the snapshot, and writers that keep its tables busy."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pymysql

from examples.dbserver import DatabaseServer
from relay.journal import maintenance
from relay.lake import paths
from relay.lake.documents import Table, TableState
from relay.lake.exporter import Exporter, Settings
from relay.lake.log import LakeLog
from relay.lake.snapshot.run import Progress, Snapshots
from relay.lake.storage import open_storage
from tests.support.lake_rows import difference, selected
from tests.support.lake_state import current
from tests.support.reader_process import Reader
from tests.support.source_rows import binlog_end

MakeReader = Callable[..., Reader]


def reading(server: DatabaseServer, db: str, make_reader: MakeReader) -> Reader:
    """A reader of one database that flushes its journal at once."""
    with patch.object(maintenance, "SECONDS", 0.01):  # in the process that is forked here
        return make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()


def read_up(reader: Reader, server: DatabaseServer) -> int:
    """Waits until all that the source has written is journaled and flushed; returns the journal's position then."""
    end, arena = binlog_end(server), reader.arena
    reader.until(lambda: (arena.source()["file"], arena.source()["position"]) >= end)
    committed = arena.committed
    reader.until(lambda: arena.flushed >= committed)
    return committed


class Lake:
    """A lake of one database: a reader in a process, an export in this one, step by step or in a thread."""

    def __init__(self, server: DatabaseServer, db: str, folder: Path, make_reader: MakeReader) -> None:
        self.server, self.db = server, db
        self.reader = reading(server, db, make_reader)
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
        more = {"show": self.shown.append} | more
        return Snapshots(self.reader.context.config, self.storage, [f"{self.db}.*"], self.note, **more)

    def known(self, table: str) -> TableState:
        return self.log.state().tables[paths.table_key(Table(self.db, table))]

    def fetch(self, **more: Any) -> None:
        """Fetches all tables."""
        with self.snapshots(**more) as snapshots:
            for table in snapshots.todo():
                snapshots.fetch(table)

    def export(self) -> None:
        """Exports what the source has written so far."""
        committed = read_up(self.reader, self.server)
        while self.exporter.step(roll=True).place.position < committed:
            pass

    @contextmanager
    def exporting(self) -> Iterator[None]:
        """The export runs by itself within the block."""
        with running(lambda: self.exporter.step(roll=True)):
            yield

    def check(self, *tables: str) -> None:
        """Checks that the lake's state of the tables equals their SELECT."""
        for table in tables:
            fields, rows = current(str(self.storage.url()), Table(self.db, table))
            wanted = Counter(selected(self.server, self.db, table, fields))
            assert wanted == rows, difference(wanted, rows, fields)


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[None]:
    """Repeats each function in its own thread within the block. Failures are raised here."""
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


def writer(server: DatabaseServer, db: str, seed: int, statements: Callable[[random.Random], Sequence[str]]) -> Any:
    """A function for `running`: transactions of random statements over its own connection.

    It handles deadlocks itself.
    """
    chance = random.Random(seed)
    connection = server.connect(database=db, autocommit=False)

    def work() -> None:
        try:
            with connection.cursor() as cursor:
                for statement in statements(chance):
                    cursor.execute(statement)
            connection.commit()
        except pymysql.err.OperationalError as error:
            if error.args[0] not in (1205, 1213):
                raise
            connection.rollback()

    return work
