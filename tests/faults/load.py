"""A load that runs until stopped, knows when each of its rows was committed, and can pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pymysql

from examples.dbserver import DatabaseServer
from tests.support.waiting import patience, until
from tests.support.workload import Values, Workload

Visible: TypeAlias = dict[str, set[tuple[int, str | None, bool]]]


@dataclass
class TimedWorkload(Workload):
    """`times[i]` is when `changes[i]` was committed, by the monotonic clock."""

    times: list[float] = field(default_factory=list)

    def _transaction(self) -> None:
        super()._transaction()
        self.times += [time.monotonic()] * (len(self.changes) - len(self.times))


class SurvivingWorkload(TimedWorkload):
    """Goes on when the server has broken off and is there again, and finds out whether its last COMMIT was one."""

    def _transaction(self) -> None:
        before = {table: dict(rows) for table, rows in self.rows.items()}
        try:
            super()._transaction()
        except pymysql.MySQLError:
            self.connection = until(self._connected, 120, "the server does not come back", 0.1)
            after, pending = self.rows, self._pending
            self.rows, self._pending = before, []
            if pending and self._stored() == _visible(after):
                self.rows = after
                self.changes += pending
                self.times += [time.monotonic()] * len(pending)
            assert self._stored() == _visible(self.rows), "a transaction was committed by half"

    def _connected(self) -> Any:
        try:
            return self.server.connect(database=self.database)
        except pymysql.MySQLError:
            return None

    def _stored(self) -> Visible:
        with self.connection.cursor() as cursor:
            found: Visible = {}
            for table in self.tables:
                cursor.execute(f"SELECT id, name, price IS NULL FROM {table}")
                found[table] = {(number, name, bool(null)) for number, name, null in cursor.fetchall()}
        return found


def _visible(rows: dict[str, dict[int, Values]]) -> Visible:
    """As much of the rows as any statement of the workload changes."""
    return {
        table: {(number, row["name"], row["price"] is None) for number, row in rows_of.items()}
        for table, rows_of in rows.items()
    }


class Load:
    """Runs a workload in a thread from `start` to `stop`, with `pause` seconds after each transaction."""

    def __init__(self, workload: TimedWorkload, pause: float) -> None:
        self.workload = workload
        self._pause = pause
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it after the transaction that runs; raises what the workload failed with."""
        self._stop.set()
        self._thread.join(patience(60))
        assert not self._thread.is_alive(), "a statement of the load does not end"
        self.workload.close()
        if self._failure:
            raise self._failure

    @contextmanager
    def paused(self, server: DatabaseServer | None = None) -> Iterator[None]:
        """No transaction and no connection meanwhile; afterwards it goes on, at `server` if one is given."""
        with self._turn:
            self.workload.connection.close()
            yield
            self.workload.server = server or self.workload.server
            self.workload.connection = self.workload.server.connect(database=self.workload.database)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with self._turn:
                    self.workload.run(1)
                self._stop.wait(self._pause)
        except BaseException as error:  # told to the thread that ends the load
            self._failure = error
