"""A connection of a client as its server process sees it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from relay.wire.states import State

if TYPE_CHECKING:
    from relay._native import Session


class Peer:
    """A socket with its native session, and who is behind it. `number` is never used again, other than `fd`."""

    __slots__ = (
        "address",
        "asked",
        "busy",
        "client_id",
        "due",
        "fd",
        "goodbye",
        "interest",
        "key",
        "mark",
        "name",
        "number",
        "session",
        "slot",
        "sock",
        "state",
        "timed",
    )

    def __init__(self, sock: socket.socket, session: Session, address: str, number: int) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.session = session
        self.address = address
        self.number = number
        self.state = State.NEW
        self.client_id = 0
        self.slot = 0
        self.name = ""
        self.key = 0
        self.interest = 0  # epoll events waited for
        self.asked = False  # the held request is being answered
        self.busy = False  # its held requests are being gone through
        self.goodbye = False  # we have shut down our side
        self.timed = ""  # what its deadline is about: rows, unsent, goodbye, or "" if it has none
        self.due = 0.0  # when that is
        self.mark = 0  # what the session had counted when the deadline was set
