"""A client of the classic protocol under faults: it polls row by row and reconnects when it is cut off."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from tests.faults.returning import Returning
from tests.support.readme_client import ReadmeClient
from tests.support.relay_process import SECRET
from tests.support.waiting import patience
from tests.support.workload import Change

INSERT = 1


class ClassicConsumer(Returning):
    """Polls the inserts of a schema. Their ids rise, which tells what came twice: classic rows carry no number."""

    def __init__(self, port: int, name: str, schema: str) -> None:
        self._port, self._schema = port, schema
        self._attached = threading.Event()
        super().__init__(name)
        assert self._attached.wait(patience(20)), f"{name} did not attach: {self.error!r}"

    def wants(self, change: Change) -> bool:
        return change.kind == "insert"

    def expected(self, wanted: list[Change]) -> list[int]:
        return [change.after["id"] for change in wanted if change.after]

    def connection(self) -> None:
        with closing(ReadmeClient(self._port)) as client:
            client.authenticate(SECRET, self.name)
            client.add_filter(INSERT, 0, 0, self._schema, "*")
            self._attached.set()
            while not self.stopping:
                event = client.poll()
                if event is None:
                    time.sleep(0.02)
                    continue
                (number,) = (int(after) for name, _, after in event.columns if name == "id")
                again = bool(self.got) and number <= self.got[-1]
                if not again:
                    self.got.append(number)
                self.came(again)
