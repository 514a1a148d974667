"""Rows at a steady rate beside a test's load, which need not be remembered."""

from __future__ import annotations

import threading
import time

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from tests.support.relay_process import SECRET
from tests.support.waiting import patience

ROWS = 100  # of a transaction


class Noise:
    """Inserts ROWS rows ten times a second and removes as many older ones; a client reads them, in order and once."""

    def __init__(self, port: int, server: DatabaseServer, schema: str) -> None:
        self.received = 0
        self._port, self._server, self._schema = port, server, schema
        self._next = 1
        self._stop = threading.Event()
        self._error: BaseException | None = None
        server.execute(f"CREATE TABLE {schema}.noise (id INT PRIMARY KEY, text VARCHAR(200))")
        with RelayClient("127.0.0.1", port, "noise", SECRET) as client:
            client.add_filter(schema, "noise", kinds="I")
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    @property
    def written(self) -> int:
        """Rows, of those that the client asks for."""
        return self._next - 1

    def stop(self) -> None:
        """End it when everything has come; raises what went wrong."""
        self._stop.set()
        for thread in self._threads:
            thread.join(patience(120))
        if self._error:
            raise self._error
        assert self.received == self.written

    def _guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:  # told to the thread that ends it
            self._error = error

    def _write(self) -> None:
        connection = self._server.connect(database=self._schema)
        with connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                begin = time.monotonic()
                rows = ", ".join(f"({self._next + i}, REPEAT('x', 100))" for i in range(ROWS))
                cursor.execute(f"INSERT INTO noise VALUES {rows}")
                cursor.execute(f"DELETE FROM noise WHERE id <= {self._next - 10 * ROWS}")
                connection.commit()
                self._next += ROWS
                self._stop.wait(begin + 0.1 - time.monotonic())

    def _read(self) -> None:
        with RelayClient("127.0.0.1", self._port, "noise", SECRET) as client:
            while not self._stop.is_set() or self.received < self.written:
                for row in client.poll_many(wait=1.0):
                    assert row.after
                    assert row.after["id"] == self.received + 1
                    self.received += 1
