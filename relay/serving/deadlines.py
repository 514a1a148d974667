"""The deadlines of connections."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping

from relay.serving.connection import Connection


class Deadlines:
    """The last deadline set for each connection, and its kind. Times are monotonic seconds."""

    def __init__(self, connections: Mapping[int, Connection]) -> None:
        self._connections = connections
        self._heap: list[tuple[float, int, int]] = []  # when, number of the connection, its descriptor

    def set(self, connection: Connection, kind: str, due: float, counted: int) -> None:
        """Set the connection's deadline, unless it has one of this kind with the same `counted`."""
        if connection.deadline_kind == kind and connection.counted == counted:
            return
        connection.deadline_kind, connection.counted, connection.due = kind, counted, due
        heapq.heappush(self._heap, (connection.due, connection.number, connection.fd))
        if len(self._heap) > 4 * len(self._connections) + 1000:
            self._heap = [entry for entry in self._heap if self._connection_of(entry) is not None]
            heapq.heapify(self._heap)

    @property
    def first(self) -> float:
        """The earliest time at which a deadline may be over."""
        return self._heap[0][0] if self._heap else math.inf

    def pop_due(self, now: float) -> Iterator[tuple[Connection, str]]:
        """Remove and yield the connections whose deadlines are over, with the kind of each."""
        while self._heap and self._heap[0][0] <= now:
            connection = self._connection_of(heapq.heappop(self._heap))
            if connection is not None:
                kind, connection.deadline_kind = connection.deadline_kind, ""
                yield connection, kind

    def _connection_of(self, entry: tuple[float, int, int]) -> Connection | None:
        """Return the connection of the entry, if the entry is still its deadline."""
        due, number, fd = entry
        connection = self._connections.get(fd)
        if connection is None or connection.number != number:
            return None
        return connection if connection.deadline_kind and connection.due == due else None
