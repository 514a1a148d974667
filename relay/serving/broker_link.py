"""The way from a server process to the broker: requests, their replies, and what to do while it is away."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Final

from relay import messages
from relay.messages import Done, Order, Reply, Request

GIVE_UP_AFTER: Final = 30.0
"""Seconds after which a request without a reply has failed."""

GIVE_UP_UNBEGUN: Final = 5.0
"""The same while the journal has no beginning: most clients do not wait for longer."""

Then = Callable[[Reply], None]


class _Pending:
    __slots__ = ("asked", "packet", "sent", "then")

    def __init__(self, packet: bytes, then: Then, now: float) -> None:
        self.packet = packet
        self.then = then
        self.asked = self.sent = now


class BrokerLink:
    """Requests in flight to the broker. `ordered` gets what the broker says unasked; `begun` tells whether the journal
    has its beginning, for which the broker waits."""

    def __init__(self, sock: socket.socket, ordered: Callable[[Order], None], begun: Callable[[], bool]) -> None:
        self._socket = sock
        self._ordered = ordered
        self._begun = begun
        self._ids = messages.request_ids(os.getpid())
        self._pending: dict[int, _Pending] = {}

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._socket.fileno()

    @property
    def busy(self) -> bool:
        """Whether replies are awaited."""
        return bool(self._pending)

    def next_id(self) -> int:
        """The id for the next request."""
        return next(self._ids)

    def ask(self, request: Request, now: float, then: Then) -> None:
        """Send a request; `then` is called with its reply, or with a `Done` that says why there is none."""
        pending = _Pending(messages.encode(request), then, now)
        self._pending[request.request] = pending
        self._send(pending.packet)

    def receive(self) -> None:
        """Take every packet that is there."""
        while True:
            try:
                packet = self._socket.recv(messages.MAX_MESSAGE)
            except BlockingIOError:
                return
            message = messages.decode_from_broker(packet)
            if isinstance(message, Order):
                self._ordered(message)
            elif (pending := self._pending.pop(message.request, None)) is not None:
                pending.then(message)

    def tick(self, now: float) -> None:
        """Send again what got no reply, and give up what did not for long."""
        patience, why = GIVE_UP_AFTER, "the broker does not answer; try again"
        if not self._begun():
            patience, why = GIVE_UP_UNBEGUN, "the relay has not reached its source yet, and keeps no rows; try again"
        for number, pending in list(self._pending.items()):
            if now - pending.asked >= patience:
                del self._pending[number]
                pending.then(Done(number, why))
            elif now - pending.sent >= messages.RESEND_AFTER:
                pending.sent = now
                self._send(pending.packet)

    def _send(self, packet: bytes) -> None:
        try:
            self._socket.send(packet)
        except BlockingIOError:
            return  # its buffer is full; `tick` sends it again
