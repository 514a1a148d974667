"""What those who answer requests need of the loop that holds the connections."""

from __future__ import annotations

from typing import Protocol

from relay.serving.peer import Peer


class Desk(Protocol):
    """Where answers go."""

    now: float

    def answer(self, peer: Peer, reply: bytes) -> None:
        """Send the reply to the held request, and let the next ones come."""

    def refuse(self, peer: Peer, reply: bytes) -> None:
        """Send the reply and end the connection."""

    def is_open(self, peer: Peer) -> bool:
        """Whether the connection still exists."""

    def identified(self, peer: Peer, client_id: int, slot: int) -> None:
        """The peer has proved to be that client: bind it here, or where the client belongs."""

    def proven(self, peer: Peer) -> None:
        """The peer has given an admin command that was taken: it may stay."""

    def serve_columns(self, peer: Peer) -> None:
        """From now on polls for columns are answered; the one that the peer's session holds is the first."""
