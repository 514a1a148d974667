"""How many connections a server process takes, and how long each may take to log in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.config import Config
from relay.serving.accepting import RESERVED_DESCRIPTORS, descriptors_for
from relay.serving.peer import Peer

LOGIN_SECONDS: Final = 30.0
"""How long a connection may take to log in, or to give its first admin command."""

ADMIN_SECONDS: Final = 5.0
"""The same for one that came for an admin command while all connections were taken."""

MOST_EXTRA: Final = RESERVED_DESCRIPTORS // 2
"""Connections beyond the limits: those that are being told why, and those that may give admin commands."""

_FULL: Final = 1 << 32
"""Beside a process's number of connections: it has no descriptor left for another one."""

_WITH_TLS: Final = 3
"""Descriptors of a connection with TLS: its socket, and both ends of the one behind the bridge."""


class Room:
    """What is left of MaxConnections, which holds for all processes, and of the descriptors of this one."""

    def __init__(self, connections: memoryview[int], index: int, config: Config) -> None:
        self._connections = connections
        self._index = index
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Go by this configuration from now on."""
        self._most = config.server.max_connections
        self.each = 1 if config.server.tls == "off" else _WITH_TLS
        """Descriptors of a connection."""
        self._descriptors = descriptors_for(self._most * self.each)

    def publish(self, connections: int, descriptors: int) -> None:
        """Tell the other processes how many connections this one has."""
        self._connections[self._index] = connections | (_FULL if self.exhausted(descriptors) else 0)

    def full(self, descriptors: int) -> str:
        """Why there is no room, "" if there is. `descriptors`: those that this process's connections have."""
        if sum(count % _FULL for count in self._connections) >= self._most:
            return f"too many connections (MaxConnections = {self._most})"
        return self.exhausted(descriptors)

    def exhausted(self, descriptors: int) -> str:
        """The same, where the connection is one of MaxConnections already."""
        if descriptors + self.each > self._descriptors:
            return "the server process has no file descriptor left for another connection (LimitNOFILE, ulimit -n)"
        return ""

    def is_elsewhere(self, descriptors: int) -> bool:
        """Whether this process has no descriptor left while another one has."""
        others = (count for index, count in enumerate(self._connections) if index != self._index)
        return bool(self.exhausted(descriptors)) and any(count < _FULL for count in others)


class Newcomers:
    """Connections that have not shown yet who they are. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._due: dict[Peer, float] = {}
        self._extra: dict[Peer, str] = {}  # why there is no room for them

    @property
    def extra(self) -> int:
        """Connections beyond the limits."""
        return len(self._extra)

    def add(self, peer: Peer, now: float, full: str = "") -> None:
        """A connection came, for which there is no room if `full` says why."""
        self._due[peer] = now + (ADMIN_SECONDS if full else LOGIN_SECONDS)
        if full:
            self._extra[peer] = full

    def refusal(self, peer: Peer) -> str:
        """Why there is no room for the connection, "" if there is."""
        return self._extra.get(peer, "")

    def known(self, peer: Peer) -> None:
        """The connection has shown who it is."""
        self._due.pop(peer, None)

    def gone(self, peer: Peer) -> None:
        """The connection is closed."""
        self.known(peer)
        self._extra.pop(peer, None)

    def late(self, now: float) -> Iterator[Peer]:
        """Those whose time is over."""
        for peer in [peer for peer, due in self._due.items() if due <= now]:
            del self._due[peer]
            yield peer
