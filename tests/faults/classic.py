"""A client of the classic protocol under faults: it polls row by row and connects again whenever it is cut off."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from tests.readme_client import ReadmeClient
from tests.relayproc import SECRET
from tests.workload import Change

INSERT = 1


class ClassicConsumer:
    """Polls the inserts of a schema. Their ids rise, which tells what came twice: classic rows carry no number."""

    def __init__(self, port: int, name: str, schema: str) -> None:
        self.name = name
        self.ids: list[int] = []
        self.times: list[float] = []
        self.repeated: list[float] = []
        self._port, self._schema = port, schema
        self._stop = False
        self._attached = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        assert self._attached.wait(20), f"{name} did not attach: {self._error!r}"

    def wants(self, change: Change) -> bool:
        return change.kind == "insert"

    def check(self, wanted: list[Change]) -> None:
        """It has exactly these, in order."""
        ids = [change.after["id"] for change in wanted if change.after]
        assert self.ids == ids, f"{self.name}: {len(self.ids)} rows of {len(ids)}, or in another order"

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
                except OSError:  # cut off: as scripts do, come back
                    time.sleep(0.05)
        except BaseException as error:  # told to the thread that asks
            self._error = error

    def _connection(self) -> None:
        with closing(ReadmeClient(self._port)) as client:
            client.authenticate(SECRET, self.name)
            client.add_filter(INSERT, 0, 0, self._schema, "*")
            self._attached.set()
            while not self._stop:
                event = client.poll()
                if event is None:
                    time.sleep(0.02)
                    continue
                (number,) = (int(after) for name, _, after in event.columns if name == "id")
                if self.ids and number <= self.ids[-1]:
                    self.repeated.append(time.monotonic())
                else:
                    self.times.append(time.monotonic())
                    self.ids.append(number)
