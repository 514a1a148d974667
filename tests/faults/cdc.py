"""A client of the CDC port under faults: when it is cut off, it reconnects and continues at its last GTID."""

from __future__ import annotations

import json

from tests.faults.returning import Returning
from tests.support.cdc_client import CdcClient, HalfLine, Refused, Reset, Row, triplet_of
from tests.support.workload import Change

_KINDS = {"insert": ("insert",), "delete": ("delete",), "update": ("update_before", "update_after")}


class CdcConsumer(Returning):
    """Streams a table as JSON. What is repeated is told by GTID and number within the transaction."""

    CUT = (OSError, EOFError, Reset, Refused, HalfLine)  # refused: it came too early

    def __init__(self, port: int, name: str, schema: str, table: str) -> None:
        self._port, self._schema, self._table = port, schema, table
        self._last: tuple[int, int] = (0, 0)
        self._gtid = ""
        super().__init__(name)

    def wants(self, change: Change) -> bool:
        return change.table == self._table

    def expected(self, wanted: list[Change]) -> list[tuple[str, int]]:
        """Kind and id of each row."""
        return [
            (kind, (change.after if kind != "update_before" and change.after else change.before or {})["id"])
            for change in wanted
            for kind in _KINDS[change.kind]
        ]

    def connection(self) -> None:
        with CdcClient(self._port, timeout=1) as client:
            client.stream(f"{self._schema}.{self._table}", self._gtid)
            while not self.stopping:
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
        again = number <= self._last
        if not again:
            self._last, self._gtid = number, triplet_of(row)
            self.got.append((row["event_type"], row["id"]))
        if row["event_type"] != "update_before":  # the change comes with its other half
            self.came(again)
