"""A client in its own thread that records received rows and repeats, across reconnects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from relay.client import RelayClient, Row
from tests.support.relay_process import SECRET
from tests.support.waiting import patience, until
from tests.support.workload import Change


class Consumer:
    """Iterates over a RelayClient's rows until stopped. `rows` are as delivered, without repeats, which are counted."""

    def __init__(self, port: int, name: str, add_filters: Callable[[RelayClient], None]) -> None:
        self.rows: list[Row] = []
        self.times: list[float] = []  # when each row came, by the monotonic clock
        self.repeated: list[float] = []  # when each repeat came
        self.error: BaseException | None = None
        self._port, self._name, self._add_filters = port, name, add_filters
        self._stop = False
        self._attached = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        assert self._attached.wait(patience(20)), f"{name} did not attach: {self.error!r}"

    def _run(self) -> None:
        try:
            with RelayClient("127.0.0.1", self._port, self._name, SECRET, patience=patience(180)) as client:
                self._add_filters(client)
                self._attached.set()
                while not self._stop:
                    for row in client.poll_many(wait=0.2):
                        self._take(row)
        except BaseException as error:  # raised in the thread that asks for the rows
            self.error = error

    def _take(self, row: Row) -> None:
        if self.rows and row.sequence <= self.rows[-1].sequence:
            first = self.rows[0].sequence
            # If the host's last second is lost, a definition's number may be lost and assigned again.
            before = msgspec.structs.replace(self.rows[row.sequence - first], instance=row.instance)
            assert before == row, "a repeated row differs from the one it repeats"
            self.repeated.append(time.monotonic())
            return
        self.times.append(time.monotonic())
        self.rows.append(row)

    def wait_for(self, count: int, seconds: float = 60) -> None:
        """Returns when there are that many rows."""
        until(
            lambda: len(self.rows) >= count or not self._thread.is_alive(),
            seconds,
            lambda: f"{self._name} has {len(self.rows)} of {count} rows",
            0.01,
        )
        if self.error:
            raise self.error
        assert len(self.rows) >= count, f"{self._name} ended with {len(self.rows)} of {count} rows"

    def stop(self) -> None:
        self._stop = True
        self._thread.join(patience(20))
        if self.error:
            raise self.error

    def changes(self) -> list[Change]:
        return [Change(row.kind, row.table, row.before, row.after) for row in self.rows]
