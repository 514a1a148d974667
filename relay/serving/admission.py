"""Limits on the number of connections of a server process, and on the time to log in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.config.tree import Config
from relay.net.accept import LOGIN_SECONDS, RESERVED_DESCRIPTORS, descriptors_for
from relay.serving.connection import Connection

ADMIN_SECONDS: Final = 5.0
"""Time that a connection beyond the limits has to send an admin command."""

MOST_EXTRA: Final = RESERVED_DESCRIPTORS // 2
"""Connections beyond the limits: those that get the reason, and those that may send admin commands."""

_FULL: Final = 1 << 32
"""Flag next to a process's number of connections: it has no descriptor left for another one."""

_WITH_TLS: Final = 3
"""Descriptors of a connection with TLS: its socket, and both ends of the socket pair behind the bridge."""


class Admission:
    """Check MaxConnections, a limit for all processes together, and the descriptors of this process."""

    def __init__(self, connections: memoryview[int], index: int, config: Config) -> None:
        self._connections = connections
        self._index = index
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Use this configuration from now on."""
        self._max_connections = config.server.max_connections
        self.descriptors_each = 1 if config.server.tls == "off" else _WITH_TLS
        """Descriptors of one connection."""
        self._descriptors = descriptors_for(self._max_connections * self.descriptors_each)

    def publish(self, connections: int, descriptors: int) -> None:
        """Publish the number of this process's connections to the other processes."""
        self._connections[self._index] = connections | (_FULL if self.reason_without_descriptor(descriptors) else 0)

    def reason_to_reject(self, descriptors: int) -> str:
        """Why a connection cannot be admitted, "" if it can. `descriptors`: those of this process's connections."""
        if sum(count % _FULL for count in self._connections) >= self._max_connections:
            return f"too many connections (MaxConnections = {self._max_connections})"
        return self.reason_without_descriptor(descriptors)

    def reason_without_descriptor(self, descriptors: int) -> str:
        """Why there is no descriptor for another connection, "" if there is one."""
        if descriptors + self.descriptors_each > self._descriptors:
            return "the server process has no file descriptor left for another connection (LimitNOFILE, ulimit -n)"
        return ""

    def others_have_descriptors(self, descriptors: int) -> bool:
        """Whether this process has no descriptor left while another one has."""
        others = (count for index, count in enumerate(self._connections) if index != self._index)
        return bool(self.reason_without_descriptor(descriptors)) and any(count < _FULL for count in others)


class Newcomers:
    """Connections that have not identified themselves yet. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._due: dict[Connection, float] = {}
        self._extra: dict[Connection, str] = {}  # why they cannot be admitted

    @property
    def extra(self) -> int:
        """Connections beyond the limits."""
        return len(self._extra)

    def add(self, connection: Connection, now: float, reason: str = "") -> None:
        """Add a connection; a non-empty `reason` says why it cannot be admitted."""
        self._due[connection] = now + (ADMIN_SECONDS if reason else LOGIN_SECONDS)
        if reason:
            self._extra[connection] = reason

    def reason_to_reject(self, connection: Connection) -> str:
        """Why the connection cannot be admitted, "" if it can."""
        return self._extra.get(connection, "")

    def identified(self, connection: Connection) -> None:
        """Drop the deadline of a connection that has identified itself."""
        self._due.pop(connection, None)

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.identified(connection)
        self._extra.pop(connection, None)

    def pop_late(self, now: float) -> Iterator[Connection]:
        """Remove the deadlines that are over, and yield their connections."""
        for connection in [connection for connection, due in self._due.items() if due <= now]:
            del self._due[connection]
            yield connection
