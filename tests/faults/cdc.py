"""A client of the CDC port under faults: whenever it is cut off it comes back, and goes on at the GTID it saw last."""

from __future__ import annotations

import json
import threading
import time

from tests.cdcclient import CdcClient, Refused, Reset, Row, triplet_of
from tests.workload import Change

_KINDS = {"insert": ("insert",), "delete": ("delete",), "update": ("update_before", "update_after")}


class CdcConsumer:
    """Streams a table as JSON. What is repeated is told by GTID and number within the transaction."""

    def __init__(self, port: int, name: str, schema: str, table: str) -> None:
        self.name = name
        self.rows: list[tuple[str, int]] = []  # kind and id
        self.times: list[float] = []  # of whole changes
        self.repeated: list[float] = []
        self._port, self._schema, self._table = port, schema, table
        self._last: tuple[int, int] = (0, 0)
        self._gtid = ""
        self._stop = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wants(self, change: Change) -> bool:
        return change.table == self._table

    def check(self, wanted: list[Change]) -> None:
        """It has exactly these, in order."""
        rows = [
            (kind, (change.after if kind != "update_before" and change.after else change.before or {})["id"])
            for change in wanted
            for kind in _KINDS[change.kind]
        ]
        assert self.rows == rows, f"{self.name}: {len(self.rows)} rows of {len(rows)}, or in another order"

    def stop(self) -> None:
        self._stop = True
        self._thread.join(20)
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop:
                try:
                    self._connection()
                except (
                    OSError,
                    EOFError,
                    Reset,
                    Refused,
                    AssertionError,
                ):  # cut off, perhaps within a line; or too early
                    time.sleep(0.05)
        except BaseException as error:  # told to the thread that asks
            self._error = error

    def _connection(self) -> None:
        with CdcClient(self._port, timeout=1) as client:
            client.stream(f"{self._schema}.{self._table}", self._gtid)
            while not self._stop:
                try:
                    line = client.line()
                except TimeoutError:  # nothing happens: no reason to leave
                    continue
                if line.startswith(b"ERR"):
                    raise Refused(line.decode())
                row = json.loads(line)
                if "namespace" not in row:  # which a schema has
                    self._take(row)

    def _take(self, row: Row) -> None:
        number = row["sequence"], row["event_number"]
        if number <= self._last:
            if row["event_type"] != "update_before":
                self.repeated.append(time.monotonic())
            return
        self._last, self._gtid = number, triplet_of(row)
        self.rows.append((row["event_type"], row["id"]))
        if row["event_type"] != "update_before":
            self.times.append(time.monotonic())
