"""The deadlines of connections."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping

from relay.serving.peer import Peer


class Deadlines:
    """What each connection waits for, and until when: one deadline each, the last that was set. Monotonic seconds."""

    def __init__(self, peers: Mapping[int, Peer]) -> None:
        self._peers = peers
        self._heap: list[tuple[float, int, int]] = []  # when, number of the peer, its descriptor

    def set(self, peer: Peer, about: str, due: float, mark: int) -> None:
        """Set the peer's deadline, unless it has this one, with this `mark`, already."""
        if peer.timed == about and peer.mark == mark:
            return
        peer.timed, peer.mark, peer.due = about, mark, due
        heapq.heappush(self._heap, (peer.due, peer.number, peer.fd))
        if len(self._heap) > 4 * len(self._peers) + 1000:
            self._heap = [entry for entry in self._heap if self._timed(entry) is not None]
            heapq.heapify(self._heap)

    @property
    def first(self) -> float:
        """When the first one may be over."""
        return self._heap[0][0] if self._heap else math.inf

    def over(self, now: float) -> Iterator[tuple[Peer, str]]:
        """The peers whose deadlines are over, and what those were about; they have none any more."""
        while self._heap and self._heap[0][0] <= now:
            peer = self._timed(heapq.heappop(self._heap))
            if peer is not None:
                about, peer.timed = peer.timed, ""
                yield peer, about

    def _timed(self, entry: tuple[float, int, int]) -> Peer | None:
        """The peer whose deadline the entry is, if it still is one."""
        due, number, fd = entry
        peer = self._peers.get(fd)
        return peer if peer is not None and peer.number == number and peer.timed and peer.due == due else None
