"""The state of a client's connection in its server process."""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay.protocol.classic_states import State

if TYPE_CHECKING:
    from relay._native import Session


@dataclass(slots=True, eq=False)
class Connection:
    """A socket with its native session and its client.

    `number` is unique in the process, while an `fd` is used again. `local` means that the connection belongs to the
    admin socket.
    """

    sock: socket.socket
    session: Session
    address: str
    number: int
    local: bool = False
    fd: int = field(init=False)
    state: State = State.NEW
    client_id: int = 0
    slot: int = 0
    name: str = ""
    key: int = 0
    interest: int = 0  # epoll events waited for
    answering: bool = False  # the pending request is being answered
    attending: bool = False  # a loop is answering its pending requests
    shut_down: bool = False  # we have shut down our side
    deadline_kind: str = ""  # unsent, goodbye, or "" if it has no deadline
    due: float = 0.0  # when its deadline is over, in monotonic seconds
    counted: int = 0  # the session's counter when the deadline was set

    def __post_init__(self) -> None:
        self.fd = self.sock.fileno()

    @property
    def given_up(self) -> bool:
        """Whether the client has closed the connection, or will send nothing more."""
        poll = select.poll()
        poll.register(self.fd, select.POLLRDHUP)
        return bool(poll.poll(0))
